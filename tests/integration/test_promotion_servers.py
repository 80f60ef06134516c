"""promote-watch against a real MLflow server: its webhooks, and the server stopped, killed, frozen and replaced by
somebody who answers nonsense."""

import signal
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mlflow import MlflowClient

from components.avatar.errors import SystemFault
from components.canary_deploy.inbox import Inbox
from components.canary_deploy.promotion_controller import Controller
from components.canary_deploy.promotion_registry import PromotionRegistry
from components.canary_deploy.promotion_state import Known, known_from
from components.canary_deploy.reconciler import ACKNOWLEDGE, FROZEN, RUN, STATE, VERDICT, WHY, Version
from components.canary_deploy.webhook import PATH, create_app
from components.integrations.metrics import Metric, write_json
from components.integrations.tracking import Tracking
from tests.integration.conftest import free_port
from tests.integration.promotion_servers import EXPERIMENT, SECRET, MlflowServer, eventually, register, served

pytestmark = pytest.mark.timeout(600)
MODEL = "avatar-agent"


class Rollouts:
    """Stands for the live rollout, whose real form test_promotion_browser.py plays: it ends when `go` is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.played: list[str] = []
        self.verdict = "promote"

    def __call__(self, *, champion: Version, canary: Version, output: Path, read_back: Callable) -> dict[str, Metric]:
        self.played.append(canary.number)
        assert self.go.wait(300)
        if read_back("new", "old") != ("new", "old"):
            self.verdict = "hold"
        write_json(output / "canary.json", {"verdict": self.verdict, "why": "said by the evidence"})
        return {"promoted": Metric(1.0, 1)}


class Watch:
    """promote-watch in threads of this process: receiver and loop."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder, self.uri, self.port = folder, uri, free_port()
        self.url = f"http://127.0.0.1:{self.port}{PATH}"
        self.secret = folder / "secret"
        self.secret.write_text(SECRET)
        self.rollouts = Rollouts()
        self.inbox = Inbox(folder / "inbox.db")
        self.controller = Controller(
            folder,
            self.inbox,
            connect=lambda: PromotionRegistry(Tracking(uri, EXPERIMENT)),
            roll=self.rollouts,
            subscribe=lambda registry: registry.subscribe(self.url, SECRET),
        )
        self.app = create_app(MODEL, self.secret, self.inbox, self.controller.wake, self.controller.health)

    def run(self, interval_s: float) -> threading.Thread:
        loop = threading.Thread(target=self.controller.run, args=(interval_s,), daemon=True)
        loop.start()
        return loop

    @property
    def known(self) -> Known:
        return known_from(self.controller.ledger.entries())

    def entries(self, kind: str) -> list[dict]:
        return [entry.body for entry in self.controller.ledger.entries() if entry.kind == kind]


