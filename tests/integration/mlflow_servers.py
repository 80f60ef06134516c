"""`make mlflow-up` as a process of the tests, and PostgreSQL for it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from components.integrations.server_process import free_port, server, wait_until
from tests.integration.conftest import answers

ROOT = Path(__file__).parents[2]
PASSWORD = "a password of this test"


@contextmanager
def mlflow_up(
    folder: Path, tracking_uri: str = "", artifacts: str = "", environment: dict[str, str] | None = None, port: int = 0
) -> Iterator[str]:
    """The server that the Makefile starts, over sqlite and a folder unless told otherwise; its log is `folder`/log."""
    port = port or free_port()
    command = [
        *("make", "-o", "setup", "mlflow-up", f"MLFLOW_PORT={port}"),  # -o: the tests run in that environment already
        f"TRACKING_URI={tracking_uri or f'sqlite:///{folder}/mlflow.db'}",
        f"ARTIFACTS={artifacts or folder / 'artifacts'}",
    ]
    uri, log = f"http://127.0.0.1:{port}", folder / "log"
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MAKEFLAGS": "", "MAKELEVEL": ""}
    with server(["env", "-C", str(ROOT), *command], log, quiet | (environment or {})) as process:
        wait_until(lambda: answers(f"{uri}/health"), process, log)
        yield uri


@dataclass(frozen=True)
class Postgres:
    """`uri` names user, host and database; the password stands in `passfile` only, as libpq wants it."""

    uri: str
    passfile: Path
    log: Path


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """A PostgreSQL server that asks for a password. Skips, naming what is missing, where Debian's package or the driver
    is not installed.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    missing = [] if found else ["Debian's package postgresql (apt-get install postgresql)"]
    missing += [] if find_spec("psycopg") else ["the driver psycopg (pip install 'psycopg[binary]')"]
    if missing:
        pytest.skip("not installed: " + ", ".join(missing))
    programs, port, data = found[-1].parent, free_port(), folder / "data"
    # PostgreSQL refuses to run as root: then as the user of Debian's package.
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    data.mkdir(parents=True)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    if as_user:
        for path in (data, secret):
            shutil.chown(path, "postgres", "postgres")
        for path in (folder, *folder.parents[:2]):  # pytest's folders are private
            path.chmod(path.stat().st_mode | 0o011)
    initdb = [str(programs / "initdb"), "-D", str(data), "-U", "mlflow", "-A", "scram-sha-256", f"--pwfile={secret}"]
    subprocess.run([*as_user, *initdb, "--no-sync"], check=True, capture_output=True, cwd="/")
    passfile = folder / "pgpass"
    passfile.write_text(f"127.0.0.1:{port}:*:mlflow:{PASSWORD}\n")
    passfile.chmod(0o600)
    log = folder / "postgres.log"
    command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), "-k", str(data), "-h", "127.0.0.1", "-F"]
    ready = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    with server([*as_user, *command], log) as process:
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, process, log)
        yield Postgres(f"postgresql+psycopg://mlflow@127.0.0.1:{port}/postgres", passfile, log)
