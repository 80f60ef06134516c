"""A scenario is everything that decides an episode except the harness and the agent: the same scenario is replayed
under many harnesses.
"""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from components.avatar.harness.schema import Capability, Family, Frozen
from components.avatar.simulator.catalogue import Product


class FaultKind(StrEnum):
    """How an injected fault of a tool looks to the agent."""

    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    RATE_LIMITED = "rate_limited"
    PERMISSION_DENIED = "permission_denied"
    STALE_VALUE = "stale_value"
    SCHEMA_DRIFT = "schema_drift"
    OUTAGE = "outage"


class ToolFault(Frozen):
    """Injected fault: the first `times` calls of `capability` in the episode fail (`times` 99 = a permanent outage)."""

    capability: Capability
    kind: FaultKind
    times: int = Field(default=1, ge=1)


class Question(Frozen):
    """One line of questions.jsonl: a viewer's message and, where known, what it asks (`slots`: city, variant, order_id,
    ...).
    """

    id: str
    text: str
    family: Family | None = None
    link_id: int | None = None
    slots: dict[str, Any] = Field(default_factory=dict)


class StreamEvent(Frozen):
    """One line of events.jsonl: a change of stream or harness `at_s` simulated seconds after the start."""

    at_s: float = Field(ge=0)
    kind: Literal[
        "price", "stock", "flash_sale", "on_air", "rule_added", "limit_changed", "tool_renamed", "tool_withdrawn"
    ]
    value: dict[str, Any]


class Scenario(Frozen):
    """`questions` are asked one after the other in one episode. `seed` drives everything random in the episode."""

    id: str
    seed: int
    merchant: str
    questions: tuple[Question, ...]
    faults: tuple[ToolFault, ...] = ()
    events: tuple[StreamEvent, ...] = ()
    on_air: int | None = None  # link shown on the stream at the start
    products: tuple[Product, ...] = ()
    """Products as they are in this episode, instead of the catalogue's of the same link (variation.py)."""
