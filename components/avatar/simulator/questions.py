"""Viewers' questions and stream events: the two JSONL logs of a merchant's folder."""

from pathlib import Path
from typing import Any

from components.avatar.errors import Fault
from components.avatar.harness.strict import validate
from components.avatar.harness.schema import Family, Harness, Limits
from components.avatar.simulator.catalogue import Catalogue, attribute_key, read_jsonl
from components.avatar.simulator.families import LINK_FAMILIES
from components.avatar.simulator.scenario import Question, StreamEvent

EVENT_FIELDS: dict[str, dict[str, type]] = {
    "price": {"link_id": int, "amount": str},
    "stock": {"link_id": int, "stock": int},
    "flash_sale": {"link_id": int, "price": str, "ends_s": int},
    "on_air": {"link_id": int},
    "rule_added": {"block": str, "item": str},
    "limit_changed": {},
    "tool_renamed": {"from": str, "to": str},
    "tool_withdrawn": {"name": str},
}


def read_questions(path: Path, catalogue: Catalogue | None, faults: list[Fault]) -> tuple[Question, ...]:
    """The questions of `path`. A question without a family (an operator's raw log) is kept: only a teacher model can use it."""
    questions: list[Question] = []
    lines: dict[str, int] = {}
    for number, row in read_jsonl(path, faults):
        question = validate(Question, row, path, faults, f"line {number}")
        if question is None:
            continue
        where = f"line {number}"
        if question.id in lines:
            faults.append(
                Fault(
                    str(path), f"{where}.id", f"{question.id!r}, already in line {lines[question.id]}", "each id once"
                )
            )
        lines.setdefault(question.id, number)
        if not question.text.strip():
            faults.append(Fault(str(path), f"{where}.text", "an empty message", "what the viewer wrote"))
        if catalogue is not None:
            faults.extend(_question_faults(question, catalogue, path, where))
        questions.append(question)
    return tuple(questions)


def read_events(
    path: Path, catalogue: Catalogue | None, harness: Harness | None, faults: list[Fault]
) -> tuple[StreamEvent, ...]:
    """The events of `path` in order of time."""
    events: list[StreamEvent] = []
    for number, row in read_jsonl(path, faults):
        event = validate(StreamEvent, row, path, faults, f"line {number}")
        if event is None:
            continue
        found = list(_event_faults(event, catalogue, harness, path, f"line {number}.value"))
        faults.extend(found)
        if not found:
            events.append(event)
    return tuple(sorted(events, key=lambda event: event.at_s))


def _question_faults(question: Question, catalogue: Catalogue, path: Path, where: str):
    link, family = question.link_id, question.family
    known = link in catalogue.by_link
    if family == Family.UNKNOWN_LINK and (link is None or known):
        yield Fault(str(path), f"{where}.link_id", repr(link), "a link that the catalogue lacks (family unknown_link)")
    if family in LINK_FAMILIES and not known:
        yield Fault(str(path), f"{where}.link_id", repr(link), f"a link of the catalogue (family {family})")
    if family == Family.SHIPPING and not isinstance(question.slots.get("city"), str):
        yield Fault(str(path), f"{where}.slots.city", repr(question.slots.get("city")), "a city (family shipping)")
    if family == Family.ATTRIBUTES and known and link is not None:
        product = catalogue.by_link[link]
        allowed = sorted([*map(attribute_key, product.attributes), "warranty", "return days"])
        asked = question.slots.get("attribute")
        if not isinstance(asked, str) or attribute_key(asked) not in allowed:
            yield Fault(str(path), f"{where}.slots.attribute", repr(asked), f"one of {allowed} (link {link})")


def _event_faults(event: StreamEvent, catalogue: Catalogue | None, harness: Harness | None, path: Path, where: str):
    value: dict[str, Any] = event.value
    fields = EVENT_FIELDS[event.kind]
    for name, kind in fields.items():
        if not isinstance(value.get(name), kind) or isinstance(value.get(name), bool):
            yield Fault(str(path), f"{where}.{name}", repr(value.get(name)), f"{kind.__name__} (event {event.kind})")
            return
    if event.kind == "limit_changed":
        for name, number in value.items():
            if name not in Limits.model_fields or not isinstance(number, int):
                yield Fault(
                    str(path),
                    f"{where}.{name}",
                    repr(number),
                    f"an integer limit: one of {sorted(Limits.model_fields)}",
                )
    elif unknown := sorted(set(value) - set(fields)):
        yield Fault(str(path), where, f"unknown {unknown}", f"only {sorted(fields)}")
    if catalogue is not None and "link_id" in fields and value["link_id"] not in catalogue.by_link:
        yield Fault(str(path), f"{where}.link_id", repr(value["link_id"]), "a link of the catalogue")
    if harness is not None and event.kind in ("tool_renamed", "tool_withdrawn"):
        name = value.get("from", value.get("name"))
        if harness.tool(name) is None:
            yield Fault(str(path), where, repr(name), f"a tool of the harness: {[tool.name for tool in harness.tools]}")
