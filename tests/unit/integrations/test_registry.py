import json
import re
from pathlib import Path

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.models.utils import _enforce_schema
from mlflow.types import DataType

from components.avatar.errors import SystemFault
from components.integrations.lineage import Lineage
from components.integrations.metrics import Metric
from components.integrations.mlmodel import SIGNATURE
from components.integrations.registry import Registry
from components.integrations.release import Release, release_of
from components.integrations.storage import describe
from components.integrations.tracking import MlflowClient

LINEAGE = Lineage(harness_digest="h1", data_digest="d1", code_version="c1", pipeline_run="p1")


@pytest.fixture
def registry(tracking, tmp_path):
    return Registry(tracking, str(tmp_path / "store"), inline_limit_bytes=100)


@pytest.fixture
def make_model(tmp_path):
    def make(name):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"name": name}))
        (folder / "chat_template.jinja").write_text("{{ messages }}")
        (folder / "model.safetensors").write_bytes(name.encode() * 100)
        return folder

    return make


def register(registry, folder, **other):
    with registry.changes() as changes:
        return changes.register(folder, arm=folder.name, release=release_of(folder), lineage=LINEAGE, **other)


def state(registry):
    """Everything that readers of the registry can see."""
    client = registry.client
    models = [m.name for m in client.search_registered_models()]
    logged = client.search_logged_models([registry.tracking.experiment_id])
    aliases = {a: v and v.version for a in ("champion", "challenger") for v in [registry.by_alias(a)]}
    return models, [v.version for v in registry.versions()], sorted(m.name for m in logged), aliases


def test_an_empty_registry_has_nobody(registry):
    assert registry.champion() is None and registry.challenger() is None and registry.versions() == []


def test_a_version_says_where_it_came_from_and_what_it_serves(registry, make_model):
    folder = make_model("hat")
    register(registry, folder)
    [version] = registry.versions()
    release = release_of(folder)
    assert (version.version, version.arm, version.model_digest) == ("1", "hat", describe(folder).digest)
    assert version.release_digest == release.digest
    expected = {"harness_digest": "h1", "data_digest": "d1", "code_version": "c1", "pipeline_run": "p1"}
    assert expected.items() <= version.tags.items() and version.tags["template_digest"] == release.template


def test_weights_stay_in_the_store_and_small_files_show_in_mlflow(registry, make_model, tmp_path):
    folder = make_model("hat")
    version = register(registry, folder)
    names = {p.name for p in (tmp_path / "runs" / "artifacts").rglob("*") if p.is_file()}
    assert names == {"manifest.json", "config.json", "chat_template.jinja", "MLmodel"}
    assert (Path(version.uri) / "model.safetensors").is_file()
    assert describe(registry.fetch(version, tmp_path / "fresh")).digest == describe(folder).digest


EXAMPLE = {
    "messages": [{"role": "system", "content": "You sell tea."}, {"role": "user", "content": "How much is link 3?"}],
    "tools": [{"type": "function", "function": {"name": "price_check", "parameters": {"type": "object"}}}],
}


def test_a_version_has_a_signature_and_an_example_that_fits_it(registry, make_model, tmp_path):
    register(registry, make_model("hat"), example=EXAMPLE)
    [logged] = registry.client.search_logged_models([registry.tracking.experiment_id])
    folder = mlflow.artifacts.download_artifacts(logged.model_uri, dst_path=str(tmp_path / "model"))
    shown = Model.load(folder)
    assert shown.signature == SIGNATURE and shown.get_output_schema().input_types() == [DataType.string]
    assert shown.load_input_example(folder) == EXAMPLE
    _enforce_schema(EXAMPLE, shown.signature.inputs)
    for wrong in (EXAMPLE | {"messages": "hello"}, {"tools": EXAMPLE["tools"]}):
        with pytest.raises(MlflowException):
            _enforce_schema(wrong, shown.signature.inputs)
    assert shown.flavors["avatar_agent"]["uri"] == registry.versions()[0].uri
    with pytest.raises(MlflowException, match="python_function"):  # the weights are not here, and nothing says they are
        mlflow.pyfunc.load_model(folder)


