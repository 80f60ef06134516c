"""From the version on air to harness, data, code, run and rollout: three clicks, followed through MLflow's REST API as
the UI does, on a real server.
"""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from pydantic import BaseModel

from components.avatar.harness.files import load_harness
from components.harness_gate.component import harness_gate
from components.integrations.metrics import Metric, read_json, write_json
from components.integrations.registry import Registry
from components.integrations.task import Context, run_task
from components.integrations.tracking import Tracking
from components.registration.component import registration
from tests.integration.mlflow_servers import mlflow_up
from tests.unit.integrations.episode_rows import failed_row, passed_row
from tests.unit.registration.conftest import save_tiny

MERCHANT = Path(__file__).parents[2] / "infra/harnesses/lumi-beauty"
EXPERIMENT = "lineage"
LINK = re.compile(r"\[([^]]+)\]\(#/experiments/\d+/runs/(\w+)\)")
VERSION_LINK = re.compile(r"#/models/avatar-agent/versions/(\d+)")


class Nothing(BaseModel):
    pass


class Pipeline:
    """The real gate and registration; between them stand-ins that write what the next ones read."""

    def __init__(self, folder: Path, uri: str, storage_uri: str) -> None:
        self.folder, self.store, self.tracking = folder, storage_uri, Tracking(uri, EXPERIMENT)
        self.parent = self.tracking.start_pipeline_run("pipeline", tags={"code_version": "c0de"})
        self.context = Context(
            tracking_uri=uri, experiment=EXPERIMENT, storage_uri=storage_uri, cache_dir=str(folder / "cache")
        ).model_dump_json()
        self.common = {"settings": "{}", "seed": 0, "code": "x", "context": self.context}

    def artifact(self, step: str) -> SimpleNamespace:
        return SimpleNamespace(path=str(self.folder / step))

    def step(self, name: str, files: dict[str, object], **inputs: Path) -> None:
        """A step that reads `inputs` and writes `files`; a callable makes a folder, or does something else."""

        def work(*, output, settings, seed, progress, **_):
            for file, content in files.items():
                if callable(content):
                    content(output / file)
                elif file.endswith("l"):
                    (output / file).write_text("".join(json.dumps(row) + "\n" for row in content))
                else:
                    write_json(output / file, content)
            return {"done": Metric(1.0, 1)}

        run_task(
            name,
            work,
            output=str(self.folder / name),
            context=self.context,
            settings=Nothing(),
            seed=0,
            inputs=lambda where: inputs,
        )

    def run(self) -> None:
        folder = self.folder
        harness_gate.python_func(
            merchant=str(MERCHANT), merchant_digest="m", output=self.artifact("harness_gate"), **self.common
        )
        merchant = folder / "harness_gate" / "merchant"
        data = {"fixed.jsonl": [{"a": 1}], "hsa.jsonl": [{"a": 1}, {"a": 2}], "surfaces.json": {}}
        self.step("harness_augmentation", data, merchant=merchant)
        for seed, arm in enumerate(("fixed", "hsa")):
            model = {"model": lambda place, seed=seed: save_tiny(place, seed)}
            self.step(f"sft_{arm}", model, examples=folder / "harness_augmentation" / f"{arm}.jsonl")
        rl = {"model": lambda place: save_tiny(place, 2)}
        self.step("simulator_rl", rl, model=folder / "sft_hsa" / "model", merchant=merchant)
        figures = {name: {"value": 0.9, "n": 400} for name in ("T1", "T2", "general")}
        figures["gap"] = {"value": 0.0, "ci": [-0.02, 0.02], "n": 400}
        worse = figures | {"T2": {"value": 0.3, "n": 400}}
        report = {"base": {"free": figures}, "fixed_sft": {"free": worse}, "hat": {"free": figures}}
        cases = [failed_row(0, arm="hat"), passed_row(1, arm="hat"), failed_row(2, arm="fixed_sft")]
        evaluated = {"evaluation.json": {"models": report}, "cases.jsonl": cases}
        self.step("evaluation", evaluated, merchant=merchant, surfaces=folder / "harness_augmentation/surfaces.json")
        registration.python_func(
            gate=self.artifact("harness_gate"),
            examples=self.artifact("harness_augmentation"),
            hat=self.artifact("simulator_rl"),
            fixed_sft=self.artifact("sft_fixed"),
            evaluation=self.artifact("evaluation"),
            code_version="c0de",
            output=self.artifact("registration"),
            **(self.common | {"settings": '{"verify_tokens": 2}'}),
        )
        promoted = {"canary.json": {}, "promote": lambda _: self.promote("2")}
        self.step("canary_deploy", promoted, registration=folder / "registration", merchant=merchant)

    def promote(self, version: str) -> None:
        with Registry(self.tracking, str(self.folder)).changes() as changes:
            changes.set_alias("champion", version)


