"""Servers as child processes: started on free ports, waited for, and stopped however the parent ends."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from components.avatar.errors import SystemFault
from components.canary_deploy.serve import LISTENING

POLL_S = 0.1
STOP_S = 8.0  # a server that has not ended by then is killed
LOG_LINES = 15  # of a failed server, shown in the error


@dataclass
class ServerProcess:
    """One running server."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    url: str = ""

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def fault(self, what: str) -> SystemFault:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
        return SystemFault("\n".join([f"{self.name} {what}; end of {self.log}:", *lines]))


class Servers:
    """A context: every server started in it is stopped when it is left. If this process is killed, the servers end by
    themselves."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._running: list[ServerProcess] = []

    def start(self, name: str, module: str, *arguments: str) -> ServerProcess:
        """Start `python -m module arguments` on a free port of this machine; does not wait."""
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{name}.log"
        command = [sys.executable, "-u", "-m", module, *arguments, "--port", "0", "--stop-with-parent"]
        with open(log, "wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
        server = ServerProcess(name, process, log)
        self._running.append(server)
        return server

    def wait_listening(self, server: ServerProcess, timeout_s: float) -> str:
        """Wait until the server has a port; its URL. Raises SystemFault as `wait_ready` does."""
        deadline = time.monotonic() + timeout_s
        while not server.url:
            if server.exit_status is not None:
                raise server.fault(f"ended with status {server.exit_status}")
            if time.monotonic() > deadline:
                raise server.fault(f"did not listen within {timeout_s:g} s")
            time.sleep(POLL_S)
            server.url = _listening(server.log)
        return server.url

    def wait_ready(self, server: ServerProcess, timeout_s: float) -> dict:
        """Wait until the server's /healthz is 200; its body.

        Raises:
            SystemFault: it ended, says that it will never be ready, or took too long; with the end of its log.
        """
        deadline = time.monotonic() + timeout_s
        url = self.wait_listening(server, timeout_s)
        while time.monotonic() < deadline:
            if server.exit_status is not None:
                raise server.fault(f"ended with status {server.exit_status}")
            try:
                response = httpx.get(f"{url}/healthz", timeout=5.0, trust_env=False)
                body = response.json()
            except (httpx.HTTPError, ValueError):
                body, response = {}, None
            if response is not None and response.status_code == 200:
                return body
            if body.get("error"):
                raise server.fault(f"is not ready: {body['error']}")
            time.sleep(POLL_S)
        raise server.fault(f"was not ready within {timeout_s:g} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for server in self._running:
            if server.process.stdin is not None:
                server.process.stdin.close()  # its sign to end
        deadline = time.monotonic() + STOP_S
        for server in self._running:
            try:
                server.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()


def _listening(log: Path) -> str:
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(LISTENING):
            return line.removeprefix(LISTENING).strip()
    return ""
