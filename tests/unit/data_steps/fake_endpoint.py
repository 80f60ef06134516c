"""A chat-completions server on this machine that answers with the oracle's turns, and fails as it is told to.

Stateless like a real one: it plays the messages of a request again in a session and says what the oracle would do
next. It recognises an episode by its prompt, so the prompts of a test's scenarios must differ.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from components.avatar.agent.completions import wire_names, wire_tools
from components.avatar.harness.render import system_prompt
from components.avatar.harness.schema import Harness
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.oracle import next_action, realise
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session

KEY = "sk-secret-0123456789"
USAGE = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}

Reply = dict[str, Any] | str  # an assistant message, or how to fail
Script = Callable[[Session, int, dict[str, Any]], Reply]
"""(session, number of the request that the server got, right answer) -> what to answer."""


def right(session: Session, number: int, answer: dict[str, Any]) -> Reply:
    return answer


@dataclass
class FakeEndpoint:
    """`requests` holds every body, `statuses` counts the failures that were sent."""

    world: Merchant
    script: Script
    harnesses: Callable[[Scenario], Sequence[Harness]]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    known: dict[tuple[str, str, str], tuple[Harness, Scenario]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, scenarios: Sequence[Scenario]) -> None:
        for scenario in scenarios:
            for harness in self.harnesses(scenario):
                first = Session(harness, self.world.catalogue, scenario).begin().content
                prompt = (system_prompt(harness), json.dumps(wire_tools(harness)), first)
                known = self.known.setdefault(prompt, (harness, scenario))
                assert known[1].id == scenario.id, "two scenarios of the test have the same prompt"

    def answer(self, body: Mapping[str, Any]) -> Reply:
        with self.lock:
            number = len(self.requests)
            self.requests.append(dict(body))
        messages = body["messages"]
        harness, scenario = self.known[messages[0]["content"], json.dumps(body["tools"]), messages[1]["content"]]
        session = self._played(harness, scenario, messages)
        done = realise(session, next_action(session))
        if done[0] == "reply":
            return self.script(session, number, {"role": "assistant", "content": done[1]})
        function = {"name": wire_names(harness)[done[1]], "arguments": json.dumps(done[2])}
        call = {"id": "x", "type": "function", "function": function}
        return self.script(session, number, {"role": "assistant", "content": None, "tool_calls": [call]})

    def _played(self, harness: Harness, scenario: Scenario, messages: Sequence[dict[str, Any]]) -> Session:
        session = Session(harness, self.world.catalogue, scenario)
        session.begin()
        names = {alias: name for name, alias in wire_names(harness).items()}
        for message in messages:
            if message["role"] != "assistant":
                continue
            if calls := message.get("tool_calls"):
                function = calls[0]["function"]
                session.call(names.get(function["name"], function["name"]), json.loads(function["arguments"]))
            elif message["content"].startswith("<tool_call>"):
                session.malformed("as sent")
            else:
                session.reply(message["content"])
        return session


@contextmanager
def serving(fake: FakeEndpoint, key: str = KEY) -> Iterator[FakeEndpoint]:
    """`fake` on a free port, behind `key`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            given = self.headers.get("Authorization", "")
            if given != f"Bearer {key}":
                return self._send(401, {"error": {"message": f"Incorrect API key provided: {given}"}})
            if self.path != "/v1/chat/completions":
                return self._send(404, {"error": {"message": f"no route {self.path}"}})
            reply = fake.answer(json.loads(data))
            if isinstance(reply, dict):
                choice = {"index": 0, "message": reply, "finish_reason": reply.pop("finish_reason", "stop")}
                return self._send(200, {"object": "chat.completion", "choices": [choice], "usage": USAGE})
            fake.statuses[reply] += 1
            match reply:
                case "slow":
                    time.sleep(1.0)
                    self._send(200, {"choices": []})
                case "cut":
                    self.send_response(200)
                    self.send_header("Content-Length", "1000")
                    self.end_headers()
                    self.wfile.write(b'{"choices": [')
                    self.close_connection = True
                case "garbage":
                    self._raw(200, b"<html>Bad gateway</html>")
                case "no choices":
                    self._send(200, {"choices": []})
                case "429":
                    self._send(429, {"error": {"message": "slow down"}}, {"Retry-After": "0"})
                case _:
                    self._send(int(reply), {"error": {"message": f"key {given} of tenant 7: out of order"}})

        def _send(self, status: int, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> None:
            self._raw(status, json.dumps(body).encode(), headers)

        def _raw(self, status: int, data: bytes, headers: Mapping[str, str] | None = None) -> None:
            try:
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                pass  # the client has given up

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
