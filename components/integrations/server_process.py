"""Real servers for tests and benchmarks: processes on free ports of this machine, with a log, killed at the end."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from components.avatar.errors import SystemFault

START_S = 180  # generous: a loaded machine
_LOG_CHARACTERS = 3000
_PORTS = range(20000, 22768)  # these and those 10000 above lie below what Linux gives to clients (from 32768)
_given: set[int] = set()


def free_port() -> int:
    """A port that is free now, and 10000 above as well: SeaweedFS puts its gRPC there. No client of this machine is
    given either by the kernel before the server takes them."""
    start = os.getpid() % len(_PORTS)
    for port in (*_PORTS[start:], *_PORTS[:start]):
        if port not in _given and all(_is_free(p) for p in (port, port + 10000)):
            _given.add(port)
            return port
    raise SystemFault("no free port on this machine")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@contextmanager
def server(
    command: list[str], log: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server process for the time of the block; killed at its end, with its workers: its group is its own."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | (environment or {}), start_new_session=True
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # it ended by itself
                os.killpg(process.pid, 9)
            process.wait()


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for `ready()` to hold. Raises SystemFault, with the end of the log, when it ends or takes too long."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        if ready():
            return
        time.sleep(0.2)
    state = "ended" if process.poll() is not None else f"not ready after {START_S} s"
    tail = log.read_text(encoding="utf-8", errors="replace")[-_LOG_CHARACTERS:]
    raise SystemFault(f"{process.args}: {state}\n{tail}")
