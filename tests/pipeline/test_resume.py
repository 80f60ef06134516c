"""A killed run goes on where it stopped, with the same result."""

import shutil

import pytest

from pipelines.steps import STEPS
from tests.pipeline.conftest import pipeline

pytestmark = pytest.mark.timeout(1800)


def test_a_run_killed_in_a_step_resumes_with_cached_steps_and_the_same_metrics(smoke, tmp_path):
    """Evaluation loses its output, runs again, is killed on the way, and is resumed: all before it is taken from the
    cache.
    """
    before = smoke.summary
    shutil.copy(smoke.run_dir / "report.html", tmp_path)
    (smoke.artifact("evaluation") / "cases.jsonl").unlink()
    resume = ("--resume", str(smoke.run_dir))
    killed = pipeline(*resume, run_dir=smoke.run_dir, kill_at="[evaluation] started")
    assert killed.status == -9
    done = pipeline(*resume, run_dir=smoke.run_dir)
    assert done.status == 0, done.output

    statuses = {name: row["status"] for name, row in done.summary["steps"].items()}
    early = STEPS[: STEPS.index("evaluation")]
    assert {name: statuses[name] for name in early} == dict.fromkeys(early, "cached")
    assert statuses["evaluation"] == "succeeded"
    assert not any(f"[{step}] started" in done.output for step in early)

    timing = ("p50_s", "p95_s")
    assert {
        k: v for k, v in done.summary["metrics"].items() if not k.removesuffix("_constrained").endswith(timing)
    } == {k: v for k, v in before["metrics"].items() if not k.removesuffix("_constrained").endswith(timing)}
    assert done.summary["model_version"] == before["model_version"], "the same weights are not registered twice"


def test_resuming_a_folder_that_is_no_run(tmp_path):
    run = pipeline("--resume", str(tmp_path), run_dir=tmp_path)
    assert run.status == 2 and "the folder of an earlier run" in run.output


def test_a_run_folder_is_not_overwritten(smoke):
    run = pipeline("--profile", "smoke", "--run-dir", str(smoke.run_dir), run_dir=smoke.run_dir)
    assert run.status == 2 and "RESUME=" in run.output
