import json
import math
import time
from types import SimpleNamespace

import pytest

from components.avatar.errors import SystemFault
from components.integrations.metrics import Metric
from components.integrations.tracking import MlflowClient, Tracking


@pytest.fixture
def parent(tracking):
    return tracking.start_pipeline_run("smoke", tags={"kfp_run": "k1"}, params={"seed": 1, "sft": {"rate": 0.1}})


def test_a_pipeline_run_with_a_child_for_a_step(tracking, parent):
    with tracking.step_run(parent, "sft", tags={"arm": "hsa"}) as run:
        assert tracking.client.get_run(run.run_id).info.status == "RUNNING"
    tracking.end_pipeline_run(parent, "FINISHED")
    above, child = tracking.client.get_run(parent), tracking.client.get_run(run.run_id)
    assert above.data.params == {"seed": "1", "sft.rate": "0.1"} and above.data.tags["kfp_run"] == "k1"
    assert (above.info.status, child.info.status) == ("FINISHED", "FINISHED")
    assert child.data.tags["mlflow.parentRunId"] == parent and child.data.tags["arm"] == "hsa"


def test_a_run_that_kubeflow_started_is_taken_over(tracking, parent):
    assert tracking.start_pipeline_run("again", tags={"more": "x"}, run_id=parent) == parent
    assert tracking.client.get_run(parent).data.tags["more"] == "x"


def test_metrics_come_with_their_n_and_unmeasured_ones_only_with_n(tracking, parent):
    with tracking.step_run(parent, "evaluation") as run:
        run.log_metrics({"hat.T2": Metric(0.75, 200), "hat.recovery_rate": Metric(math.nan, 0)})
    assert tracking.client.get_run(run.run_id).data.metrics == {
        "hat.T2": 0.75,
        "hat.T2.n": 200,
        "hat.recovery_rate.n": 0,
    }


def test_long_curves_arrive_whole_and_at_their_steps(tracking, parent):
    rows = [{"step": 10 * i, "loss": 3.0 - i / 1000, "arm": "hsa", "bad": math.nan} for i in range(1200)]
    with tracking.step_run(parent, "sft") as run:
        run.log_curves(rows)
    history = tracking.client.get_metric_history(run.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(r["step"], r["loss"]) for r in rows]
    assert set(tracking.client.get_run(run.run_id).data.metrics) == {"loss"}


def test_many_params_arrive(tracking, parent):
    with tracking.step_run(parent, "sft") as run:
        run.log_params({f"p{i}": i for i in range(250)})
    assert len(tracking.client.get_run(run.run_id).data.params) == 250


def test_artifacts_lie_beside_the_database(tracking, parent, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.html").write_text("<p>")
    with tracking.step_run(parent, "data_validation") as run:
        run.log_artifacts(tmp_path / "docs", "docs")
        run.log_artifacts(tmp_path / "docs" / "index.html")
    found = {str(p.relative_to(tmp_path / "runs" / "artifacts")) for p in (tmp_path / "runs").rglob("*.html")}
    assert found == {f"{run.run_id}/artifacts/docs/index.html", f"{run.run_id}/artifacts/index.html"}


def test_datasets_and_tables_of_failed_cases(tracking, parent, tmp_path):
    digest = "a1" * 32
    with tracking.step_run(parent, "evaluation") as run:
        run.log_dataset("hsa", digest, "s3://b/x", context="evaluation")
        run.log_table([{"case": "q1", "why": "stale price"}, {"case": "q2", "arm": "hat"}], "failed")
        run.log_table([], "nothing")
    [logged] = tracking.client.get_run(run.run_id).inputs.dataset_inputs
    assert (logged.dataset.name, json.loads(logged.dataset.source)) == ("hsa", {"uri": "s3://b/x"})
    assert digest.startswith(logged.dataset.digest) and len(logged.dataset.digest) == 36
    assert [(tag.key, tag.value) for tag in logged.tags] == [("mlflow.data.context", "evaluation")]
    table = json.loads(next((tmp_path / "runs").rglob("failed.json")).read_text())
    assert table["columns"] == ["case", "why", "arm"] and table["data"][0][:2] == ["q1", "stale price"]
    assert not list((tmp_path / "runs").rglob("nothing.json"))


@pytest.mark.parametrize(("error", "status"), [(ValueError("bad loss"), "FAILED"), (KeyboardInterrupt(), "KILLED")])
def test_a_failed_step_is_marked_with_its_error(tracking, parent, error, status):
    with pytest.raises(type(error)), tracking.step_run(parent, "sft") as run:
        raise error
    ended = tracking.client.get_run(run.run_id)
    assert ended.info.status == status and type(error).__name__ in ended.data.tags["error"]


EMPTY = {"run": "a run without an id", "run_status": "after it was ended", "metrics": "without T2, T2.n"}


@pytest.mark.parametrize("lost", EMPTY)
def test_an_empty_answer_is_no_answer(tracking, parent, monkeypatch, lost):
    """HTTP 200 with nothing in it, as a proxy may give: MLflow's client makes an empty object or nothing of it."""
    nothing = SimpleNamespace(info=SimpleNamespace(run_id=""))
    change = {
        "run": ("create_run", lambda self, *args, **kwargs: nothing),
        "run_status": ("set_terminated", lambda self, *args, **kwargs: None),
        "metrics": ("log_batch", lambda self, *args, **kwargs: None),
    }[lost]
    monkeypatch.setattr(MlflowClient, *change)
    with pytest.raises(SystemFault, match=EMPTY[lost]), tracking.step_run(parent, "evaluation") as run:
        run.log_metrics({"T2": Metric(0.5, 4)})


def test_system_metrics_are_sampled_while_a_step_runs(tracking, parent, monkeypatch):
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "1")
    with tracking.step_run(parent, "sft_hsa", system_metrics=True) as run:
        until = time.monotonic() + 60
        while time.monotonic() < until and not _system(tracking, run):
            time.sleep(0.2)
    assert {"system/cpu_utilization_percentage", "system/system_memory_usage_megabytes"} <= _system(tracking, run)


def _system(tracking, run):
    return {name for name in tracking.client.get_run(run.run_id).data.metrics if name.startswith("system/")}


def test_a_run_that_a_killed_process_left_is_ended_by_the_next_try(tracking, parent):
    context = tracking.step_run(parent, "sft")
    killed = context.__enter__()  # a killed process never leaves the block
    with tracking.step_run(parent, "evaluation") as other, tracking.step_run(parent, "sft") as run:
        status = {r.run_id: tracking.client.get_run(r.run_id).info.status for r in (killed, other, run)}
    assert list(status.values()) == ["KILLED", "RUNNING", "RUNNING"]


def test_two_clients_of_one_database_share_the_experiment(tracking):
    assert Tracking(tracking.uri, "avatar").experiment_id == tracking.experiment_id


def test_a_dead_server_is_a_system_fault_without_its_password(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(SystemFault, match=r"127\.0\.0\.1:9") as caught:
        Tracking("http://user:hunter2@127.0.0.1:9", "avatar")
    assert "hunter2" not in str(caught.value)


def test_a_damaged_database_is_a_system_fault(tmp_path):
    (tmp_path / "mlflow.db").write_bytes(b"not a database" * 100)
    with pytest.raises(SystemFault, match=r"mlflow\.db"):
        Tracking(f"sqlite:///{tmp_path}/mlflow.db", "avatar")
