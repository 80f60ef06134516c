"""Viewers' questions and stream events: the two JSONL logs of a merchant's folder."""

from pathlib import Path

from pydantic import ConfigDict, Field

from components.avatar.errors import Fault
from components.avatar.harness.schema import Family, Frozen, Harness, Limits
from components.avatar.harness.strict import validate
from components.avatar.simulator.catalogue import Amount, Catalogue, attribute_key, read_jsonl
from components.avatar.simulator.families import LINK_FAMILIES
from components.avatar.simulator.scenario import Question, StreamEvent


class _Price(Frozen):
    link_id: int
    amount: Amount


class _Stock(Frozen):
    link_id: int
    stock: int = Field(ge=0)


class _Flash(Frozen):
    link_id: int
    price: Amount
    ends_s: float = Field(ge=0)  # seconds of the stream


class _OnAir(Frozen):
    link_id: int


class _Rule(Frozen):
    block: str
    item: str = Field(min_length=1)


class _Renamed(Frozen):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_alias=True)
    old: str = Field(alias="from")
    to: str = Field(min_length=1)


class _Withdrawn(Frozen):
    name: str


EVENT_VALUES: dict[str, type[Frozen]] = {
    "price": _Price,
    "stock": _Stock,
    "flash_sale": _Flash,
    "on_air": _OnAir,
    "rule_added": _Rule,
    "limit_changed": Limits,  # any of its fields; checked together with some legal others
    "tool_renamed": _Renamed,
    "tool_withdrawn": _Withdrawn,
}
_SOME_LIMITS = dict.fromkeys(Limits.model_fields, 8)


def read_questions(path: Path, catalogue: Catalogue | None, faults: list[Fault]) -> tuple[Question, ...]:
    """The questions of `path`. A question without a family (an operator's raw log) is kept: only a teacher model can
    use it.
    """
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
        before = len(faults)
        _event_faults(event, catalogue, harness, path, f"line {number}.value", faults)
        if len(faults) == before:
            events.append(event)
    events.sort(key=lambda event: event.at_s)
    if harness is not None:
        _tool_faults(events, harness, path, faults)
    return tuple(events)


def _question_faults(question: Question, catalogue: Catalogue, path: Path, where: str):
    link, family = question.link_id, question.family
    known = link in catalogue.by_link
    if family == Family.UNKNOWN_LINK and (link is None or known):
        yield Fault(str(path), f"{where}.link_id", repr(link), "a link that the catalogue lacks (family unknown_link)")
    if family in LINK_FAMILIES and not known:
        yield Fault(str(path), f"{where}.link_id", repr(link), f"a link of the catalogue (family {family})")
    if family == Family.SHIPPING and not isinstance(question.slots.get("city"), str):
        yield Fault(str(path), f"{where}.slots.city", repr(question.slots.get("city")), "a city (family shipping)")
    if family == Family.ORDER_STATUS and not isinstance(question.slots.get("order_id"), str):
        yield Fault(str(path), f"{where}.slots.order_id", repr(question.slots.get("order_id")), "an order's id")
    if family == Family.SEARCH and not isinstance(question.slots.get("query"), str):
        yield Fault(str(path), f"{where}.slots.query", repr(question.slots.get("query")), "words to search for")
    if family == Family.COMPARE:
        links = question.slots.get("link_ids")
        if not isinstance(links, list) or len(links) != 2 or any(one not in catalogue.by_link for one in links):
            yield Fault(
                str(path), f"{where}.slots.link_ids", repr(links), "two links of the catalogue (family compare)"
            )
    if family == Family.VARIANT and known and link is not None:
        asked, offered = question.slots.get("variant"), [v.value for v in catalogue.by_link[link].variants]
        if not offered:
            yield Fault(str(path), f"{where}.link_id", repr(link), "a link with variants (family variant)")
        elif asked is not None and str(asked).lower() not in map(str.lower, offered):
            yield Fault(str(path), f"{where}.slots.variant", repr(asked), f"one of {offered} (link {link})")
    if family == Family.ATTRIBUTES and known and link is not None:
        product = catalogue.by_link[link]
        allowed = sorted([*map(attribute_key, product.attributes), "warranty", "return days"])
        asked = question.slots.get("attribute")
        if not isinstance(asked, str) or attribute_key(asked) not in allowed:
            yield Fault(str(path), f"{where}.slots.attribute", repr(asked), f"one of {allowed} (link {link})")


def _event_faults(
    event: StreamEvent,
    catalogue: Catalogue | None,
    harness: Harness | None,
    path: Path,
    where: str,
    faults: list[Fault],
) -> None:
    value = {**_SOME_LIMITS, **event.value} if event.kind == "limit_changed" else event.value
    if validate(EVENT_VALUES[event.kind], value, path, faults, where) is None:
        return
    link = value.get("link_id")
    if catalogue is not None and link is not None and link not in catalogue.by_link:
        faults.append(Fault(str(path), f"{where}.link_id", repr(link), "a link of the catalogue"))
    if harness is not None and event.kind == "rule_added" and all(b.id != value["block"] for b in harness.prompt):
        allowed = f"a prompt block: {[block.id for block in harness.prompt]}"
        faults.append(Fault(str(path), f"{where}.block", repr(value["block"]), allowed))


def _tool_faults(events: list[StreamEvent], harness: Harness, path: Path, faults: list[Fault]) -> None:
    """Renames and withdrawals must name a tool that exists by then: an earlier event may have renamed it."""
    names = {tool.name for tool in harness.tools}
    for event in events:
        if not event.kind.startswith("tool_"):
            continue
        name = event.value["from"] if event.kind == "tool_renamed" else event.value["name"]
        if name not in names:
            found = f"{name!r} at {event.at_s:g} s"
            faults.append(Fault(str(path), event.kind, found, f"a tool of that moment: {sorted(names)}"))
        names.discard(name)
        if event.kind == "tool_renamed":
            names.add(event.value["to"])
