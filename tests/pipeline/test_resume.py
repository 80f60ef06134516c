"""A killed run goes on where it stopped, with the same result."""

import pytest

from pipelines.steps import STEPS
from tests.pipeline.conftest import pipeline

pytestmark = pytest.mark.timeout(1800)


def without_timing(metrics):
    return {k: v for k, v in metrics.items() if not k.removesuffix("_constrained").endswith(("p50_s", "p95_s"))}


def test_a_run_killed_in_a_step_resumes_with_cached_steps_and_the_metrics_of_an_unbroken_run(smoke, tmp_path):
    run_dir = tmp_path / "runs" / "killed"
    killed = pipeline("--profile", "smoke", "--run-dir", str(run_dir), run_dir=run_dir, kill_at="[evaluation] started")
    assert killed.status == -9
    done = pipeline("--resume", str(run_dir), run_dir=run_dir)
    assert done.status == 0, done.output

    statuses = {name: row["status"] for name, row in done.summary["steps"].items()}
    early = STEPS[: STEPS.index("evaluation")]
    assert {name: statuses[name] for name in early} == dict.fromkeys(early, "cached")
    assert statuses["evaluation"] == "succeeded"
    assert not any(f"[{step}] started" in done.output for step in early)
    assert without_timing(done.summary["metrics"]) == without_timing(smoke.summary["metrics"])


def test_resuming_a_folder_that_is_no_run(tmp_path):
    run = pipeline("--resume", str(tmp_path), run_dir=tmp_path)
    assert run.status == 2 and "the folder of an earlier run" in run.output


def test_a_run_folder_is_not_overwritten(smoke):
    run = pipeline("--profile", "smoke", "--run-dir", str(smoke.run_dir), run_dir=smoke.run_dir)
    assert run.status == 2 and "RESUME=" in run.output