@pytest.fixture
def quick(monkeypatch):
    """As promote-watch sets them, and shorter: a look that fails is repeated."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.fixture
def mlflow(tmp_path: Path) -> MlflowServer:
    return MlflowServer(tmp_path)


@pytest.fixture
def watch(mlflow: MlflowServer, tmp_path: Path, quick) -> Iterator[Watch]:
    found = Watch(tmp_path, mlflow.uri)
    yield found
    found.controller.stop()
    found.rollouts.go.set()


def versions(mlflow: MlflowServer, tmp_path: Path, count: int = 2) -> Tracking:
    """Version 1 is champion; the gates of the last of more than two versions failed."""
    tracking = Tracking(mlflow.uri, EXPERIMENT)
    for number in range(1, count + 1):
        folder = tmp_path / "models" / f"m{number}"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(f'{{"model": {number}}}')
        register(tracking, tmp_path / "store", folder, arm="hat", passed=number < 3)
    tracking.client.set_registered_model_alias(MODEL, "champion", "1")
    return tracking


def tags(tracking: Tracking, version: str) -> dict[str, str]:
    return tracking.client.get_model_version(MODEL, version).tags


def test_webhooks_of_a_real_server(mlflow: MlflowServer, watch: Watch, tmp_path: Path) -> None:
    """The webhook is registered, tried by the server itself, and starts a canary; then a person moves champion."""
    with mlflow.running(), served(watch.app, watch.port):
        watch.run(interval_s=3600)  # only webhooks wake it
        client = Tracking(mlflow.uri, EXPERIMENT).client
        eventually(lambda: client.list_webhooks(), "the webhook is registered")
        tracking = versions(mlflow, tmp_path, 3)  # afterwards: the server remembers for a while that it has no webhooks
        webhook = client.list_webhooks()[0]
        assert webhook.url == watch.url
        tried = client.test_webhook(webhook.webhook_id)
        assert tried.success and tried.response_status == 202, tried
        PromotionRegistry(tracking).subscribe(watch.url, SECRET)
        assert len(client.list_webhooks()) == 1  # once
        eventually(lambda: watch.known.champion == "1", "the champion is known")

        client.set_registered_model_alias(MODEL, "canary", "2")
        eventually(lambda: watch.entries("started"), "the canary starts")
        noticed = watch.entries("started")[0]["noticed"]
        print(f"webhook to canary start: {noticed['seconds']:.2f} s")
        assert noticed["by"] == "webhook"
        assert watch.entries("started")[0]["running"]["champion"] == "1"
        assert tags(tracking, "2")[STATE] == "running"

        client.set_registered_model_alias(MODEL, "champion", "3")
        eventually(lambda: watch.known.frozen, "the freeze")
        eventually(lambda: FROZEN in client.get_registered_model(MODEL).tags, "the freeze is said")
        assert FROZEN in tags(tracking, "3")
        assert FROZEN in client.get_run(tags(tracking, "2")[RUN]).data.tags
        watch.rollouts.go.set()
        eventually(lambda: tags(tracking, "2")[STATE] == "finished", "the outcome is told")
        assert tags(tracking, "2")[VERDICT] == "hold"
        assert client.get_registered_model(MODEL).aliases["champion"] == "3"  # what the person wanted, untouched

        client.set_registered_model_tag(MODEL, ACKNOWLEDGE, "ann")
        client.delete_registered_model_alias(MODEL, "canary")  # wakes the controller
        eventually(lambda: not watch.known.frozen and not watch.known.canary, "acknowledged")
        assert watch.known.champion == "3"
        eventually(lambda: not client.get_registered_model(MODEL).tags, "the freeze is taken away")

        client.set_registered_model_alias(MODEL, "champion", "1")
        eventually(lambda: watch.known.frozen, "frozen again")
        client.set_registered_model_tag(MODEL, ACKNOWLEDGE, "ann")
        client.set_registered_model_alias(MODEL, "canary", "3")
        eventually(lambda: tags(tracking, "3").get(STATE) == "refused", "the version whose gates failed is refused")
        assert "gate t2 failed: T2 0.300 (n=400)" in tags(tracking, "3")[WHY]
        assert watch.rollouts.played == ["2"]


def test_a_server_that_is_killed_comes_back_and_nothing_is_lost(
    mlflow: MlflowServer, watch: Watch, tmp_path: Path
) -> None:
    """The receiver is away when the alias is set; the server is killed in the rollout, and hangs before the move."""
    watch.run(interval_s=0.5)  # before there is a server
    eventually(lambda: "MLflow at" in watch.controller.trouble, "it says that there is no server")
    with mlflow.running():
        tracking = versions(mlflow, tmp_path)
        tracking.client.set_registered_model_alias(MODEL, "canary", "2")  # nobody receives the webhook
        eventually(lambda: watch.entries("started"), "the canary starts all the same")
        assert watch.entries("started")[0]["noticed"] == {"by": "look"}
        eventually(lambda: tags(tracking, "2")[STATE] == "running", "it is said")
        mlflow.signal(signal.SIGKILL)
        eventually(lambda: "MLflow at" in watch.controller.trouble, "the server is missed")
    watch.rollouts.verdict = "promote"
    with mlflow.running():
        eventually(lambda: not watch.controller.trouble, "all is well again")
        mlflow.signal(signal.SIGSTOP)  # takes connections and never answers
        eventually(lambda: "MLflow at" in watch.controller.trouble, "a slow server is no answer")
        mlflow.signal(signal.SIGCONT)
        eventually(lambda: not watch.controller.trouble, "it answers again")
        watch.rollouts.go.set()
        eventually(lambda: watch.entries("published"), "the outcome is told")
        client = Tracking(mlflow.uri, EXPERIMENT).client
        assert client.get_registered_model(MODEL).aliases == {"champion": "2", "canary": "2"}
        assert (tags(tracking, "2")[STATE], tags(tracking, "2")[VERDICT]) == ("finished", "promote")
        run = client.get_run(tags(tracking, "2")[RUN])
        assert run.info.status == "FINISHED" and run.data.tags[VERDICT] == "promote"
        linked = [model.model_id for model in run.inputs.model_inputs]
        assert linked == [tags(tracking, "2")["model_id"]]  # the run page shows the model, the model's page the run
        assert "canary.json" in [file.path for file in client.list_artifacts(run.info.run_id)]
    assert watch.rollouts.played == ["2"] and watch.controller.ledger.verify() == []


NONSENSE = {
    "an empty object": (200, b"{}"),
    "another kind": (200, b'{"registered_model": {"name": "somebody-else"}}'),
    "wrong types": (200, b'{"registered_model": [1, 2]}'),
    "a list": (200, b"[]"),
    "half of it": (200, b'{"registered_model": {"name": "avatar-agent", "ali'),
    "a login page": (200, b"<html>please log in</html>"),
    "a gateway's error": (502, b"<html>bad gateway</html>"),
    "an error in JSON": (500, b'{"error_code": "INTERNAL_ERROR", "message": "boom"}'),
    "binary": (200, bytes(range(256))),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_changes_nothing(kind: str, tmp_path: Path, quick) -> None:
    """Whatever answers at MLflow's address: an error that names it, no write but those to the registry itself, and a
    ledger in which nothing has happened."""
    status, body = NONSENSE[kind]
    asked: list[str] = []

    class Nonsense(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.command} {self.path.partition('?')[0]}")
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *args) -> None: ...

    impostor = ThreadingHTTPServer(("127.0.0.1", 0), Nonsense)
    threading.Thread(target=impostor.serve_forever, daemon=True).start()
    uri = f"http://127.0.0.1:{impostor.server_port}"
    try:
        tracking = Tracking.__new__(Tracking)  # as after a good start: its constructor would stop here already
        tracking.uri, tracking.client, tracking.experiment_id = uri, MlflowClient(uri, uri), "1"
        registry = PromotionRegistry(tracking)
        controller = Controller(tmp_path, Inbox(tmp_path / "inbox.db"), lambda: registry, Rollouts())
        controller.ledger.record("adopted", 0.0, {"champion": "1", "why": "first sight"})
        before = controller.ledger.head()
        with pytest.raises(SystemFault, match=f"MLflow at {uri}"):
            controller.look()
        assert controller.ledger.head() == before
        assert not [request for request in asked if "alias" in request or "tag" in request], asked
        version = Version("2", run_id="run", tags={"uri": "s3://b/m"})
        calls: dict[str, Callable[[], object]] = {
            "mark": lambda: registry.mark("2", {STATE: "running"}),
            "say_frozen": lambda: registry.say_frozen("2", "run", "why"),
            "move_champion": lambda: registry.move_champion("2"),
            "failed_gates": lambda: registry.failed_gates(version),
            "open_run": lambda: registry.open_run("r", version, {}, {}),
            "close_run": lambda: registry.close_run("run", {STATE: "finished"}, {}, [], failed=False),
            "subscribe": lambda: registry.subscribe("http://127.0.0.1:1/webhooks/mlflow", SECRET),
        }
        for name, call in calls.items():
            with pytest.raises(SystemFault, match=f"MLflow at {uri}"):
                call()
                pytest.fail(f"{name} took {kind} for an answer")
    finally:
        impostor.shutdown()
        impostor.server_close()
