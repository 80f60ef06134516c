import errno
import json
import shutil
from pathlib import Path

import mlflow
import pytest
from mlflow.models import Model

from components.avatar.errors import InputError, SystemFault
from components.avatar.harness.render import system_prompt
from components.avatar.simulator.merchant import load_merchant
from components.integrations.objects import FolderObjects
from components.integrations.progress import Progress
from components.integrations.registry import Changes, Registry
from components.integrations.storage import describe
from components.integrations.tracking import MlflowClient, Tracking
from components.registration import run as registration
from components.registration.settings import Settings
from components.registration.verify import Sameness, same_generation

LINEAGE = {"harness_digest": "h1", "data_digest": "d1", "code_version": "c1", "pipeline_run": "p1"}
MERCHANT = Path(__file__).parents[3] / "infra/harnesses/lumi-beauty"
GOOD = {"base": 0.5, "fixed_sft": 0.5, "hat": 0.9}


@pytest.fixture
def start(tiny_models, tracking_uri, tmp_path):
    def start(evaluation, output="out", **changed):
        given = {
            "hat": tiny_models["hat"],
            "fixed_sft": tiny_models["fixed_sft"],
            "evaluation": evaluation,
            "merchant": MERCHANT,
            "lineage": LINEAGE,
            "tracking_uri": tracking_uri,
            "experiment": "avatar",
            "output": tmp_path / output,
            "settings": Settings(verify_tokens=4),
            "seed": 0,
            "progress": Progress("registration"),
        } | changed
        metrics = registration.run(**given)
        return json.loads((tmp_path / output / "registration.json").read_text()), metrics

    return start


@pytest.fixture
def registry(tracking_uri, tmp_path):
    return Registry(Tracking(tracking_uri, "avatar"), str(tmp_path / "runs" / "models"))


@pytest.fixture
def no_generation(monkeypatch):
    """Verification itself is tested elsewhere; here its cost is saved."""
    monkeypatch.setattr(registration, "same_generation", lambda a, b, max_new_tokens: Sameness(1))


def state(registry):
    aliases = [v and v.version for v in (registry.champion(), registry.challenger())]
    logged = registry.client.search_logged_models([registry.tracking.experiment_id])
    models = [m.name for m in registry.client.search_registered_models()]
    return models, [(v.version, v.arm) for v in registry.versions()], len(logged), aliases


def test_the_first_run_makes_the_baseline_champion_and_the_good_model_challenger(
    start, registry, write_evaluation, tiny_models, tmp_path
):
    result, metrics = start(write_evaluation(**GOOD))
    assert state(registry)[1:] == ([("1", "fixed_sft"), ("2", "hat")], 2, ["1", "2"])
    assert (result["model_version"], result["champion"]["version"], result["challenger"]["version"]) == ("2", "1", "2")
    assert all(gate["passed"] and "n=400" in gate["why"] for gate in result["gates"].values())
    assert (metrics["gates_passed"].value, metrics["gates_passed"].n, metrics["promoted_to_challenger"].value) == (
        1,
        5,
        1,
    )
    assert metrics["same_generation"].n > 0
    fresh = registry.fetch(registry.challenger(), tmp_path / "fresh")
    assert describe(fresh).digest == describe(tiny_models["hat"]).digest == result["challenger"]["model_digest"]
    assert same_generation(fresh, tiny_models["hat"], max_new_tokens=6).same
    assert registry.challenger().tags["harness_digest"] == "h1"


def test_a_failed_gate_promotes_nobody_and_is_no_error(start, registry, write_evaluation, no_generation):
    result, metrics = start(write_evaluation(**GOOD | {"hat": 0.52}))
    assert not result["gates"]["t2_lead"]["passed"] and result["gates"]["gap"]["passed"]
    assert result["challenger"] is None and result["model_version"] == "2"
    assert state(registry)[3] == ["1", None] and metrics["promoted_to_challenger"].value == 0
    assert 0 < metrics["gates_passed"].value < 1


def test_a_champion_stays_and_the_baseline_is_not_registered_again(start, registry, write_evaluation, no_generation):
    start(write_evaluation(**GOOD))
    result, _ = start(write_evaluation(**GOOD), lineage=LINEAGE | {"harness_digest": "h2", "pipeline_run": "p2"})
    assert [(v.version, v.arm) for v in registry.versions()] == [("1", "fixed_sft"), ("2", "hat"), ("3", "hat")]
    assert (result["champion"]["version"], result["challenger"]["version"]) == ("1", "3")


def test_without_a_baseline_the_base_model_is_the_first_champion(
    start, registry, write_evaluation, tiny_models, no_generation
):
    start(write_evaluation(base=0.5, hat=0.9), fixed_sft=None, base=tiny_models["base"])
    assert registry.champion().arm == "base"


def test_a_repeated_step_registers_nothing_twice(start, registry, write_evaluation, no_generation):
    first, _ = start(write_evaluation(**GOOD))
    again, _ = start(write_evaluation(**GOOD))
    assert first == again and len(registry.versions()) == 2


def test_the_run_is_linked_and_the_figures_of_the_arm_are_shown(start, registry, write_evaluation, no_generation):
    with registry.tracking.step_run(None, "registration") as step:
        start(write_evaluation(**GOOD), run_id=step.run_id)
    figures = {}
    for model in registry.client.search_logged_models([registry.tracking.experiment_id]):
        assert model.source_run_id == step.run_id
        figures[model.name] = {m.key: m.value for m in model.metrics}
    assert figures["hat"]["T2"] == 0.9 and figures["fixed_sft"]["T2"] == 0.5 and figures["hat"]["latency_ms"] == 9.5


