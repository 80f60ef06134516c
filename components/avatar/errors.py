"""The error model of the project.

Three things can go wrong and they never mix:

* **Input** that a user gave us is bad: `InputError`, raised once, before any work, with *all* faults found.
* **Our own** machinery failed (a dead endpoint, a full disk, a bug): `SystemFault` or any other exception. It is never
  scored as a bad answer of the model; callers count it apart.
* **A rollout went badly** (unknown tool, malformed call, injected time-out): that is data. No exception at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """One thing wrong with an input: where it is, what stands there, what may stand there."""

    file: str
    field: str
    found: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.file}: {self.field}: found {self.found}; allowed: {self.allowed}"


class InputError(ValueError):
    """Bad input from a user; `faults` lists everything that is wrong, not only the first thing."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        count = f"{len(self.faults)} fault" + ("s" if len(self.faults) != 1 else "")
        super().__init__(f"{count} in the input:\n" + "\n".join(f"  - {fault}" for fault in self.faults))


class SystemFault(RuntimeError):
    """Our own side failed (server, disk, process); never counted against the model."""


def file_fault(path: Path | str, found: str, allowed: str, field: str = "file") -> Fault:
    """A fault of a whole file (missing, unreadable, not UTF-8)."""
    return Fault(str(path), field, found, allowed)
