"""What surrounds every step: an output is whole or absent, and a failure leaves its reason."""

import json
import os

import pytest
from pydantic import BaseModel

from components.avatar.errors import Fault, InputError
from components.integrations.metrics import Metric, write_json
from components.integrations.storage import Store
from components.integrations.task import (
    Context,
    is_complete,
    read_states,
    run_task,
    stored_folder,
    write_failure_report,
)


class Settings(BaseModel):
    size: int = 3


@pytest.fixture(scope="module")
def tracking_uri(tmp_path_factory):
    """One database for the file: creating its tables takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture
def context(tmp_path, tracking_uri):
    run_dir = tmp_path / "run"
    write_json(run_dir / "run.json", {"attempt": 2, "pid": os.getpid(), "mlflow_run_id": None})
    return Context(run_dir=str(run_dir), tracking_uri=tracking_uri)


def task(context, work):
    output = os.path.join(context.run_dir, "artifacts", "step", "output")
    run_task(
        "step",
        work,
        output=output,
        context=context.model_dump_json(),
        settings=Settings(),
        seed=1,
        inputs=lambda _: {"word": "hello"},
    )


def test_a_finished_step_publishes_metrics_state_and_a_tracked_run(context, tmp_path):
    def work(*, word, output, settings, seed, progress):
        (output / "data.txt").write_text(word * settings.size)
        (output / "curves.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n')
        progress.update(1, 1)
        return {"quality": Metric(0.5, 10)}

    task(context, work)
    state = read_states(tmp_path / "run")["step"]
    output = tmp_path / "run" / state.output
    assert (state.status, state.attempt) == ("succeeded", 2)
    assert is_complete(output) and (output / "data.txt").read_text() == "hellohellohello"
    assert json.loads((output / "metrics.json").read_text()) == {"quality": {"value": 0.5, "n": 10}}

    from mlflow import MlflowClient

    client = MlflowClient(context.tracking_uri)
    run = client.get_run(state.mlflow_run_id)
    assert (run.info.status, run.data.metrics["quality"], run.data.metrics["quality.n"]) == ("FINISHED", 0.5, 10)
    assert run.data.params == {"seed": "1", "size": "3"}
    assert [point.value for point in client.get_metric_history(run.info.run_id, "loss")] == [2.0, 1.0]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("the endpoint is dead"), "the endpoint is dead"),
        (OSError(28, "No space left on device"), "no space left on the device: free some disk space, then resume"),
        (InputError([Fault("a.yaml", "b", "c", "d")]), "a.yaml: b: found c; allowed: d"),
        (KeyboardInterrupt(), "stopped by a signal"),
    ],
)
def test_a_failed_step_leaves_its_reason_and_no_output(context, tmp_path, error, reason):
    def work(*, word, output, settings, seed, progress):
        (output / "half.txt").write_text("half")
        raise error

    with pytest.raises(SystemExit):
        task(context, work)
    state = read_states(tmp_path / "run")["step"]
    assert state.status == "failed" and reason in state.reason
    assert not (tmp_path / "run" / "artifacts" / "step" / "output").exists()

    write_failure_report(context.model_dump_json(), {"state": "FAILED", "error_message": "Task failed."})
    report = json.loads((tmp_path / "run" / "failure.json").read_text())
    assert reason in report["steps"]["step"]["reason"]


def test_an_output_that_lost_or_changed_a_file_is_not_complete(context, tmp_path):
    def work(*, word, output, settings, seed, progress):
        (output / "data.txt").write_text(word)
        return {}

    task(context, work)
    output = tmp_path / "run" / read_states(tmp_path / "run")["step"].output
    assert is_complete(output)
    (output / "data.txt").write_text("truncat")
    assert not is_complete(output)
    (output / "data.txt").unlink()
    assert not is_complete(output)


def test_a_run_folder_keeps_everything_even_with_a_store(context, tmp_path):
    """Its report and a resumed run read it; the store is for the weights that registration puts there."""

    def work(*, word, output, settings, seed, progress):
        (output / "data.jsonl").write_text(word)
        (output / "docs").mkdir()
        (output / "docs" / "index.html").write_text(word)
        return {}

    task(context.model_copy(update={"storage_uri": f"file://{tmp_path}/store"}), work)
    output = tmp_path / "run" / read_states(tmp_path / "run")["step"].output
    assert (output / "data.jsonl").read_text() == (output / "docs/index.html").read_text() == "hello"
    assert not (tmp_path / "store").exists() and context.artifact(output) == output

    from mlflow import MlflowClient

    run_id = read_states(tmp_path / "run")["step"].mlflow_run_id
    logged = MlflowClient(context.tracking_uri).list_artifacts(run_id, "docs")
    assert [file.path for file in logged] == ["docs/index.html"]


def test_a_pointer_names_the_version_that_is_accepted_now(tmp_path):
    store = Store(str(tmp_path / "store"))
    pointer = tmp_path / "store" / "accepted" / "shop.json"
    for text in ("first", "second"):
        (tmp_path / "shop").mkdir(exist_ok=True)
        (tmp_path / "shop" / "harness.yaml").write_text(text)
        write_json(pointer, {"merchant": "shop", "uri": store.put(tmp_path / "shop").uri})
        assert (stored_folder(str(pointer), tmp_path / "cache") / "harness.yaml").read_text() == text


@pytest.mark.parametrize("content", [None, "no json", "[]", "{}"])
def test_a_pointer_that_points_nowhere_is_said(tmp_path, content):
    if content is not None:
        (tmp_path / "shop.json").write_text(content)
    with pytest.raises(InputError, match=r"shop\.json.*root"):
        stored_folder(str(tmp_path / "shop.json"), tmp_path)
