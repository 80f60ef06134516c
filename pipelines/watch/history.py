"""How long a run takes, as measured on earlier ones: what a run that was not needed would have cost."""

import statistics
from pathlib import Path
from typing import Any

from components.avatar.errors import InputError
from components.integrations.metrics import read_json
from pipelines.steps import STEPS
from pipelines.watch.queue import Typical

_GATE, _ROLLOUT = STEPS[0], STEPS[-1]


def training_seconds(summary: dict[str, Any]) -> float | None:
    """Time of all steps after the gate, of a run that did every one of them in one go; None for any other run.

    The rollout may be missing: a model that passes no gate is not rolled out.
    """
    steps = summary.get("steps", {})
    seconds = 0.0
    for step in STEPS:
        row = steps.get(step, {})
        if step == _GATE:
            continue
        if row.get("status") == "succeeded":
            seconds += row["seconds"]
        elif not (step == _ROLLOUT and row.get("status") == "skipped"):
            return None
    return seconds


def runs_of(profile: str, runs: Path) -> list[float]:
    """Training seconds of the whole runs of a profile whose folders lie in `runs`."""
    found = []
    for path in sorted(runs.glob("*/summary.json")):
        try:
            summary = read_json(path)
            seconds = training_seconds(summary) if summary["profile"] == profile else None
        except (InputError, KeyError, TypeError, AttributeError):  # not a summary of ours
            continue
        if seconds is not None:
            found.append(seconds)
    return found


def typical(seconds: list[float]) -> Typical:
    minutes = round(statistics.median(seconds) / 60, 1) if seconds else None
    return Typical(minutes=minutes, runs=len(seconds))
