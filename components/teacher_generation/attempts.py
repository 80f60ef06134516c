"""What was paid for: every attempt at a scenario, appended to a JSON-lines file as soon as it ends.

A row holds the agent's own words, not a verdict: whoever reads the file again asks the verifiers again, so a run that
was killed goes on without paying twice, and so does a run whose verifiers have changed.
"""

import threading
from pathlib import Path

from pydantic import Field, ValidationError

from components.avatar.agent.understand import AgentTurn
from components.avatar.errors import InputError, file_fault
from components.avatar.harness.schema import Frozen


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
    """The file of attempts; safe to share between threads. Raises InputError when it cannot be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0  # lines that could not be read: the one that a killed run was writing
        self.wasted = Tokens()  # spent on attempts that our own faults ended
        self._rows: dict[str, Attempt] = {}
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+", encoding="utf-8", errors="strict")
            self._file.seek(0)
            text = self._file.read()
            if text and not text.endswith("\n"):
                self._file.write("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError([file_fault(path, str(error), "a file of attempts, or none yet")]) from error
        for line in filter(None, text.split("\n")):  # splitlines would also split at signs inside a string
            try:
                self._take(Attempt.model_validate_json(line))
            except ValidationError:
                self.damaged += 1

    def get(self, key: str) -> Attempt | None:
        """The attempt that was made under `key` and that counts."""
        return self._rows.get(key)

    def append(self, attempt: Attempt) -> None:
        line = attempt.model_dump_json() + "\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()
            self._take(attempt)

    def close(self) -> None:
        self._file.close()

    def _take(self, attempt: Attempt) -> None:
        if attempt.error is None:
            self._rows[attempt.key] = attempt
        else:
            self.wasted += attempt.tokens
