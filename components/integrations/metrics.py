"""A step's metrics: every rate stands beside the number of cases that it rests on."""

import json
import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.avatar.errors import Fault, InputError, file_fault

METRICS_FILE = "metrics.json"


@dataclass(frozen=True)
class Metric:
    """`value` over `n` cases; rates are fractions 0-1. A single measurement (a loss, a duration) has n = 1.

    `value` may be NaN when nothing could be measured (n = 0); it is stored as null.
    """

    value: float
    n: int


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON so that a reader sees the old file or the whole new one, never half of it.

    The text goes to a temporary file in the same folder, reaches the disk, then takes the name. Raises ValueError for
    NaN or infinity, which are not JSON.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes it private; other users read run folders
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any:
    """Parse a JSON file. Raises InputError naming the file when it is missing, not UTF-8 or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError([file_fault(path, error.strerror or str(error), "a readable JSON file")]) from error
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError are both ValueErrors
        raise InputError([file_fault(path, str(error), "JSON in UTF-8")]) from error


def write_metrics(folder: Path, metrics: Mapping[str, Metric]) -> Path:
    """Write `folder/metrics.json`: {name: {"value": float | null, "n": int}}, sorted by name; returns the path."""
    path = folder / METRICS_FILE
    rows = {
        name: {"value": float(m.value) if math.isfinite(m.value) else None, "n": int(m.n)}
        for name, m in sorted(metrics.items())
    }
    write_json(path, rows)
    return path


def read_metrics(folder: Path) -> dict[str, Metric]:
    """Read `folder/metrics.json`. Raises InputError with every malformed entry."""
    path = folder / METRICS_FILE
    data = read_json(path)
    if not isinstance(data, dict):
        raise InputError([file_fault(path, type(data).__name__, "an object of metrics")])
    metrics, faults = {}, []
    for name, row in data.items():
        value, n = (row.get("value"), row.get("n")) if isinstance(row, dict) else (None, None)
        whole = isinstance(n, int | float) and not isinstance(n, bool) and float(n).is_integer() and n >= 0
        if not whole or (value is not None and (isinstance(value, bool) or not isinstance(value, int | float))):
            faults.append(Fault(str(path), name, repr(row), '{"value": number | null, "n": whole number >= 0}'))
        else:
            metrics[name] = Metric(math.nan if value is None else float(value), int(n or 0))
    if faults:
        raise InputError(faults)
    return metrics
