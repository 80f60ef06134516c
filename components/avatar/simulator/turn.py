"""What a session keeps about the viewer message being answered, and the tool results that the agent could read."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from components.avatar.harness.schema import Capability, Harness, Skill
from components.avatar.simulator.facts import TrueFacts
from components.avatar.simulator.families import Need, needs_of
from components.avatar.simulator.faults import RETRYABLE, FaultPlan
from components.avatar.simulator.scenario import FaultKind, Question
from components.avatar.simulator.verify import Context


@dataclass
class NeedState:
    """Progress on one fact of the current question."""

    need: Need
    available: bool  # can be had within faults and the call limit
    affordable: bool = False  # one call of it fits into the call limit
    attempts: int = 0
    ok: bool = False
    last_fault: FaultKind | None = None

    @property
    def open(self) -> bool:
        """Another call of it is right: not made yet, or failed once in a way that a retry can help."""
        return not self.ok and (self.attempts == 0 or (self.attempts == 1 and self.last_fault in RETRYABLE))


def need_states(question: Question, harness: Harness, plan: FaultPlan, *, loads_skill: bool) -> list[NeedState]:
    """Which facts an ideal agent can have: it loads the skill (if one is still to be loaded), tries every lookup once,
    then retries with the calls that are left.
    """
    left = harness.limits.tool_calls
    if loads_skill:
        left -= 1 + (plan.failing(Capability.LOAD_SKILL) in RETRYABLE)
    states = [NeedState(need, available=False) for need in needs_of(question, harness)]
    for state in states:
        if state.need.calls and left > 0:
            left -= 1
            state.affordable = True
    for state in states:
        if state.affordable:
            capability = state.need.calls[0].capability
            failing = plan.failing(capability)
            retried = failing in RETRYABLE and left > 0
            left -= retried
            state.available = failing is None or (retried and plan.one_retry_helps(capability))
    return states


@dataclass
class Turn:
    """One viewer message being answered."""

    index: int
    question: Question
    context: Context
    started: float
    needs: list[NeedState]
    truth: TrueFacts
    skills: tuple[Skill, ...]  # right reply skills, in order of preference; empty: none is needed
    skill_available: bool
    calls: int = 0
    bad_calls: int = 0
    wrong_skills: set[str] = field(default_factory=set)
    skill_attempts: int = 0
    over_limit: bool = False
    spent: dict[str, int] = field(default_factory=dict)


class ToolResult(NamedTuple):
    """A result that the agent could read: what the oracle and the fact check know."""

    question: int
    capability: Capability
    arguments: dict[str, Any]
    result: dict[str, Any]
    fault: FaultKind | None = None  # then `result` holds only its error
