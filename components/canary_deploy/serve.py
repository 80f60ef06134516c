"""Runs an HTTP app as a process of its own: says where it listens, and ends with the process that started it."""

import argparse
import os
import signal
import sys
import threading

import uvicorn
from fastapi import FastAPI

LISTENING = "listening on "


def add_server_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: a free one; the line `listening on URL` names it")
    parser.add_argument(
        "--stop-with-parent", action="store_true", help="end when stdin is closed, however the parent died"
    )


class _Server(uvicorn.Server):
    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for socket in server.sockets:
                host, port = socket.getsockname()[:2]
                print(f"{LISTENING}http://{host}:{port}", flush=True)


def serve(app: FastAPI, options: argparse.Namespace) -> int:
    """Serve until a signal ends it; the exit status."""
    if options.stop_with_parent:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    config = uvicorn.Config(app, host=options.host, port=options.port, log_level="warning", timeout_graceful_shutdown=5)
    server = _Server(config)
    server.run()
    return 0 if server.started else 1


def _end_with_stdin() -> None:
    """Works for a parent that was killed without a chance to clean up: the system closes its end of the pipe."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
