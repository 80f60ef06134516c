"""The whole pipeline on the smoke profile: every step ran, and what it left is what DESIGN says."""

import json
import re

import pytest

from pipelines.steps import STEPS

pytestmark = pytest.mark.timeout(1800)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def weights(folder):
    from safetensors.torch import load_file

    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}


def test_every_step_ran(smoke):
    """The condition branches too: kfp's local runner skips a badly wired one silently and still reports success."""
    steps = smoke.summary["steps"]
    assert tuple(steps) == STEPS
    assert {name: row["status"] for name, row in steps.items()} == dict.fromkeys(STEPS, "succeeded")
    assert all(row["seconds"] > 0 for row in steps.values())


def test_summary_has_the_fields_of_design(smoke):
    summary = smoke.summary
    assert set(summary) == {"profile", "harness_digest", "steps", "metrics", "gates", "model_version", "canary"}
    assert summary["profile"] == "smoke" and re.fullmatch(r"[0-9a-f]{16}", summary["harness_digest"])
    for model in ("base", "fixed_sft", "hat"):
        for metric in ("T1", "T2", "gap", "T1_constrained", "T2_constrained", "general", "p95_s"):
            assert set(summary["metrics"][f"{model}.{metric}"]) >= {"value", "n"}
    assert summary["metrics"]["hat.T1"]["n"] == summary["metrics"]["hat.T2"]["n"] > 0
    assert {"harness_gate", "data_validation"} < set(summary["gates"])
    assert all(set(gate) == {"passed", "why"} and gate["why"] for gate in summary["gates"].values())
    assert summary["model_version"]
    assert summary["canary"]["verdict"] in {"promote", "hold", "rollback"} and summary["canary"]["why"]


@pytest.mark.parametrize(
    ("before", "after"),
    [("base", "sft_fixed"), ("base", "sft_hsa"), ("sft_hsa", "distillation"), ("distillation", "simulator_rl")],
)
def test_each_training_stage_changes_the_weights(smoke, before, after):
    from components.integrations.weights import resolve_base_model
    from pipelines.run import CACHE

    old = weights(resolve_base_model("random:tiny", CACHE) if before == "base" else smoke.artifact(before) / "model")
    new = weights(smoke.artifact(after) / "model")
    assert old.keys() == new.keys()
    assert any((old[name].float() != new[name].float()).any() for name in old)


@pytest.mark.parametrize("step", ["sft_fixed", "sft_hsa"])
def test_sft_loss_falls(smoke, step):
    losses = [row["loss"] for row in rows(smoke.artifact(step) / "curves.jsonl")]
    assert losses[-1] < losses[0]


def test_rl_had_groups_with_unequal_rewards(smoke):
    metrics = json.loads((smoke.artifact("simulator_rl") / "metrics.json").read_text())
    groups = metrics["informative_groups"]
    assert 0 < groups["value"] <= groups["n"]


def test_both_arms_train_on_the_same_trajectories_and_as_many_examples(smoke):
    examples = smoke.artifact("harness_augmentation")
    fixed, hsa = rows(examples / "fixed.jsonl"), rows(examples / "hsa.jsonl")
    assert len(fixed) == len(hsa) > 0
    assert [row["scenario"]["id"] for row in fixed] == [row["scenario"]["id"] for row in hsa]
    assert len({row["harness_digest"] for row in fixed}) == 1 < len({row["harness_digest"] for row in hsa})


def test_mlflow_holds_a_parent_run_a_child_run_a_step_and_the_registered_model(smoke):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{smoke.run_dir.parent}/mlflow.db")
    parent = client.get_run(json.loads((smoke.run_dir / "run.json").read_text())["mlflow_run_id"])
    assert parent.info.status == "FINISHED"
    children = client.search_runs([parent.info.experiment_id], f"tags.mlflow.parentRunId = '{parent.info.run_id}'")
    assert {run.info.run_name: run.info.status for run in children} == dict.fromkeys(STEPS, "FINISHED")
    assert {artifact.path for artifact in client.list_artifacts(parent.info.run_id)} >= {"summary.json", "report.html"}
    version = client.get_model_version("avatar-agent", smoke.summary["model_version"])
    assert version.tags["harness_digest"] == smoke.summary["harness_digest"]
    assert client.get_model_version_by_alias("avatar-agent", "champion").version


def test_the_report_is_for_a_person_and_asks_nobody(smoke):
    html = (smoke.run_dir / "report.html").read_text()
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", html), "the report must not fetch anything"
    assert "url(http" not in html and "default-src 'none'" in html
    for heading in ("Models", "Gates", "Plots", "Rollouts to read", "Steps", "Lineage"):
        assert f"<h2>{heading}</h2>" in html
    assert html.count("<svg") >= 6
    assert smoke.summary["harness_digest"] in html and smoke.summary["canary"]["verdict"] in html
    assert "agent calls" in html or "agent (malformed)" in html or "agent replies" in html


def test_what_the_terminal_shows(smoke):
    """Progress of every step, then the table, the gates and where to look; nothing of kfp's own wrapping."""
    for step in STEPS:
        assert f"[{step}] started" in smoke.output and f"[{step}] done in" in smoke.output
    for words in ("an estimate", "T1 - T2", "gate harness_gate: passed", "canary: ", "report.html", "make mlflow-up"):
        assert words in smoke.output
    assert "KFP Executor" not in smoke.output and "Streamed logs" not in smoke.output


def test_no_step_leaves_half_an_output(smoke):
    assert not list((smoke.run_dir / "artifacts").rglob("*.partial"))
