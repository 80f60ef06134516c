import json
from pathlib import Path

import pytest

from components.avatar.errors import SystemFault
from components.integrations.metrics import Metric
from components.integrations.registry import Lineage, Registry
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
    assert names == {"manifest.json", "config.json", "chat_template.jinja"}
    assert (Path(version.uri) / "model.safetensors").is_file()
    assert describe(registry.fetch(version, tmp_path / "fresh")).digest == describe(folder).digest


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
