"""Injected faults of tools: what the agent sees instead of a result.

*Transient* kinds hit the first `times` calls of a capability, so a retry can help; *permanent* kinds hit every call of
it.
"""

import json
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from components.avatar.harness.schema import Capability
from components.avatar.simulator.scenario import FaultKind, ToolFault

PERMANENT = frozenset({FaultKind.PERMISSION_DENIED, FaultKind.OUTAGE})
RETRYABLE = frozenset({FaultKind.TIMEOUT, FaultKind.MALFORMED, FaultKind.RATE_LIMITED, FaultKind.STALE_VALUE})
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # json.dumps would make one a call
TIMEOUT_SECONDS = 5.0  # simulated; the usual client-side limit of a tool call

_ERRORS = {
    FaultKind.TIMEOUT: "timeout",
    FaultKind.RATE_LIMITED: "rate_limited",
    FaultKind.PERMISSION_DENIED: "permission_denied",
    FaultKind.OUTAGE: "service_unavailable",
}


class FaultPlan:
    """How often each capability still fails in this episode."""

    def __init__(self, faults: Sequence[ToolFault]) -> None:
        self._left = [[fault, fault.times] for fault in faults]

    def next(self, capability: Capability) -> FaultKind | None:
        """The fault that hits this call of `capability`, if any; counts the call."""
        for entry in self._left:
            fault, left = entry
            if fault.capability == capability and (left > 0 or fault.kind in PERMANENT):
                entry[1] -= 1
                return fault.kind
        return None

    def failing(self, capability: Capability) -> FaultKind | None:
        """The kind that the next call of `capability` would meet; drifted results can be read and count as none."""
        for fault, left in self._left:
            if fault.capability == capability and (left > 0 or fault.kind in PERMANENT):
                return None if fault.kind == FaultKind.SCHEMA_DRIFT else fault.kind
        return None

    def one_retry_helps(self, capability: Capability) -> bool:
        """Whether at most one failure stands between the agent and a result."""
        failures = 0
        for fault, left in self._left:
            if fault.capability == capability and (left > 0 or fault.kind in PERMANENT):
                if fault.kind in PERMANENT:
                    return False
                failures += left if fault.kind != FaultKind.SCHEMA_DRIFT else 0
        return failures <= 1


def faulty_text(kind: FaultKind, result: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """(what the agent sees, the result that it can still read out of it or None)."""
    if kind in _ERRORS:
        return compact({"error": _ERRORS[kind]}), None
    if kind == FaultKind.MALFORMED:
        text = compact(result)
        return text[: max(2, len(text) // 3)], None  # a third: the keys that matter come after the link and the title
    if kind == FaultKind.STALE_VALUE:
        return compact({**{key: _stale(value) for key, value in result.items()}, "stale": True}), None
    return compact(
        {"data": {"".join(w.title() for w in key.split("_")): value for key, value in result.items()}}
    ), result


def compact(value: Any) -> str:
    """JSON without spaces: tool results cost tokens."""
    return _JSON.encode(value)


def _stale(value: Any) -> Any:
    """An older amount: 10% higher. Other values stay."""
    if isinstance(value, str) and "." in value:
        try:
            return f"{Decimal(value) * Decimal('1.1'):.2f}"
        except InvalidOperation:
            return value
    return value