def test_the_description_of_a_version_says_what_made_it(registry, make_model):
    origin = Lineage("h1", "d1", "c1", pipeline_run="p1", harness_run="r1", training_run="r2")
    folder = make_model("hat")
    with registry.changes() as changes:
        changes.register(folder, arm="hat", release=release_of(folder), lineage=origin)
    text = registry.client.get_model_version("avatar-agent", "1").description
    experiment = registry.tracking.experiment_id
    assert all(f"`{digest}`" in text for digest in ("h1", "d1", "c1", release_of(folder).digest))
    links = re.findall(r"\[([^]]+)\]\(#/experiments/(\d+)/runs/(\w+)\)", text)
    assert links == [
        ("pipeline run", experiment, "p1"),
        ("harness_gate", experiment, "r1"),
        ("its last stage", experiment, "r2"),
    ]
    assert "evaluation_run" not in registry.versions()[0].tags  # what is not known is not said


def test_tags_that_others_gave_a_version_do_not_make_it_another(registry, make_model):
    folder = make_model("hat")
    first = register(registry, folder)
    registry.client.set_model_version_tag("avatar-agent", first.version, "canary.state", "finished")
    assert register(registry, folder).version == first.version and len(registry.versions()) == 1


@pytest.mark.parametrize("twice", ["create_logged_model", "create_model_version", "create_registered_model"])
def test_a_request_that_was_sent_again_leaves_one_of_each(registry, make_model, monkeypatch, twice):
    """The answer was lost, the server had done its work, and MLflow's client sent the request again."""
    real = getattr(MlflowClient, twice)

    def again(self, *args, **kwargs):
        real(self, *args, **kwargs)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(MlflowClient, twice, again)
    made = register(registry, make_model("hat"))
    assert [version.version for version in registry.versions()] == [made.version]
    assert len(registry.client.search_logged_models([registry.tracking.experiment_id])) == 1


@pytest.mark.parametrize(
    "lost", ["create_logged_model", "finalize_logged_model", "create_model_version", "create_registered_model"]
)
def test_a_request_that_was_done_though_it_failed_is_undone(registry, make_model, monkeypatch, lost):
    before, real = state(registry), getattr(MlflowClient, lost)

    def silent(self, *args, **kwargs):
        real(self, *args, **kwargs)
        raise MlflowException("the answer never came")

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, lost, silent)
        with pytest.raises(SystemFault, match="the answer never came"):
            register(registry, make_model("hat"))
    assert state(registry) == before


@pytest.mark.parametrize("empty", ["finalize_logged_model", "log_model_artifacts", "set_registered_model_alias"])
def test_an_answer_of_nothing_is_no_registration(registry, make_model, monkeypatch, empty):
    """HTTP 200 of something that is not MLflow: nothing was done, and the registry stays as it was."""
    before = state(registry)
    folder = make_model("hat")
    monkeypatch.setattr(MlflowClient, empty, lambda self, *args, **kwargs: None)
    with pytest.raises(SystemFault, match="makes no sense"), registry.changes() as changes:
        made = changes.register(folder, arm="hat", release=release_of(folder), lineage=LINEAGE)
        changes.set_alias("challenger", made.version)
    assert state(registry) == before


def test_aliases_name_versions_and_move(registry, make_model):
    for name, alias in (("base", "champion"), ("hat", "challenger"), ("next", "challenger")):
        with registry.changes() as changes:
            folder = make_model(name)
            made = changes.register(folder, arm=name, release=release_of(folder), lineage=LINEAGE)
            changes.set_alias(alias, made.version)
    assert registry.champion().arm == "base" and registry.challenger().arm == "next"


def test_metrics_of_the_model_are_shown_with_it(registry, make_model, tracking):
    with tracking.step_run(None, "registration") as run:
        register(registry, make_model("hat"), run_id=run.run_id, metrics={"T2": Metric(0.75, 200), "x": Metric(0, 0)})
    [model] = registry.client.search_logged_models([tracking.experiment_id])
    assert [(m.key, m.value) for m in model.metrics] == [("T2", 0.75)] and model.source_run_id == run.run_id


