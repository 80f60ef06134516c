"""One finding of the linter."""

from dataclasses import dataclass
from typing import Literal

from components.avatar.errors import Fault


@dataclass(frozen=True)
class Finding:
    """An error makes an answer impossible or wrong; a warning makes it harder. `code` is stable, for filters and
    tests.
    """

    severity: Literal["error", "warning"]
    code: str
    fault: Fault

    def __str__(self) -> str:
        return f"{self.severity} [{self.code}] {self.fault}"


def error(code: str, file: str, field: str, found: str, allowed: str) -> Finding:
    return Finding("error", code, Fault(file, field, found, allowed))


def warning(code: str, file: str, field: str, found: str, allowed: str) -> Finding:
    return Finding("warning", code, Fault(file, field, found, allowed))
