"""Tracking, registry and registration on a real MLflow server whose artifacts, like our weights, lie in real S3."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from components.avatar.errors import SystemFault
from components.integrations.metrics import Metric
from components.integrations.progress import Progress
from components.integrations.registry import Registry
from components.integrations.tracking import MlflowClient, Tracking
from components.registration.run import run
from components.registration.settings import Settings
from components.registration.verify import same_generation

MERCHANT = Path(__file__).parents[2] / "infra/harnesses/lumi-beauty"
WORDS = "<unk> </s> user system you sell tea which is mild how much link name three colours".split()


@pytest.fixture
def models(tmp_path):
    def save(arm, seed):
        tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
        tokenizer.pre_tokenizer = Whitespace()
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>")
        fast.chat_template = "{% for m in messages %}{{ m.role }} {{ m.content }} </s> {% endfor %}"
        torch.manual_seed(seed)
        sizes = {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 2}
        config = LlamaConfig(vocab_size=len(WORDS), bos_token_id=0, eos_token_id=1, **sizes)
        LlamaForCausalLM(config).save_pretrained(tmp_path / arm)
        fast.save_pretrained(tmp_path / arm)
        return tmp_path / arm

    return {arm: save(arm, seed) for seed, arm in enumerate(("fixed_sft", "hat"))}


@pytest.fixture
def start(s3, mlflow_server, models, tmp_path, monkeypatch):
    """Run the step as on a cluster: endpoint and credentials come from the standard AWS chain."""
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(s3.credentials))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    figures = {name: {"value": 0.9, "n": 400} for name in ("T1", "T2", "general")}
    gap = {"value": 0.0, "ci": [-0.02, 0.02], "n": 400}
    report = {arm: {"free": figures | {"gap": gap}} for arm in ("base", "fixed_sft", "hat")}
    report["fixed_sft"] = {"free": figures | {"gap": gap, "T2": {"value": 0.3, "n": 400}}}
    (tmp_path / "evaluation.json").write_text(json.dumps({"models": report}))

    def start(run_id=None, storage_uri=f"s3://{s3.bucket}/weights"):
        return run(
            hat=models["hat"],
            fixed_sft=models["fixed_sft"],
            evaluation=tmp_path / "evaluation.json",
            merchant=MERCHANT,
            lineage={"harness_digest": "h1", "data_digest": "d1", "code_version": "c1", "pipeline_run": "p1"},
            tracking_uri=mlflow_server,
            experiment="servers",
            storage_uri=storage_uri,
            storage_encryption="AES256",
            run_id=run_id,
            output=tmp_path / "out",
            settings=Settings(inline_limit_mib=1, verify_tokens=8),
            seed=0,
            progress=Progress("registration"),
        )

    return start


def test_a_registration_on_real_servers(start, s3, mlflow_server, models, tmp_path, monkeypatch):
    tracking = Tracking(mlflow_server, "servers")
    registry = Registry(tracking, f"s3://{s3.bucket}/weights")

    # A fault first, so that the undoing happens on the real server as well.
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "set_registered_model_alias", _server_gone)
        with pytest.raises(ConnectionError):
            start()
    assert registry.versions() == [] and registry.champion() is None
    assert tracking.client.search_registered_models() == []

    parent = tracking.start_pipeline_run("servers", params={"seed": 0})
    with tracking.step_run(parent, "registration") as step:
        metrics = start(step.run_id)
        step.log_metrics(metrics)
        step.log_artifacts(tmp_path / "out" / "registration.json")
        step.log_dataset("hsa", "d1", "s3://data/hsa")
        step.log_table([{"case": "q1", "why": "stale price"}], "failed")
    tracking.end_pipeline_run(parent, "FINISHED")

    assert (registry.champion().arm, registry.challenger().arm) == ("fixed_sft", "hat")
    result = json.loads((tmp_path / "out" / "registration.json").read_text())
    assert result["challenger"]["version"] == registry.challenger().version == result["model_version"]
    fresh = registry.fetch(registry.challenger(), tmp_path / "fresh")
    assert same_generation(fresh, models["hat"], max_new_tokens=8).same

    keys = [o["Key"] for o in s3.client().list_objects_v2(Bucket=s3.bucket, Prefix="weights/")["Contents"]]
    assert sum(key.endswith("/model.safetensors") for key in keys) == 2
    assert {s3.client().head_object(Bucket=s3.bucket, Key=key)["ServerSideEncryption"] for key in keys} == {"AES256"}
    inside = [o["Key"] for o in s3.client().list_objects_v2(Bucket=s3.bucket, Prefix="mlflow/")["Contents"]]
    assert not any(key.endswith(".safetensors") for key in inside)  # weights never go through MLflow
    assert sum(key.endswith("/manifest.json") for key in inside) >= 2
    child = tracking.client.get_run(step.run_id)
    assert child.info.status == "FINISHED" and child.data.metrics["gates_passed.n"] == 5
    assert any(key.endswith(f"{step.run_id}/artifacts/failed.json") for key in inside)

    start(step.run_id)  # a repeated step
    assert len(registry.versions()) == 2


def test_an_object_store_that_fails_registers_nothing(start, mlflow_server):
    before = Registry(Tracking(mlflow_server, "servers"), "unused").versions()
    with pytest.raises(SystemFault, match=r"s3://no-such-bucket at http"):
        start(storage_uri="s3://no-such-bucket/weights")
    assert Registry(Tracking(mlflow_server, "servers"), "unused").versions() == before


def test_metrics_and_long_curves_on_the_real_server(mlflow_server):
    tracking = Tracking(mlflow_server, "curves")
    with tracking.step_run(None, "sft") as step:
        step.log_curves([{"step": i, "loss": 1 / (i + 1)} for i in range(1500)])
        step.log_metrics({"T2": Metric(0.5, 10)})
    assert len(tracking.client.get_metric_history(step.run_id, "loss")) == 1500
    assert tracking.client.get_run(step.run_id).data.metrics["T2.n"] == 10


def _server_gone(self, *args, **kwargs):
    raise ConnectionError("the server went away")