@pytest.fixture(scope="module")
def pipeline(s3, tmp_path_factory):
    """A finished pipeline, on a server of its own: others count what is in the registry."""
    folder = tmp_path_factory.mktemp("pipeline")
    with mlflow_up(folder) as uri, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(s3.credentials))
        patch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
        made = Pipeline(folder, uri, f"s3://{s3.bucket}/lineage")
        patch.setenv("MLFLOW_RUN_ID", made.parent)  # as Kubeflow's plugin hands it to a pod
        made.run()
        yield made


@pytest.fixture
def get(pipeline):
    """What the UI asks the server."""

    def get(place, **query):
        answer = httpx.get(f"{pipeline.tracking.uri}/{place}", params=query, timeout=30)
        answer.raise_for_status()
        return answer.json() if answer.headers["content-type"].startswith("application/json") else answer.text

    return get


@pytest.fixture
def on_air(get):
    """The first click: on the page of the registered model, the version that bears `champion`."""
    model = get("api/2.0/mlflow/registered-models/get", name="avatar-agent")["registered_model"]
    number = {row["alias"]: row["version"] for row in model["aliases"]}["champion"]
    return get("api/2.0/mlflow/model-versions/get", name="avatar-agent", version=number)["model_version"]


def tags_of(entity):
    return {tag["key"]: tag["value"] for tag in entity["tags"]}


def run_of(get, run_id):
    return get("api/2.0/mlflow/runs/get", run_id=run_id)["run"]


def datasets_of(run):
    return {row["dataset"]["name"]: row["dataset"] for row in run["inputs"].get("dataset_inputs", [])}


def test_first_click_the_version_says_harness_data_code_and_run(on_air, pipeline):
    tags = tags_of(on_air)
    manifest = read_json(pipeline.folder / "harness_augmentation" / "hsa.jsonl.manifest.json")
    data = manifest["digest"]  # the data itself lies in the store
    assert tags["harness_digest"] == load_harness(MERCHANT).digest
    assert (tags["data_digest"], tags["code_version"], tags["pipeline_run"]) == (data, "c0de", pipeline.parent)
    for shown in (tags["harness_digest"], tags["data_digest"], tags["code_version"], tags["release_digest"]):
        assert f"`{shown}`" in on_air["description"]


def test_second_click_each_link_of_the_version_is_the_run_that_made_it(on_air, get):
    tags = tags_of(on_air)
    runs = {text: run_of(get, run_id) for text, run_id in LINK.findall(on_air["description"])}
    steps = {text: tags_of(run["data"]).get("step") for text, run in runs.items()}
    assert steps == {
        "pipeline run": None,
        "harness_gate": "harness_gate",
        "harness_augmentation": "harness_augmentation",
        "its last stage": "simulator_rl",
        "figures, failed cases, traces": "evaluation",
    }
    assert datasets_of(runs["harness_gate"])["harness"]["digest"] == tags["harness_digest"]
    assert tags_of(runs["harness_augmentation"]["data"])["output.hsa.jsonl"] == tags["data_digest"]
    assert tags_of(runs["pipeline run"]["data"])["code_version"] == tags["code_version"]
    assert on_air["run_id"] == run_of(get, on_air["run_id"])["info"]["run_id"]  # the UI's "Source Run"


