"""Hand-made replies with a person's labels, and the shops that they are about.

A row is complete: the question, what tools of that moment say (`facts`), the reply, both labels and a reason. The
shops beside it are frozen copies, so that no later edit of a merchant can make a label wrong.
"""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from components.avatar.errors import Fault, InputError
from components.avatar.harness.files import load_harness
from components.avatar.harness.schema import Capability, Family, Frozen, Harness
from components.avatar.harness.strict import validate
from components.avatar.simulator.capabilities import execute
from components.avatar.simulator.catalogue import Catalogue, load_catalogue, read_jsonl
from components.avatar.simulator.scenario import Question, Scenario, StreamEvent, ToolFault
from components.avatar.simulator.stream import Stream

FOLDER = Path(__file__).parent
FILES = (FOLDER / "transcripts.jsonl", FOLDER / "held_out.jsonl")
C, F = Capability, Family

_ASKED: dict[Family, tuple[Capability, ...]] = {  # lookups whose results a reader needs to check a label
    F.PRICE: (C.PRICE_LOOKUP,),
    F.STOCK: (C.STOCK_LOOKUP,),
    F.COUPON: (C.COUPON_LOOKUP,),
    F.PRICE_AFTER_COUPON: (C.PRICE_LOOKUP, C.COUPON_LOOKUP),
    F.SHIPPING: (C.SHIPPING_LOOKUP,),
    F.RETURN_POLICY: (C.RETURN_POLICY_LOOKUP,),
    F.ATTRIBUTES: (C.ATTRIBUTE_LOOKUP,),
    F.FLASH_SALE: (C.FLASH_SALE_LOOKUP,),
    F.VARIANT: (C.VARIANT_LOOKUP,),
    F.COMPARE: (C.COMPARE_LOOKUP,),
    F.ORDER_STATUS: (C.ORDER_STATUS_LOOKUP,),
    F.SEARCH: (C.PRODUCT_SEARCH,),
    F.ON_AIR: (C.ON_AIR_LOOKUP,),
    F.UNKNOWN_LINK: (C.PRICE_LOOKUP,),
}


class Transcript(Frozen):
    """One judged reply. `tools`: whether the agent made the lookups before it replied; `skill`: whether it loaded the
    right one; `withdrawn`: capabilities whose tools the merchant took away; `tricky`: what makes it so; `held_out`: the
    evaluation's verifier was finished before it met this row."""

    id: str
    merchant: str
    family: Family
    question: str
    link_id: int | None = None
    slots: dict[str, Any] = Field(default_factory=dict)
    on_air: int | None = None
    events: tuple[StreamEvent, ...] = ()
    faults: tuple[ToolFault, ...] = ()
    withdrawn: tuple[Capability, ...] = ()
    tools: Literal["asked", "none"] = "asked"
    skill: bool = True
    facts: dict[Capability, dict[str, Any]]
    reply: str
    accuracy: Literal[0, 1]
    effectiveness: float = Field(ge=0, le=1, multiple_of=0.5)
    reason: str
    tricky: str | None = None
    held_out: bool = False

    @property
    def scenario(self) -> Scenario:
        question = Question(id=self.id, text=self.question, family=self.family, link_id=self.link_id, slots=self.slots)
        return Scenario(
            id=self.id,
            seed=0,
            merchant=self.merchant,
            questions=(question,),
            faults=self.faults,
            events=self.events,
            on_air=self.on_air,
        )


def load_transcripts(paths: Sequence[Path] = FILES) -> list[Transcript]:
    """Raises InputError with all faults of the files."""
    faults: list[Fault] = []
    rows = [
        validate(Transcript, row, path, faults, f"line {number}")
        for path in paths
        for number, row in read_jsonl(path, faults)
    ]
    if faults:
        raise InputError(faults)
    return [row for row in rows if row is not None]


@lru_cache
def shop(merchant: str) -> tuple[Harness, Catalogue]:
    """The frozen harness and catalogue of `merchant`."""
    folder = FOLDER / "shops" / merchant
    return load_harness(folder), load_catalogue(folder / "catalogue.jsonl")


def harness_of(row: Transcript) -> Harness:
    """The row's harness without withdrawn tools. Hooks allow no retry: the reply stands as it is."""
    harness, _ = shop(row.merchant)
    gone = {tool.name for capability in row.withdrawn for tool in harness.tools_for(capability)}
    harness = harness.keeping(tools={tool.name for tool in harness.tools} - gone)
    hooks = tuple(hook.model_copy(update={"retries": 0}) for hook in harness.hooks)
    return harness.model_copy(update={"hooks": hooks})


def facts_of(row: Transcript) -> dict[Capability, dict[str, Any]]:
    """What the lookups of the row's family say in its shop at its moment."""
    stream = Stream(shop(row.merchant)[1], row.events, row.on_air)
    stream.advance(0.0)
    given = {"link_id": row.link_id, **row.slots}
    wanted = {
        C.SHIPPING_LOOKUP: ("city", "link_id"),
        C.ATTRIBUTE_LOOKUP: ("link_id", "attribute"),
        C.COMPARE_LOOKUP: ("link_ids",),
        C.ORDER_STATUS_LOOKUP: ("order_id",),
        C.PRODUCT_SEARCH: ("query",),
        C.ON_AIR_LOOKUP: (),
    }
    return {
        capability: execute(capability, stream, {name: given[name] for name in wanted.get(capability, ("link_id",))})
        for capability in _ASKED.get(row.family, ())
    }
