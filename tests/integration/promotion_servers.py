"""An MLflow server with webhooks, versions in its registry, and promote-watch's receiver, for the promotion tests."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from cryptography.fernet import Fernet
from fastapi import FastAPI

from components.integrations.metrics import Metric
from components.integrations.registry import Lineage, Registered, Registry
from components.integrations.release import release_of
from components.integrations.tracking import Tracking
from tests.integration.conftest import answers, binary, free_port, server, wait_until

EXPERIMENT = "promotion"
SECRET = "a secret of this test"


class MlflowServer:
    """A real server on one port, whose database outlives its process."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.log = folder / "mlflow.log"
        self.process: subprocess.Popen | None = None
        self._key = Fernet.generate_key().decode()  # without one the secret cannot be read after a restart

    @contextmanager
    def running(self) -> Iterator["MlflowServer"]:
        command = [
            *(binary("mlflow", "mlflow"), "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"),
            *("--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"),
            *("--artifacts-destination", str(self.folder / "artifacts")),
        ]
        environment = {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # its job runners take longer to start than the server
            "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
            "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http,https",
            "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY": self._key,
            "MLFLOW_WEBHOOK_CACHE_TTL": "1",
        }
        with server(command, self.log, environment) as process:
            self.process = process
            wait_until(lambda: answers(f"{self.uri}/health"), process, self.log)
            yield self

    def signal(self, number: signal.Signals) -> None:
        """To the server and its workers: they are one process group."""
        assert self.process is not None
        os.killpg(self.process.pid, number)


def register(tracking: Tracking, store: Path, folder: Path, arm: str, passed: bool = True) -> Registered:
    """A version of a model folder, with the run and the registration.json that the registration step leaves."""
    registry = Registry(tracking, str(store))
    lineage = Lineage(harness_digest="h1", data_digest="d1", code_version="c1")
    with tracking.step_run(None, "registration") as step:
        with registry.changes() as changes:
            made = changes.register(folder, arm=arm, release=release_of(folder), lineage=lineage, run_id=step.run_id)
        gates = {"t2": {"passed": passed, "why": "T2 0.300 (n=400); at least 0.400 wanted"}}
        report = folder.parent / f"{arm}-{made.version}" / "registration.json"
        report.parent.mkdir()
        report.write_text(json.dumps({"gates": gates, "model_version": made.version}))
        step.log_metrics({"gates_passed": Metric(float(passed), 1)})
        step.log_artifacts(report)
    return made


@contextmanager
def served(app: FastAPI, port: int) -> Iterator[str]:
    """An app in a thread of this process, on `port`."""
    running = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    eventually(lambda: running.started, "the app listens")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.should_exit = True
        thread.join(30)


def eventually(holds: Callable[[], object], what: str, seconds: float = 120) -> None:
    """Wait until `holds()`; generous, as the machine may be busy."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
