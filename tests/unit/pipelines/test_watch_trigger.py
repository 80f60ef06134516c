"""Runs are started once, outlive the watcher, are resumed when they were killed, and say how they ended."""

import json
import os
import signal
import sys
import time

import pytest
import yaml

from pipelines.profile import load_profile
from pipelines.steps import STEPS
from pipelines.watch.history import runs_of
from pipelines.watch.queue import Change, Facts
from pipelines.watch.trigger import LocalRuns

CHANGE = Change(7, "lumi", "d" * 64, "running", 0.0, 0.0, True, Facts())
PROGRAM = """
import json, os, pathlib, sys, time
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
run = pathlib.Path(arguments.get("--run-dir") or arguments["--resume"])
run.mkdir(parents=True, exist_ok=True)
(run / "run.json").write_text(json.dumps({"pid": os.getpid()}))
while not (run / "end").exists():
    time.sleep(0.02)
code = int((run / "end").read_text())
if code == 0:
    steps = {step: {"status": "succeeded", "seconds": 30.0} for step in STEPS}
    canary = {"verdict": "promote", "why": "more sales"}
    summary = {"profile": "smoke", "steps": steps, "model_version": 2, "canary": canary}
    (run / "summary.json").write_text(json.dumps(summary))
else:
    print("FAILED in step sft_hsa: no memory", flush=True)
sys.exit(code)
""".replace("STEPS", repr(STEPS))


@pytest.fixture
def local(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)

    def make():
        program = (sys.executable, str(tmp_path / "program.py"))
        return LocalRuns(load_profile("smoke"), tmp_path / "jobs", tmp_path / "runs", "abc", program)

    yield make
    for record in (tmp_path / "runs").glob("*/run.json"):
        (record.parent / "end").write_text("1")  # whatever a test left running


def advance(runs, tmp_path):
    return runs.advance(CHANGE, tmp_path / "version/lumi", "s3://b/merchants/d")


def until(found, seconds=60):
    """The first true value; the program is another process."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return value


def started(local, tmp_path):
    runs = local()
    assert advance(runs, tmp_path) is None
    run_dir = tmp_path / "runs" / "watch-lumi-dddddddd-abc7"
    until(lambda: (run_dir / "run.json").is_file() and (run_dir / "run.json").read_text())
    return runs, run_dir


def test_a_run_is_started_once_with_the_accepted_version_and_a_gate_that_lets_it_train(local, tmp_path):
    runs, run_dir = started(local, tmp_path)
    assert advance(runs, tmp_path) is None and advance(local(), tmp_path) is None  # also after a restart
    assert len((tmp_path / "jobs/7/starts").read_text().splitlines()) == 1
    profile = yaml.safe_load((tmp_path / "jobs/7/profile.yaml").read_text())
    assert profile["merchant"] == str(tmp_path / "version/lumi") and profile["harness_gate"] == {"mode": "always"}
    assert load_profile(str(tmp_path / "jobs/7/profile.yaml")).name == "smoke"
    (run_dir / "end").write_text("0")
    ended = until(lambda: advance(runs, tmp_path))
    assert ended.ok and ended.model_version == "2" and "more sales" in ended.why
    assert ended.seconds == 30.0 * (len(STEPS) - 1)  # the gate is no training
    assert advance(local(), tmp_path) == ended  # told again after a restart
    assert runs_of("smoke", tmp_path / "runs") == [ended.seconds] and runs_of("local", tmp_path / "runs") == []


def test_a_failed_run_says_its_step(local, tmp_path):
    runs, run_dir = started(local, tmp_path)
    (run_dir / "end").write_text("1")
    ended = until(lambda: advance(runs, tmp_path))
    assert not ended.ok and "FAILED in step sft_hsa: no memory (status 1)" in ended.why


def test_a_run_that_was_killed_with_its_shell_is_resumed_and_not_for_ever(local, tmp_path):
    runs, run_dir = started(local, tmp_path)
    starts = tmp_path / "jobs/7/starts"
    for count in (1, 2, 3):
        shell, program = runs._children[-1].pid, json.loads((run_dir / "run.json").read_text())["pid"]
        (run_dir / "run.json").write_text("{}")
        os.kill(shell, signal.SIGKILL)  # as a reboot would, no status is left
        os.kill(program, signal.SIGKILL)
        if count < 3:
            until(lambda c=count: advance(runs, tmp_path) is None and len(starts.read_text().splitlines()) == c + 1)
            assert starts.read_text().splitlines()[-1] == f"--resume {run_dir}"
            until(lambda: "pid" in json.loads((run_dir / "run.json").read_text() or "{}"))
    ended = until(lambda: advance(runs, tmp_path))
    assert not ended.ok and "killed 3 times" in ended.why and "--resume" in ended.why


def test_a_summary_that_is_not_whole_gives_no_duration(tmp_path):
    steps = {step: {"status": "succeeded", "seconds": 1.0} for step in STEPS} | {"sft_hsa": {"status": "cached"}}
    for name, text in (("a", json.dumps({"profile": "smoke", "steps": steps})), ("b", "{"), ("c", "[]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text(text)
    assert runs_of("smoke", tmp_path) == []
