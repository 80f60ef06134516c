"""What was paid for: every attempt at a scenario, appended to a JSON-lines file as soon as it ends.

A row holds the agent's own words, not a verdict: whoever reads the file again asks the verifiers again, so a run that
was killed goes on without paying twice, and so does a run whose verifiers have changed.
"""

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from components.avatar.agent.understand import AgentTurn
from components.avatar.errors import InputError, file_fault
from components.avatar.harness.schema import Frozen

if TYPE_CHECKING:
    from components.integrations.objects import Objects

MIRROR_EVERY_S = 30.0


class Tokens(Frozen):
    """What a server metered. `unmetered` counts the answers that came without usage."""

    requests: int = Field(default=0, ge=0)
    prompt: int = Field(default=0, ge=0)
    completion: int = Field(default=0, ge=0)
    unmetered: int = Field(default=0, ge=0)

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(**{name: getattr(self, name) + getattr(other, name) for name in Tokens.model_fields})


class Vote(Frozen):
    """A judge's verdict on an episode; `accept` is None when its answer could not be read."""

    judge: str  # the model's name
    accept: bool | None
    why: str
    tokens: Tokens


class Attempt(Frozen):
    """One episode as it was played. `key` says by what; the last row of a key counts.

    `operators` made the harness (empty: the merchant's own). `error` is a fault of our own side: the attempt does not
    count and is made again, but its tokens were spent. `verdict` is for the reader: "" (accepted) or why not.
    """

    key: str
    scenario: str
    number: int
    operators: tuple[str, ...]
    turns: tuple[AgentTurn, ...]
    tokens: Tokens
    seconds: float
    error: str | None = None
    verdict: str = ""
    votes: tuple[Vote, ...] = ()


class Ledger:
    """The file of attempts; safe to share between threads.

    A cluster's pod loses its disk with its life. `mirror` keeps a copy elsewhere, in numbered parts of at most
    `MIRROR_EVERY_S` seconds each; a new pod starts from them.

    Raises InputError when the file cannot be read or written, SystemFault when the mirror fails."""

    def __init__(self, path: Path, mirror: "Objects | None" = None) -> None:
        self.path = path
        self.damaged = 0  # lines that could not be read: the one that a killed run was writing
        self.wasted = Tokens()  # spent on attempts that our own faults ended
        self._rows: dict[str, Attempt] = {}
        self._lock = threading.Lock()
        self._mirror, self._parts, self._unsaved = mirror, 0, ""
        self._saved_at = time.monotonic()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+", encoding="utf-8")
            self._file.seek(0)
            text = self._file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError([file_fault(path, str(error), "a file of attempts, or none yet")]) from error
        missing = "\n" if text and not text.endswith("\n") else ""
        if mirror is not None:
            missing += self._stored(mirror)
        self._file.write(missing)
        self._file.flush()
        # Not splitlines, which also splits at signs inside a string. The mirror may repeat lines of the file.
        for line in dict.fromkeys(filter(None, (text + missing).split("\n"))):
            try:
                self._take(Attempt.model_validate_json(line))
            except ValidationError:
                self.damaged += 1

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: str) -> Attempt | None:
        """The attempt that was made under `key` and that counts."""
        return self._rows.get(key)

    def append(self, attempt: Attempt) -> None:
        line = attempt.model_dump_json() + "\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()
            self._take(attempt)
            self._unsaved += line
            if time.monotonic() - self._saved_at > MIRROR_EVERY_S:
                self._save()

    def close(self) -> None:
        with self._lock:
            self._save()
            self._file.close()

    def _take(self, attempt: Attempt) -> None:
        if attempt.error is None:
            self._rows[attempt.key] = attempt
        else:
            self.wasted += attempt.tokens

    def _stored(self, mirror: "Objects") -> str:
        """What the mirror holds."""
        parts: list[str] = []
        while True:
            try:
                parts.append(mirror.read(_part(len(parts))).decode())
            except KeyError:
                self._parts = len(parts)
                return "".join(parts)

    def _save(self) -> None:
        if self._mirror is not None and self._unsaved:
            self._mirror.write(_part(self._parts), self._unsaved.encode())
            self._parts += 1
        self._unsaved, self._saved_at = "", time.monotonic()


def _part(number: int) -> str:
    return f"{number:06}.jsonl"
