"""A merchant's folder: harness, catalogue, questions and events, loaded and checked against each other at once."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from components.avatar.errors import Fault, InputError
from components.avatar.harness.files import load_harness
from components.avatar.harness.schema import Capability, Harness, content_digest
from components.avatar.simulator.catalogue import Catalogue, read_catalogue, read_jsonl
from components.avatar.simulator.questions import read_events, read_questions
from components.avatar.simulator.scenario import Question, StreamEvent


@dataclass(frozen=True)
class Merchant:
    """Everything of one merchant. `digest` covers all of it; `harness.digest` only the harness."""

    harness: Harness
    catalogue: Catalogue
    questions: tuple[Question, ...]
    events: tuple[StreamEvent, ...] = ()

    @property
    def name(self) -> str:
        return self.harness.merchant

    @cached_property
    def digest(self) -> str:
        logs = [[row.model_dump(mode="json") for row in rows] for rows in (self.questions, self.events)]
        return content_digest([self.harness.digest, self.catalogue.digest, logs])


def load_merchant(folder: Path | str) -> Merchant:
    """The merchant of `folder`; `events.jsonl` and `recorded/` may be absent.

    Raises one InputError with the faults of all files.
    """
    folder = Path(folder)
    faults: list[Fault] = []
    harness: Harness | None = None
    try:
        harness = load_harness(folder)
    except InputError as error:
        faults.extend(error.faults)
        if not folder.is_dir():
            raise
    catalogue = read_catalogue(folder / "catalogue.jsonl", faults)
    questions = read_questions(folder / "questions.jsonl", catalogue, faults)
    events_path = folder / "events.jsonl"
    events = read_events(events_path, catalogue, harness, faults) if events_path.exists() else ()
    if catalogue is not None and harness is not None:
        # A new object: a copy would keep the digest that was computed without the recordings.
        catalogue = Catalogue(products=catalogue.products, recorded=_recorded(folder / "recorded", harness, faults))
    if faults or harness is None or catalogue is None:
        raise InputError(faults)
    return Merchant(harness, catalogue, questions, events)


def _recorded(folder: Path, harness: Harness, faults: list[Fault]) -> dict[str, tuple[dict, ...]]:
    recorded: dict[str, tuple[dict, ...]] = {}
    for tool in harness.tools_for(Capability.RECORDED):
        path = folder / f"{tool.name}.jsonl"
        rows = read_jsonl(path, faults)
        for number, row in rows:
            if set(row) != {"arguments", "result"} or not isinstance(row["arguments"], dict):
                faults.append(
                    Fault(str(path), f"line {number}", str(sorted(row)), '{"arguments": {...}, "result": ...}')
                )
        recorded[tool.name] = tuple(row for _, row in rows)
    return recorded
