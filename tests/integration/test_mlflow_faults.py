"""A real MLflow server that fails at each call of a step and of a registration: what was asked for is done, or a
SystemFault names the server; and never is anything half-registered.
"""

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from components.avatar.errors import SystemFault
from components.integrations.lineage import Lineage
from components.integrations.metrics import Metric
from components.integrations.registry import Registry
from components.integrations.release import release_of
from components.integrations.server_process import free_port
from components.integrations.traces import log_cases
from components.integrations.tracking import MlflowClient, Tracking
from tests.integration.faulty_proxy import (
    PAGE,
    RUBBISH,
    UNAVAILABLE,
    Answer,
    CutAnswer,
    Fault,
    FaultyProxy,
    Request,
    Stall,
    faulty_proxy,
)
from tests.integration.mlflow_servers import mlflow_up
from tests.unit.integrations.episode_rows import failed_row, passed_row

NOTHING = Answer(
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
)
FAULTS = {"down": UNAVAILABLE, "answer lost": CutAnswer(0), "a page": PAGE, "nothing": NOTHING, "rubbish": RUBBISH}
_ID = re.compile(r"(m-)?[0-9a-f]{32}|/\d+(?=/|$)")
_numbers = count()


@dataclass
class Mlflow:
    """The server, and the proxy before it that spoils requests."""

    uri: str
    proxy: FaultyProxy

    def calls(self) -> list[str]:
        """The distinct calls since the last time, in order."""
        made = list(dict.fromkeys(map(call_of, self.proxy.requests)))
        self.proxy.requests.clear()
        return made


def call_of(request: Request) -> str:
    return f"{request.method} {_ID.sub('*', request.path.partition('?')[0])}"


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    with mlflow_up(tmp_path_factory.mktemp("mlflow")) as uri, faulty_proxy(uri) as proxy:
        yield Mlflow(uri, proxy)


@pytest.fixture(autouse=True)
def impatient(monkeypatch, mlflow):
    mlflow.proxy.requests.clear()
    for name, value in {"MAX_RETRIES": "2", "BACKOFF_FACTOR": "0", "BACKOFF_JITTER": "0", "TIMEOUT": "20"}.items():
        monkeypatch.setenv(f"MLFLOW_HTTP_REQUEST_{name}", value)
    yield
    mlflow.proxy.fault = lambda request: None


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "hat"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (failed_row(0), passed_row(1))))
    return path


def spoil(call: str, fault: Fault, times: int) -> Callable[[Request], Fault | None]:
    """`fault` for the first `times` requests of this call."""
    left = iter(range(times))
    return lambda request: fault if call_of(request) == call and next(left, None) is not None else None


def register(uri: str, name: str, model: Path) -> None:
    registry = Registry(Tracking(uri, name), str(model.parent / "store"), name=name)
    with registry.changes() as changes:
        made = changes.register(
            model, arm="hat", release=release_of(model), lineage=Lineage("h", "d", "c"), example={"messages": []}
        )
        changes.set_alias("champion", made.version)


