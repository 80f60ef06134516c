"""From an edit to a new version: the watcher, a gate whose champion plays, and a whole training that it triggers."""

import json
import os
import signal
import time
from contextlib import suppress

import pytest
import yaml

from components.avatar.harness.files import load_harness
from pipelines.profile import PROFILES
from pipelines.run import process_start
from tests.unit.pipelines.watch_parts import edit, newest, put_merchant, register_champion, watch

pytestmark = pytest.mark.timeout(1800)


def small_profile():
    """The smoke profile with less of everything that takes time."""
    profile = yaml.safe_load((PROFILES / "smoke.yaml").read_text())
    profile["evaluated_models"] = ["base", "fixed_sft", "hat"]
    profile["sft"] |= {"epochs": 2}
    profile["distillation"] |= {"prompts": 4}
    profile["simulator_rl"] |= {"steps": 1}
    profile["evaluation"] |= {"cases": 6, "robustness_cases": 3, "general_prompts": 4}
    profile["harness_gate"] = {"cases": 4, "max_new_tokens": 8, "min_quality": 1.0}  # a random model has no chance
    return profile


def wait_for(path, seconds=1500):
    until = time.monotonic() + seconds
    while not path.is_file():
        assert time.monotonic() < until, f"{path} did not come"
        time.sleep(0.5)


@pytest.fixture
def no_run_outlives(tmp_path):
    """A triggered run is meant to outlive its watcher; here it must not outlive a test that fails."""
    yield
    for path in tmp_path.glob("runs/*/run.json"):
        record = json.loads(path.read_text())
        with suppress(ProcessLookupError):
            if process_start(record["pid"]) == record["started"]:
                os.killpg(os.getpgid(record["pid"]), signal.SIGKILL)


def test_an_edit_that_the_champion_fails_on_ends_as_a_new_version(tmp_path, no_run_outlives):
    merchant = put_merchant(tmp_path)
    registry = register_champion(tmp_path, harness_digest=load_harness(merchant).digest)
    profile = small_profile()
    status, said = watch(tmp_path, profile)
    assert status == 0 and newest(tmp_path)["state"] == "kept", said  # nothing changed since it was trained

    edit(merchant)
    status, said = watch(tmp_path, profile)
    assert status == 0 and "retrain: champion version 1 has quality" in said, said
    started = newest(tmp_path)
    assert started["state"] == "running", started
    wait_for(tmp_path / "state/jobs" / str(started["id"]) / "status")
    status, said = watch(tmp_path, profile)
    assert status == 0, said

    told = newest(tmp_path)
    log = (tmp_path / "state/jobs" / str(told["id"]) / "run.log").read_text()
    assert (told["state"], told["decision"]) == ("trained", "retrain"), log
    assert told["run"]["model_version"] == "2" and told["run"]["seconds"] > 0
    version = registry.client.get_model_version("avatar-agent", "2")
    assert version.tags["arm"] == "hat" and version.tags["harness_digest"] == load_harness(merchant).digest
    summary = json.loads((tmp_path / "runs" / os.path.basename(told["run"]["where"]) / "summary.json").read_text())
    assert summary["model_version"] == "2"
    assert {step: row["status"] for step, row in summary["steps"].items()}["registration"] == "succeeded"

    status, said = watch(tmp_path, profile)  # nothing is left to do
    assert status == 0 and newest(tmp_path)["id"] == told["id"]