def test_the_same_model_with_the_same_lineage_is_one_version(registry, make_model):
    folder = make_model("hat")
    assert register(registry, folder) == register(registry, folder)
    with registry.changes() as changes:
        other = Lineage("h2", "d1", "c1", "p2")
        changes.register(folder, arm="hat", release=release_of(folder), lineage=other)
    assert len(registry.versions()) == 2


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "broken",
    [
        "create_logged_model",
        "log_model_artifacts",
        "finalize_logged_model",
        "create_model_version",
        "set_registered_model_alias",
    ],
)
def test_a_failure_anywhere_leaves_the_registry_as_it_was(registry, make_model, monkeypatch, broken, first):
    if not first:
        with registry.changes() as changes:
            folder = make_model("old")
            made = changes.register(folder, arm="old", release=release_of(folder), lineage=LINEAGE)
            changes.set_alias("champion", made.version)
            changes.set_alias("challenger", made.version)
    before = state(registry)

    def fail(self, *args, **kwargs):
        raise ConnectionError("the server went away")

    folder = make_model("hat")
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, broken, fail)
        with pytest.raises(ConnectionError), registry.changes() as changes:
            made = changes.register(folder, arm="hat", release=release_of(folder), lineage=LINEAGE)
            changes.set_alias("challenger", made.version)
    assert state(registry) == before
    assert register(registry, folder).arm == "hat"  # and the next try succeeds


def test_a_failure_after_everything_was_done_undoes_everything(registry, make_model):
    before = state(registry)
    with pytest.raises(SystemFault), registry.changes() as changes:
        for name, alias in (("base", "champion"), ("hat", "challenger")):
            folder = make_model(name)
            made = changes.register(folder, arm=name, release=release_of(folder), lineage=LINEAGE)
            changes.set_alias(alias, made.version)
        raise SystemFault("the fresh copy answers differently")
    assert state(registry) == before == ([], [], [], {"champion": None, "challenger": None})


def test_a_moved_alias_goes_back(registry, make_model):
    register(registry, make_model("one"))
    register(registry, make_model("two"))
    with registry.changes() as changes:
        changes.set_alias("champion", "1")
    with pytest.raises(SystemFault), registry.changes() as changes:
        changes.set_alias("champion", "2")
        raise SystemFault("x")
    assert registry.champion().version == "1"


def test_undoing_never_deletes_a_version_that_was_there_before(registry, make_model):
    folder = make_model("hat")
    register(registry, folder)
    with pytest.raises(SystemFault), registry.changes() as changes:
        changes.register(folder, arm="hat", release=release_of(folder), lineage=LINEAGE)
        raise SystemFault("x")
    assert [v.version for v in registry.versions()] == ["1"]


def test_a_folder_that_changes_meanwhile_is_not_registered(registry, make_model):
    folder = make_model("hat")
    release = release_of(folder)
    (folder / "config.json").write_text("{}")
    with pytest.raises(SystemFault, match="changed"), registry.changes() as changes:
        changes.register(folder, arm="hat", release=release, lineage=LINEAGE)
    assert registry.versions() == []


def test_release_digest_depends_on_each_of_its_parts(make_model):
    release = Release("m", "a", "t", ("--max-model-len", "2048"))
    others = [Release("x", "a", "t"), Release("m", "x", "t"), Release("m", "a", "x"), Release("m", "a", "t", ("x",))]
    assert len({r.digest for r in [release, *others, Release("m", "a", "t", ("2048", "--max-model-len"))]}) == 6


def test_the_adapter_of_a_folder_is_part_of_its_release(make_model):
    folder = make_model("hat")
    merged = release_of(folder)
    (folder / "adapter").mkdir()
    (folder / "adapter" / "adapter_model.safetensors").write_bytes(b"1")
    assert merged.adapter == "" and release_of(folder).adapter != "" and release_of(folder).digest != merged.digest