def test_versions_show_the_merchants_harness_as_their_input_example(
    start, registry, write_evaluation, no_generation, tmp_path
):
    start(write_evaluation(**GOOD))
    world = load_merchant(MERCHANT)
    for version in registry.client.search_model_versions("name = 'avatar-agent'"):
        place = mlflow.artifacts.download_artifacts(version.source, dst_path=str(tmp_path / "shown"))
        example = Model.load(place).load_input_example(place)
        assert example["messages"][0]["content"] == system_prompt(world.harness)
        assert example["messages"][1]["content"] == world.questions[0].text
        assert [tool["function"]["name"] for tool in example["tools"]] == [tool.name for tool in world.harness.tools]


def test_the_baseline_has_the_lineage_of_its_own_data(start, registry, write_evaluation, no_generation):
    start(write_evaluation(**GOOD), first_lineage={"data_digest": "d0", "training_run": "t0"})
    first, second = registry.versions()
    assert (first.tags["data_digest"], first.tags["training_run"]) == ("d0", "t0")
    assert (second.tags["data_digest"], "training_run" in second.tags) == ("d1", False)
    assert first.tags["harness_digest"] == second.tags["harness_digest"] == "h1"


BOTH = [
    (MlflowClient, "create_logged_model"),
    (MlflowClient, "log_model_artifacts"),
    (MlflowClient, "finalize_logged_model"),
    (MlflowClient, "create_model_version"),
    (MlflowClient, "set_registered_model_alias"),
    (FolderObjects, "upload"),
    (FolderObjects, "write"),
    (FolderObjects, "download"),
]  # called for the baseline and for the new model
FAULTS = [(owner, name, at) for owner, name in BOTH for at in (0, 1)] + [(MlflowClient, "create_registered_model", 0)]


@pytest.mark.parametrize(("owner", "name", "at"), FAULTS, ids=[f"{name}-{at}" for _, name, at in FAULTS])
def test_a_fault_half_way_leaves_nothing_half_registered(
    start, registry, write_evaluation, no_generation, monkeypatch, tmp_path, owner, name, at
):
    real, count = getattr(owner, name), iter(range(1000))

    def sometimes(self, *args, **kwargs):
        if next(count) == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, *args, **kwargs)

    before = state(registry)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, sometimes)
        with pytest.raises(OSError):
            start(write_evaluation(**GOOD))
    assert state(registry) == before and not (tmp_path / "out" / "registration.json").exists()
    start(write_evaluation(**GOOD))
    assert [v.arm for v in registry.versions()] == ["fixed_sft", "hat"]


def test_a_full_disk_while_writing_the_result_undoes_the_registration(
    start, registry, write_evaluation, no_generation, monkeypatch
):
    def full(path, value):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = state(registry)
    monkeypatch.setattr(registration, "write_json", full)
    with pytest.raises(OSError):
        start(write_evaluation(**GOOD))
    assert state(registry) == before


def test_a_copy_that_answers_differently_is_not_registered(start, registry, write_evaluation, tiny_models, monkeypatch):
    """Someone swaps the weights behind the registry's back: digests are made to agree, generation tells."""

    def swapped(self, registered, target):
        return shutil.copytree(tiny_models["base"], target)

    before = state(registry)
    monkeypatch.setattr(Registry, "fetch", swapped)
    with pytest.raises(SystemFault, match="is not the trained fixed_sft: greedy ids"):
        start(write_evaluation(**GOOD))
    assert state(registry) == before


def test_all_bad_inputs_are_said_at_once_and_nothing_is_registered(start, registry, write_evaluation, tmp_path):
    evaluation = write_evaluation(**GOOD)
    report = json.loads((evaluation / "evaluation.json").read_text())
    report["models"]["hat"]["free"]["T1"] = {"value": 81, "n": 400}
    report["models"]["base"] = 3
    (evaluation / "evaluation.json").write_text(json.dumps(report))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError) as caught:
        start(
            evaluation,
            hat=tmp_path / "empty",
            fixed_sft=tmp_path / "missing",
            merchant=tmp_path / "nobody",
            lineage={"x": "y"},
        )
    fields = {fault.field for fault in caught.value.faults}
    figures, origin, folders = (
        {"models.hat.free.T1", "models.base"},
        {"harness_digest", "x"},
        {"*.safetensors", "folder"},
    )
    assert figures | origin | folders <= fields
    assert any("nobody" in fault.file for fault in caught.value.faults)
    assert registry.versions() == []


def test_a_server_without_a_store_is_refused(start, write_evaluation, monkeypatch):
    monkeypatch.setattr(Tracking, "__init__", lambda self, uri, experiment: setattr(self, "folder", None))
    with pytest.raises(InputError, match="storage_uri"):
        start(write_evaluation(**GOOD))


def test_a_step_that_was_killed_before_the_aliases_is_taken_up_by_the_next_try(
    start, registry, write_evaluation, no_generation, monkeypatch
):
    def killed(self, alias, version):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Changes, "_on_failure", lambda self, action, what: None)  # nothing runs after a kill
        patch.setattr(Changes, "set_alias", killed)
        with pytest.raises(KeyboardInterrupt):
            start(write_evaluation(**GOOD))
    left = registry.versions()
    assert [v.arm for v in left] == ["fixed_sft", "hat"] and all(v.tags["harness_digest"] == "h1" for v in left)
    assert registry.champion() is None and registry.challenger() is None  # whole, but serving nobody
    start(write_evaluation(**GOOD))
    assert registry.versions() == left and registry.challenger().version == "2"
