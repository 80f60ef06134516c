"""Exposure and outcome events as they arrive: JSON lines that may be late, duplicated, out of order or broken.

Nothing here raises on a bad event: it is quarantined with its reason and counted, and the count is itself a check of
the decision. Joining events to units happens in `evidence`, over the whole set, so the order of arrival cannot change
a verdict.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from components.avatar.errors import InputError, file_fault
from components.canary_deploy.assignment import Arm

KEPT_SAMPLES = 100  # quarantined lines kept for a person; all are counted
LAG_WINDOW = 100  # newest events of a source whose arrival lag shows its clock


def _seconds(value: object) -> object:
    """ISO 8601 with a zone -> seconds since the epoch; numbers pass."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError("a time without a zone")
        return moment.timestamp()
    return value


Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    id: Name
    """Unique over all events of a rollout; a second event with the same id is a duplicate."""
    room: Name
    viewer: Name
    at: Seconds
    """When it happened, seconds of the events' clock (or ISO 8601 with a zone)."""
    received: Seconds | None = None
    """When the collector got it; None in batches that do not say."""


class Exposure(_Event):
    """One reply of one arm to one viewer, written by the router, which also measured its latency."""

    event: Literal["exposure"] = "exposure"
    rollout: Name
    unit: Name
    arm: Arm
    release_digest: Name
    """Of the model that really answered: the champion's when the router fell back."""
    harness_digest: Name
    reply_id: Name
    latency_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    tool_errors: Annotated[int, Field(ge=0)] = 0
    violations: Annotated[int, Field(ge=0)] = 0
    quality: Share | None = None
    """None: this reply was not judged. Never a placeholder zero."""


class Outcome(_Event):
    """What a viewer did. `amount` is the whole order's (or refund's), in `currency`; required for an order."""

    event: Literal["order", "refund", "page_view", "watch", "gift"]
    amount: Annotated[Decimal, Field(ge=0, allow_inf_nan=False, max_digits=18)] | None = None
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] | None = None
    units: Annotated[int, Field(ge=0)] = 1


_EVENT = TypeAdapter(Annotated[Exposure | Outcome, Field(discriminator="event")])


@dataclass(frozen=True)
class Quarantined:
    """A refused event: `text` is its beginning."""

    reason: str
    text: str


@dataclass
class EventLog:
    """All valid events of one rollout so far, deduplicated by id, and a count of everything that was refused.

    Args:
        rollout: exposures of other rollouts are counted as foreign and skipped.
        currency: money in another currency is quarantined (nothing here converts).
    """

    rollout: str
    currency: str = "CNY"
    exposures: dict[str, Exposure] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    received: int = 0
    duplicates: int = 0
    foreign: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    samples: list[Quarantined] = field(default_factory=list)

    @property
    def quarantined(self) -> int:
        return sum(self.reasons.values())

    def add(self, event: Exposure | Outcome) -> bool:
        """Add a parsed event. False: duplicate, foreign or quarantined."""
        self.received += 1
        return self._accept(event)

    def add_line(self, text: str | bytes) -> bool:
        """Parse and add one JSON line. False: duplicate, foreign or quarantined. Empty lines are skipped."""
        if not text.strip():
            return False
        self.received += 1
        try:
            event = _EVENT.validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"][1:]) or "event"
            self._refuse(f"{where}: {first['type']}", text)
            return False
        return self._accept(event)

    def add_lines(self, lines: Iterable[str | bytes]) -> int:
        """Add many lines; the number accepted."""
        return sum(map(self.add_line, lines))

    def read(self, path: Path | str) -> int:
        """Add a JSONL batch. Lines that are not UTF-8 or not JSON are quarantined.

        Raises:
            InputError: the file cannot be read at all.
        """
        try:
            with open(path, "rb") as lines:
                return self.add_lines(lines)
        except OSError as error:
            raise InputError(
                [file_fault(path, error.strerror or str(error), "a readable JSONL file of events")]
            ) from error

    def _accept(self, event: Exposure | Outcome) -> bool:
        known = self.exposures.get(event.id) or self.outcomes.get(event.id)
        if known is not None:
            if known.model_copy(update={"received": None}) == event.model_copy(update={"received": None}):
                self.duplicates += 1
            else:
                self._refuse("id: used by another event", event.model_dump_json())
            return False
        if isinstance(event, Exposure):
            if event.rollout != self.rollout:
                self.foreign += 1
                return False
            self.exposures[event.id] = event
            return True
        if event.event == "order" and event.amount is None:
            self._refuse("amount: missing", event.model_dump_json())
            return False
        if event.amount is not None and event.currency != self.currency:
            self._refuse("currency: another one than the rollout's", event.model_dump_json())
            return False
        self.outcomes[event.id] = event
        return True

    def _refuse(self, reason: str, text: str | bytes) -> None:
        self.reasons[reason] += 1
        if len(self.samples) < KEPT_SAMPLES:
            shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
            self.samples.append(Quarantined(reason, shown.strip()[:300]))


def write_events(path: Path | str, events: Iterable[Exposure | Outcome]) -> None:
    """Write events as JSONL, e.g. a batch for object storage."""
    with open(path, "w", encoding="utf-8") as file:
        for event in events:
            file.write(json.dumps(event.model_dump(mode="json", exclude_none=True), ensure_ascii=False) + "\n")
