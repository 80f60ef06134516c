"""A TCP proxy before a real server that spoils chosen requests, as networks, load balancers and dying servers do."""

import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Request:
    """What the client asked. `headers` have names in lower case."""

    method: str
    path: str
    headers: dict[str, str]

    @property
    def is_part(self) -> bool:
        return self.method == "PUT" and "partNumber=" in self.path


@dataclass(frozen=True)
class Answer:
    """These bytes instead of the server, which sees nothing."""

    raw: bytes


@dataclass(frozen=True)
class CutUpload:
    """The connection breaks after so many bytes of the request's body, or half of it where that is less."""

    after: int = 1000


@dataclass(frozen=True)
class CutAnswer:
    """The server does its work; the connection breaks after so many bytes of its answer (head included), or before the
    last `-after` ones."""

    after: int


@dataclass(frozen=True)
class Damage:
    """One bit of the request's body arrives wrong."""


@dataclass(frozen=True)
class Stall:
    """The request is swallowed and never answered."""


Fault = Answer | CutUpload | CutAnswer | Damage | Stall
UNAVAILABLE = Answer(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
_PAGE = b"<html><body>Welcome to the proxy</body></html>"
PAGE = Answer(
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(_PAGE)
    + _PAGE
)
RUBBISH = Answer(bytes(range(256)))


class FaultyProxy:
    """`fault` decides on each request before it is forwarded; it runs in the request's thread."""

    def __init__(self, upstream: str) -> None:
        self.upstream = (urlsplit(upstream).hostname or "", urlsplit(upstream).port or 0)
        self.fault: Callable[[Request], Fault | None] = lambda request: None
        self.requests: list[Request] = []  # all that came, spoiled or not
        self.url = ""

    @property
    def parts(self) -> int:
        """How many parts of multipart uploads were sent."""
        return sum(request.is_part for request in self.requests)

    def serve(self, client: socket.socket) -> None:
        """One request on one connection."""
        stream = client.makefile("rb")
        lines = []
        while (line := stream.readline().decode("latin-1").rstrip("\r\n")) != "":
            lines.append(line)
        if not lines:  # the client changed its mind
            return
        method, path, _ = lines[0].split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        request = Request(method, path, headers)
        self.requests.append(request)
        fault = self.fault(request)
        body = stream.read(int(headers.get("content-length", 0)))
        if isinstance(fault, Stall):
            client.recv(1)  # until the client gives up
            return
        if isinstance(fault, Answer):
            client.sendall(fault.raw)
            return
        with socket.create_connection(self.upstream) as server:
            kept = [line for line in lines[1:] if not line.lower().startswith("connection:")]
            server.sendall("\r\n".join([lines[0], *kept, "Connection: close", "", ""]).encode("latin-1"))
            if isinstance(fault, CutUpload):
                server.sendall(body[: min(fault.after, len(body) // 2)])
                _reset(server)
                _reset(client)
                return
            if isinstance(fault, Damage) and body:
                body = body[:-1] + bytes([body[-1] ^ 1])
            server.sendall(body)
            if not isinstance(fault, CutAnswer):
                while data := server.recv(1 << 16):
                    client.sendall(data)
                return
            answer = b"".join(iter(lambda: server.recv(1 << 16), b""))
            client.sendall(answer[: fault.after])
            _reset(client)


def _reset(connection: socket.socket) -> None:
    """Close without the usual farewell: the other side sees a reset connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@contextmanager
def faulty_proxy(upstream: str) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(upstream)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            try:
                proxy.serve(self.request)
            except OSError:  # either side is gone, as it is meant to be in these tests
                pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 64

    with Server(("127.0.0.1", 0), Handler) as server:
        proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield proxy
        finally:
            server.shutdown()