def test_third_click_from_the_last_stage_to_the_run_that_read_the_data(on_air, get, pipeline):
    tags = tags_of(on_air)
    last = run_of(get, tags["training_run"])
    [(_, before)] = [
        link for link in LINK.findall(tags_of(last["data"])["mlflow.note.content"]) if link[1] != tags["harness_run"]
    ]
    trained = run_of(get, before)
    examples = datasets_of(trained)["examples"]
    assert tags["data_digest"].startswith(examples["digest"]) and examples["source_type"] == "uri"
    assert json.loads(examples["source"])["uri"] == f"{pipeline.store}/{tags['data_digest']}"
    assert tags_of(trained["data"])["input.examples"] == tags["data_run"]


def test_from_the_version_to_its_rollout_and_back(on_air, get):
    run = run_of(get, tags_of(on_air)["canary.run"])
    tags = tags_of(run["data"])
    assert (tags["step"], tags["model_version"], tags["champion_version"]) == ("canary_deploy", on_air["version"], "1")
    assert tags["release_digest"] == tags_of(on_air)["release_digest"]
    assert VERSION_LINK.findall(tags["mlflow.note.content"]) == [on_air["version"], "1"]
    compared = {row["model_id"] for row in run["inputs"]["model_inputs"]}
    assert tags_of(on_air)["model_id"] in compared and len(compared) == 2


def test_the_page_of_the_version_has_signature_and_example(on_air, get):
    page = {"name": "avatar-agent", "version": on_air["version"]}
    mlmodel = get("model-versions/get-artifact", path="MLmodel", **page)
    assert "signature:" in mlmodel and '"name": "messages"' in mlmodel and '"name": "tools"' in mlmodel
    example = get("model-versions/get-artifact", path="input_example.json", **page)
    example = example if isinstance(example, dict) else json.loads(example)
    assert [message["role"] for message in example["messages"]] == ["system", "user"]
    assert {tool["function"]["name"] for tool in example["tools"]} == {t.name for t in load_harness(MERCHANT).tools}


def test_the_evaluated_episodes_are_shown_with_run_and_model(on_air, pipeline):
    client, tags = pipeline.tracking.client, tags_of(on_air)
    places = [pipeline.tracking.experiment_id]
    ours = client.search_traces(locations=places, model_id=tags_of(on_air)["model_id"])
    assert sorted(trace.info.tags["scenario"] for trace in ours) == ["s0", "s1"]
    assert {trace.info.tags["model_version"] for trace in ours} == {on_air["version"]}
    assert all(trace.data.spans[0].span_type == "AGENT" for trace in ours)
    assert len(client.search_traces(locations=places, run_id=tags["evaluation_run"])) == 3
    files = {file.path for file in client.list_artifacts(tags["evaluation_run"])}
    assert {"failed_cases.json", "cases.jsonl", "evaluation.json"} <= files


def test_every_run_says_what_it_read(pipeline):
    client = pipeline.tracking.client
    runs = client.search_runs([pipeline.tracking.experiment_id], f"tags.mlflow.parentRunId = '{pipeline.parent}'")
    read = {
        run.data.tags["step"]: {row.dataset.name: row.tags[0].value for row in run.inputs.dataset_inputs}
        for run in runs
    }
    assert read == {
        "harness_gate": {"harness": "evaluation", "merchant": "evaluation"},
        "harness_augmentation": {"harness": "training", "merchant": "training"},
        "sft_fixed": {"examples": "training"},
        "sft_hsa": {"examples": "training"},
        "simulator_rl": {"harness": "training", "merchant": "training"},
        "evaluation": {"harness": "evaluation", "merchant": "evaluation", "surfaces": "evaluation"},
        "registration": {"harness": "evaluation", "merchant": "evaluation", "evaluation": "evaluation"},
        "canary_deploy": {"harness": "rollout", "merchant": "rollout"},
    }
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert (
        len({row.dataset.digest for run in runs for row in run.inputs.dataset_inputs if row.dataset.name == "harness"})
        == 1
    )
