"""A page and a JSON file a merchant, and one page for all: what changed, what the gate measured, what was decided, what
that saved.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from components.integrations.html import render_page
from components.integrations.metrics import write_json
from components.integrations.progress import duration
from pipelines.watch.queue import Change, Queue, State

SHOWN = 100  # changes on a page; the JSON file has them all
_PAGES = Path(__file__).parents[1] / "report"

_WORDS: dict[State, tuple[str, str]] = {  # what a reader sees, and its colour
    "seen": ("being edited", "muted"),
    "refused": ("refused", "bad"),
    "restored": ("taken back", "muted"),
    "accepted": ("accepted, waits for the gate", "warn"),
    "superseded": ("superseded by a newer edit", "muted"),
    "kept": ("champion kept", "good"),
    "queued": ("retrain, waits for its turn", "warn"),
    "running": ("retraining", "warn"),
    "trained": ("retrained", "good"),
    "failed": ("training failed", "bad"),
}


def timeline(queue: Queue, merchant: str) -> dict[str, Any]:
    """Everything known of a merchant, newest change first; what the JSON file holds and the page shows."""
    changes = queue.of(merchant)
    last = queue.last_accepted(merchant)
    return {
        "merchant": merchant,
        "served": None if last is None else {"digest": last.digest, "uri": last.facts.uri, "since": _iso(last.seen_at)},
        "saved": _saved(changes),
        "changes": [_row(queue, change) for change in reversed(changes)],
    }


def write_reports(queue: Queue, merchants: Sequence[str], folder: Path) -> None:
    """`<merchant>.json` and `<merchant>.html` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for merchant in merchants:
        told = timeline(queue, merchant)
        write_json(folder / f"{merchant}.json", told)
        older = max(0, len(told["changes"]) - SHOWN)
        told["changes"] = told["changes"][:SHOWN]
        _write(folder / f"{merchant}.html", "merchant_page.jinja", told=told, older=older, words=_WORDS)


def write_index(queue: Queue, folder: Path) -> None:
    """index.html: one line a merchant."""
    rows = []
    for merchant in queue.merchants():
        changes = queue.of(merchant)
        if changes:
            rows.append({"merchant": merchant, "state": changes[-1].state, "at": _iso(changes[-1].changed_at)}
                        | {"changes": len(changes), "saved": _saved(changes)})  # fmt: skip
    _write(folder / "index.html", "merchants_page.jinja", rows=rows, words=_WORDS)


def _row(queue: Queue, change: Change) -> dict[str, Any]:
    facts = change.facts.model_dump(mode="json")
    history = [{"at": _iso(at), "state": state} for at, state in queue.history(change)]
    verdict = change.facts.verdict
    return {
        "id": change.id,
        "digest": change.digest,
        "state": change.state,
        "seen_at": _iso(change.seen_at),
        "history": history,
        "decision": None if verdict is None else "retrain" if verdict.retrain else "keep",
        "seconds_to_verdict": _seconds_to_verdict(queue, change),
        **facts,
    }


def _seconds_to_verdict(queue: Queue, change: Change) -> float | None:
    decided = [at for at, state in queue.history(change) if state in ("kept", "queued", "refused")]
    return round(decided[0] - change.seen_at, 1) if decided else None


def _saved(changes: Sequence[Change]) -> dict[str, Any]:
    """Runs that were not needed, and the minutes of training that they would have taken as far as that is known:
    medians of measured runs at the time of each decision, less nothing; what the gates took stands beside.
    """
    kept = [change.facts for change in changes if change.state == "kept"]
    known = [facts.typical.minutes for facts in kept if facts.typical is not None and facts.typical.minutes is not None]
    gates = [change.facts.verdict.seconds for change in changes if change.facts.verdict is not None]
    return {
        "runs": len(kept),
        "minutes": round(sum(known), 1) if known else None,
        "runs_of_unknown_duration": len(kept) - len(known),
        "gate_minutes": round(sum(gates) / 60, 1),
    }


def _write(path: Path, template: str, **values: Any) -> None:
    """Replaced at once: a reader may have the page open."""
    arriving = path.with_name(f".{path.name}.new")
    arriving.write_text(render_page(_PAGES / template, duration=duration, **values), encoding="utf-8")
    arriving.replace(path)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
