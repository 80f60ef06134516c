"""One OpenAI-compatible server as a blocking client: one request, its retries, its usage, its failures.

What fails for a moment (429, 5xx, a cut connection, a time-out, an answer that is no chat completion) is tried again
with growing pauses; `Retry-After` is honoured. What the user must change (key, address, model) is an InputError at
once, everything else that remains a SystemFault. The key appears in no message: texts of the server are searched for
it, and the settings never hold it.
"""

import email.utils
import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx
from pydantic import BaseModel, Field, ValidationError

from components.avatar.agent.completions import AssistantMessage
from components.avatar.agent.types import Message
from components.avatar.errors import Fault, InputError, SystemFault
from components.teacher_generation.settings import Endpoint

MAX_ANSWER_BYTES = 8 * 1024**2
LONGEST_PAUSE_S = 60.0
CONNECT_TIMEOUT_S = 10.0
TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
WRONG_SETTING = {
    401: ("key_file", "a key that the server accepts"),
    403: ("key_file", "a key that may use this model"),
    404: ("url", "an address below which /chat/completions and the model exist"),
}


class Choice(BaseModel):
    message: AssistantMessage
    finish_reason: str | None = None


class Usage(BaseModel):
    prompt_tokens: int = Field(default=0, ge=0)
    completion_tokens: int = Field(default=0, ge=0)


class Answer(BaseModel):
    """The part of a chat completion that is read. `usage` is None where the server does not meter."""

    choices: tuple[Choice, ...] = Field(min_length=1)
    usage: Usage | None = None


class _Transient(Exception):
    """Worth another try, after `pause_s` seconds where the server asked for them; caught inside this module only."""

    def __init__(self, reason: str, pause_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.pause_s = reason, pause_s


class Server:
    """`field` names the settings section in faults. `stopping` ends pauses early and refuses further requests. Safe to
    share between threads."""

    def __init__(self, settings: Endpoint, field: str, stopping: threading.Event) -> None:
        self.settings = settings
        self._field, self._stopping = field, stopping
        self._key = read_key(settings.key_file, field) if settings.key_file is not None else ""
        self._url = f"{settings.url.rstrip('/')}/chat/completions"
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx.Timeout(settings.timeout_s, connect=min(CONNECT_TIMEOUT_S, settings.timeout_s)),
            limits=httpx.Limits(max_connections=None),  # the caller bounds them by its threads
        )

    def close(self) -> None:
        self._client.close()

    def complete(
        self, messages: list[Message], *, tools: list[dict[str, Any]] | None = None, seed: int | None = None
    ) -> Answer:
        """Raises InputError where key, address or model are refused, SystemFault when the tries are used up."""
        settings = self.settings
        body: dict[str, Any] = {
            "model": settings.model,
            "messages": messages,
            "max_tokens": settings.max_tokens,
            "temperature": settings.temperature,
        }
        if tools:
            body |= {"tools": tools, "parallel_tool_calls": False}
        if seed is not None:
            body["seed"] = seed
        body |= settings.body
        failures: list[str] = []
        for attempt in range(settings.retries + 1):
            if self._stopping.is_set():
                raise SystemFault("the run is ending")
            try:
                return self._ask(body)
            except _Transient as transient:
                failures.append(transient.reason)
                if attempt < settings.retries:
                    wanted = settings.backoff_s * 2**attempt * random.uniform(0.5, 1.0)
                    self._stopping.wait(min(LONGEST_PAUSE_S, max(wanted, transient.pause_s)))
        counted = f"{len(failures)} " + ("tries" if len(failures) > 1 else "try")
        raise SystemFault(f"{self._url}: no answer in {counted}; the last: {failures[-1]}")

    def _ask(self, body: dict[str, Any]) -> Answer:
        deadline = time.monotonic() + self.settings.timeout_s
        data = bytearray()
        try:
            with self._client.stream("POST", self._url, json=body) as response:
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > MAX_ANSWER_BYTES:
                        raise _Transient(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
                    if time.monotonic() > deadline:  # httpx's own limit is between two pieces
                        raise _Transient(f"no whole answer within {self.settings.timeout_s:g} s")
        except httpx.TimeoutException as error:
            raise _Transient(f"{type(error).__name__} ({self.settings.timeout_s:g} s)") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise _Transient(self._shown(f"{type(error).__name__}: {error}")) from None
        if response.status_code != 200:
            self._refuse(response, bytes(data))
        try:
            return Answer.model_validate_json(bytes(data))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "body"
            raise _Transient(f"no chat completion: {where}: {first['msg'][:120]}") from None

    def _refuse(self, response: httpx.Response, data: bytes) -> None:
        status = response.status_code
        said = self._shown(f"{status} {response.reason_phrase}: {_message(data)}")
        if status in TRANSIENT:
            raise _Transient(said, _retry_after(response.headers.get("retry-after", "")))
        if status in WRONG_SETTING:
            name, allowed = WRONG_SETTING[status]
            found = f"{self._url} (model {self.settings.model}) answers {said}"
            raise InputError([Fault("settings", f"{self._field}.{name}", found, allowed)])
        raise SystemFault(f"{self._url} answers {said}")

    def _shown(self, text: str) -> str:
        """`text` of another party in one short line, the key blotted out."""
        text = " ".join(text.split())
        return (text.replace(self._key, "***") if self._key else text)[:300]


def read_key(place: str, field: str) -> str:
    """The key in the file `place`, or in the one file of the folder `place`. Raises InputError, which shows neither the
    key nor `place`: somebody may have put the key where its path belongs."""
    allowed = "a file that holds the key, or a mounted secret with one key"

    def fault(found: str) -> InputError:
        return InputError([Fault("settings", f"{field}.key_file", found, allowed)])

    path = Path(place)
    try:
        if path.is_dir():  # a mounted secret keeps its versions in hidden folders beside the links to its keys
            files = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
            if len(files) != 1:
                raise fault(f"a folder of {len(files)} files")
            [path] = files
        key = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise fault(error.strerror or type(error).__name__) from None
    except UnicodeDecodeError:
        raise fault("no text") from None
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise fault("an empty file" if not key else "more than one word, or signs that no key has")
    return key


def _message(data: bytes) -> str:
    """What an error's body says: OpenAI's `error.message`, else the text itself."""
    text = data.decode("utf-8", "replace")
    try:
        error = json.loads(text)["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError, RecursionError):
        return text


def _retry_after(value: str) -> float:
    """Seconds that a Retry-After header asks for (a number or a date); 0 when it says nothing readable."""
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0
