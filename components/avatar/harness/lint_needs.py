"""Lint of what viewers' questions need: calls within the limit, tools that no question needs.

Asks the simulator's own table of needs, so that lint and verifiers can't disagree.
"""

from collections.abc import Iterator

from components.avatar.harness.findings import Finding, error, warning
from components.avatar.harness.lint_tools import HARNESS
from components.avatar.harness.schema import Capability, Family, Harness
from components.avatar.simulator.families import Need, needs_of
from components.avatar.simulator.scenario import Question

SLOTS = {"city": "x", "attribute": "x", "order_id": "x", "query": "x", "link_ids": [1, 2]}
NEVER_ASKED = (Capability.LOAD_SKILL, Capability.RECORDED, Capability.DECOY)  # no family decides whether they are right


def need_findings(harness: Harness) -> Iterator[Finding]:
    handled = {family for skill in harness.skills if skill.kind == "reply" for family in skill.handles}
    yield from _limit_findings(harness, handled)
    if not handled:
        return  # lint says so; every tool would seem unneeded
    for tool in harness.tools:
        binding = harness.bindings.get(tool.name)
        if binding is None or binding.capability in NEVER_ASKED:
            continue
        capability, field = binding.capability, f"bindings.{tool.name}"
        first = harness.tools_for(capability)[0].name
        families = [family for family in Family if capability in _capabilities(family, harness)]
        if first != tool.name:
            found = f"{capability}, which {first} is bound to already"
            yield warning("tool-never-needed", HARNESS, field, found, "one tool a capability: the first is called")
        elif families and not handled & set(families):  # none: the binding itself is broken, other rules say so
            found = f"{capability}, which no question of a handled family needs"
            allowed = f"a reply skill that handles {' or '.join(families)}, or no such tool"
            yield warning("tool-never-needed", HARNESS, field, found, allowed)


def _limit_findings(harness: Harness, handled: set[Family]) -> Iterator[Finding]:
    most = max((len([n for n in _needs(family, harness)[0] if n.calls]) for family in handled), default=0)
    needed = max(2, 1 + most)
    if harness.limits.tool_calls < needed:
        found = f"{harness.limits.tool_calls}, but the skill and {needed - 1} lookups are {needed} calls"
        yield error("limit-too-low", HARNESS, "limits.tool_calls", found, f"at least {needed}")


def _capabilities(family: Family, harness: Harness) -> set[Capability]:
    return {call.capability for needs in _needs(family, harness) for need in needs for call in need.calls}


def _needs(family: Family, harness: Harness) -> list[tuple[Need, ...]]:
    """The needs of a question with every slot, about all variants and about one."""
    slots = (SLOTS, {**SLOTS, "variant": "x"})
    return [needs_of(Question(id="", text="", family=family, link_id=1, slots=s), harness) for s in slots]
