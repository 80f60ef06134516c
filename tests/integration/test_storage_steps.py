"""Steps hand over through a real S3 server, as on a cluster: manifests in the artifact, everything big in the store,
encrypted as the profile says.
"""

import json
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient
from pydantic import BaseModel

from components.integrations.artifacts import KEPT_BYTES
from components.integrations.metrics import Metric, write_json
from components.integrations.objects import open_objects
from components.integrations.storage import Manifest, describe
from components.integrations.task import Context, run_task
from pipelines.profile import PROFILES, load_profile
from pipelines.submit import arguments

ROWS = "".join(f'{{"id": {number}}}\n' for number in range(1000))
LARGE = {"names": ["x" * KEPT_BYTES]}


class Nothing(BaseModel):
    pass


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture
def parameters(s3, request, tmp_path, monkeypatch):
    """What `make pipeline-submit` starts a run with, for a copy of h20 that names this server's bucket."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(s3.credentials))
    stated = yaml.safe_load((PROFILES / "h20.yaml").read_text())
    stated |= {"storage_uri": f"s3://{s3.bucket}/{request.node.name}", "storage_encryption": "AES256"}
    path = tmp_path / "profile.yaml"
    path.write_text(yaml.safe_dump(stated))
    return arguments(load_profile(str(path)))


@pytest.fixture
def context(parameters, database, tmp_path):
    changed = {"tracking_uri": database, "cache_dir": str(tmp_path / "cache")}
    return Context.model_validate_json(parameters["context"]).model_copy(update=changed)


def task(context: Context, name: str, folder: Path, work, **inputs: Path) -> Path:
    """One step as its wrapper runs it; its artifact."""
    run_task(
        name,
        work,
        output=str(folder / name),
        context=context.model_dump_json(),
        settings=Nothing(),
        seed=0,
        inputs=lambda where: inputs,
    )
    return folder / name


def write(*, output, settings, seed, progress):
    (output / "trajectories.jsonl").write_text(ROWS)
    write_json(output / "surfaces.json", LARGE)
    write_json(output / "gate.json", {"retrain": True})
    for path in ("docs/index.html", "docs/static/style.css", "merchant/skills/price/SKILL.md"):
        (output / path).parent.mkdir(parents=True, exist_ok=True)
        (output / path).write_text(path)
    (output / "trainer" / "empty").mkdir(parents=True)
    return {"trajectories": Metric(1000, 1)}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


def keys(s3, context) -> list[str]:
    prefix = context.storage_uri.removeprefix(f"s3://{s3.bucket}/")
    return [row["Key"] for row in s3.client().list_objects_v2(Bucket=s3.bucket, Prefix=f"{prefix}/")["Contents"]]


def test_a_data_set_is_handed_over_by_its_manifest_and_every_object_is_encrypted(s3, context, parameters, tmp_path):
    artifact = task(context, "teacher_generation", tmp_path, write)
    stored = {"trajectories.jsonl", "surfaces.json", "docs", "merchant"}
    manifests = {f"{name}.manifest.json" for name in stored}
    assert names(artifact) == manifests | {"gate.json", "metrics.json", "done.json"}
    assert sum(path.stat().st_size for path in artifact.rglob("*") if path.is_file()) < 20_000
    manifest = Manifest.model_validate_json((artifact / "trajectories.jsonl.manifest.json").read_text())
    assert manifest.uri == f"{context.storage_uri}/{manifest.digest}" and manifest.size == len(ROWS)

    found = keys(s3, context)
    assert any(key.endswith(f"{parameters['merchant_digest']}/harness.yaml") for key in found)  # put there by submit
    assert any(key.endswith("/trajectories.jsonl") for key in found)
    for key in found:  # manifests, too
        assert s3.client().head_object(Bucket=s3.bucket, Key=key)["ServerSideEncryption"] == "AES256", key

    seen = {}

    def read(*, trajectories, merchant, surfaces, output, settings, seed, progress):
        seen["rows"] = (trajectories / "trajectories.jsonl").read_text()
        seen["flag"] = json.loads((trajectories / "gate.json").read_text())
        seen["surfaces"] = json.loads(surfaces.read_text())
        seen["skill"] = (merchant / "skills/price/SKILL.md").read_text()
        return {}

    task(
        context, "data_validation", tmp_path, read,
        trajectories=artifact, merchant=artifact / "merchant", surfaces=artifact / "surfaces.json",
    )  # fmt: skip
    expected = {"rows": ROWS, "flag": {"retrain": True}, "surfaces": LARGE, "skill": "merchant/skills/price/SKILL.md"}
    assert seen == expected

    client = MlflowClient(context.tracking_uri)
    [experiment] = [e for e in client.search_experiments() if e.name == context.experiment]
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    writer, reader = runs["teacher_generation"], runs["data_validation"]
    assert writer.data.tags["output.trajectories.jsonl"] == manifest.digest
    assert reader.data.tags["input.trajectories"] == reader.data.tags["input.merchant"] == writer.info.run_id
    sources = {given.dataset.name: json.loads(given.dataset.source)["uri"] for given in reader.inputs.dataset_inputs}
    surfaces = Manifest.model_validate_json((artifact / "surfaces.json.manifest.json").read_text())
    assert sources["surfaces"] == surfaces.uri
    assert {file.path for file in client.list_artifacts(writer.info.run_id, "docs")} == {
        "docs/index.html",
        "docs/static",
    }


def test_the_same_data_is_uploaded_once_and_a_repeated_reader_fetches_nothing_again(s3, context, tmp_path):
    first = task(context, "teacher_generation", tmp_path / "1", write)
    before = {key: s3.client().head_object(Bucket=s3.bucket, Key=key)["LastModified"] for key in keys(s3, context)}
    second = task(context, "teacher_generation", tmp_path / "2", write)
    again = keys(s3, context)
    assert set(again) == set(before)
    assert (first / "docs.manifest.json").read_text() == (second / "docs.manifest.json").read_text()
    place = context.artifact(first / "trajectories.jsonl")
    inode = place.stat().st_ino
    assert context.artifact(first / "trajectories.jsonl").stat().st_ino == inode
    assert not (place.parent / "docs").exists()  # only what was asked for


def test_an_object_deleted_behind_a_cache_hit_fails_the_reader_and_says_what_to_do(context, tmp_path, capsys):
    artifact = task(context, "teacher_generation", tmp_path, write)  # what a cache hit hands to the next step
    manifest = Manifest.model_validate_json((artifact / "trajectories.jsonl.manifest.json").read_text())

    def read(*, trajectories, output, settings, seed, progress):
        raise AssertionError("there is nothing to read")

    for key in (f"{manifest.digest}/trajectories.jsonl", f"{manifest.digest}.json"):
        open_objects(context.storage_uri).delete(key)
        with pytest.raises(SystemExit):
            task(context, "harness_augmentation", tmp_path, read, trajectories=artifact)
        said = capsys.readouterr().out
        assert manifest.digest in said and "run the step that made it again, without its cache" in said
        assert not (tmp_path / "harness_augmentation").exists()

    again = task(context, "teacher_generation", tmp_path / "again", write)  # without its cache
    assert describe(context.artifact(artifact / "trajectories.jsonl")).digest == manifest.digest
    assert names(again) == names(artifact)


def test_a_store_that_fails_leaves_no_output(context, tmp_path, capsys):
    broken = context.model_copy(update={"storage_uri": "s3://no-such-bucket/weights"})
    with pytest.raises(SystemExit):
        task(broken, "teacher_generation", tmp_path, write)
    assert "s3://no-such-bucket" in capsys.readouterr().out
    assert not (tmp_path / "teacher_generation").exists()
    client = MlflowClient(context.tracking_uri)
    [experiment] = [e for e in client.search_experiments() if e.name == context.experiment]
    newest = client.search_runs([experiment.experiment_id], order_by=["start_time DESC"])[0]
    assert newest.info.status == "FAILED"