def whole(uri: str, name: str) -> bool:
    """True if there is one whole version with the alias, False if there is nothing at all; anything else fails."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(name)
    logged = client.search_logged_models([experiment.experiment_id]) if experiment else []
    versions = list(client.search_model_versions(f"name = '{name}'"))
    named = list(client.search_registered_models(f"name = '{name}'"))
    if not versions:
        assert (len(logged), len(named)) == (0, 0)
        return False
    [version], [model] = versions, logged
    assert version.tags.items() >= {"arm": "hat", "harness_digest": "h", "model_id": model.model_id}.items()
    assert str(model.status) == "READY" and version.source == f"models:/{model.model_id}"
    files = {file.path for file in client.list_logged_model_artifacts(model.model_id)}
    assert files == {"MLmodel", "config.json", "input_example.json", "manifest.json"}
    assert client.get_model_version_by_alias(name, "champion").version == version.version
    return True


@pytest.mark.parametrize(
    ("kind", "times"),
    [("down", 1), ("a page", 1), ("nothing", 1), ("answer lost", 1000), ("rubbish", 1000)],
)
def test_a_registration_is_whole_or_absent_whichever_call_fails(mlflow, model, kind, times):
    register(mlflow.proxy.url, f"r{next(_numbers)}", model)
    calls = mlflow.calls()
    assert len(calls) > 10 and "POST /api/2.0/mlflow/model-versions/create" in calls
    ended = []
    for call in calls:
        name = f"r{next(_numbers)}"
        mlflow.proxy.fault = spoil(call, FAULTS[kind], times)
        try:
            register(mlflow.proxy.url, name, model)
            done = True
        except SystemFault as error:
            done = False
            assert mlflow.proxy.url in str(error), call
        assert whole(mlflow.uri, name) == done, call
        ended.append(done)
        mlflow.proxy.fault = lambda request: None
        if not done:
            register(mlflow.proxy.url, name, model)  # a second try succeeds
            assert whole(mlflow.uri, name), call
    if times == 1 and kind in ("down", "answer lost", "rubbish"):
        assert all(ended)  # a request is sent again
    if times > 1:
        assert not any(ended[calls.index("POST /api/2.0/mlflow/model-versions/create") :][:1])


def log_step(uri: str, name: str, cases: Path) -> str:
    with Tracking(uri, name).step_run(None, "evaluation") as run:
        run.log_params({"seed": 0})
        run.log_tags({"code": "c"})
        run.log_dataset("harness", "abc", "/merchant", "evaluation")
        run.log_metrics({"T2": Metric(0.5, 10)})
        log_cases(run, cases)
        run.log_artifacts(cases)
    return run.run_id


@pytest.mark.parametrize("kind", ["nothing", "rubbish"])
def test_a_step_says_that_its_record_is_not_whole(mlflow, cases, kind):
    log_step(mlflow.proxy.url, f"s{next(_numbers)}", cases)
    calls = mlflow.calls()
    client = MlflowClient(mlflow.uri)
    faults = 0
    for call in calls:
        mlflow.proxy.fault = spoil(call, FAULTS[kind], 1000)
        try:
            run_id = log_step(mlflow.proxy.url, f"s{next(_numbers)}", cases)
        except SystemFault as error:
            faults += 1
            assert mlflow.proxy.url in str(error), call
            continue
        run = client.get_run(run_id)
        assert (run.info.status, run.data.metrics, run.data.params) == (
            "FINISHED",
            {"T2": 0.5, "T2.n": 10},
            {"seed": "0"},
        )
        assert run.data.tags["code"] == "c" and run.inputs.dataset_inputs[0].dataset.digest == "abc"
        assert {file.path for file in client.list_artifacts(run_id)} >= {"cases.jsonl", "failed_cases.json"}
        assert len(client.search_traces(locations=[run.info.experiment_id], run_id=run_id)) == 2
    assert faults > len(calls) // 2


def test_a_server_that_dies_in_the_middle_leaves_no_half_version(mlflow, model):
    """From some call on nothing answers any more, so nothing can be undone either."""
    register(mlflow.proxy.url, f"d{next(_numbers)}", model)
    total = len(mlflow.proxy.requests)
    client = MlflowClient(mlflow.uri)
    for dies_at in range(0, total, 4):
        name, seen = f"d{next(_numbers)}", count()
        mlflow.proxy.fault = lambda request, seen=seen, at=dies_at: RUBBISH if next(seen) >= at else None
        with pytest.raises(SystemFault, match=re.escape(mlflow.proxy.url)):
            register(mlflow.proxy.url, name, model)
        for version in client.search_model_versions(f"name = '{name}'"):
            logged = client.get_logged_model(version.tags["model_id"])
            assert str(logged.status) == "READY" and version.tags["uri"] and version.tags["harness_digest"] == "h"
        mlflow.proxy.fault = lambda request: None
        register(mlflow.proxy.url, name, model)
        [version] = client.search_model_versions(f"name = '{name}'")  # a whole one that was left is taken up
        assert client.get_model_version_by_alias(name, "champion").version == version.version


def test_a_slow_answer_is_asked_for_again(mlflow, model, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3")
    name = f"t{next(_numbers)}"
    mlflow.proxy.fault = spoil("POST /api/2.0/mlflow/model-versions/create", Stall(), 1)
    register(mlflow.proxy.url, name, model)
    assert whole(mlflow.uri, name)


def test_a_restart_is_borne(tmp_path, model, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "8")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
    port, ended = free_port(), []
    with ExitStack() as first:
        uri = first.enter_context(mlflow_up(tmp_path, port=port))
        tracking = Tracking(uri, "restart")
        first.close()  # killed

        def step() -> None:
            with tracking.step_run(None, "sft_hsa") as run:
                run.log_metrics({"loss": Metric(1.0, 1)})
            ended.append(run.run_id)

        thread = threading.Thread(target=step)
        thread.start()
        time.sleep(0.5)
        with mlflow_up(tmp_path, port=port):
            thread.join()
            [run_id] = ended
            assert MlflowClient(uri).get_run(run_id).data.metrics["loss"] == 1.0
            register(uri, "restart", model)
            assert whole(uri, "restart")
