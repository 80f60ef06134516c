"""What crosses the border between the simulator's session and the agent's episode loop.

What is written to files is a frozen dataclass. What lives for a step is a named tuple, here and in the other files of
the simulator: a frozen dataclass takes twice as long to make.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from components.avatar.harness.schema import Capability, Family


class StopReason(StrEnum):
    """Why an episode ended. All but `system_fault` are data about the agent."""

    DONE = "done"  # the last viewer message was answered
    CALL_LIMIT = "call_limit"  # went on calling after the limit was said
    RETRIES_SPENT = "retries_spent"  # malformed output again and again
    CONTEXT_FULL = "context_full"  # prompt and episode no longer fit
    SYSTEM_FAULT = "system_fault"  # our own failure: never scored


class Observation(NamedTuple):
    """What the agent sees next. `role`: tool = a tool's result, system = a hook's correction, user = the next viewer
    message.

    `done` ends the episode; then `content` is empty.
    """

    role: Literal["tool", "system", "user"]
    content: str
    done: bool = False


@dataclass(frozen=True)
class SemanticAction:
    """An action with the surface taken off: what a trajectory stores and what replay realises under another harness.

    kind `skill`: load the reply skill that handles `family`; kind `call`: `capability` with canonical `arguments`;
    kind `reply`: answer the viewer. `text` is a teacher's own wording: it stands wherever its form fits the harness at
    hand; else, and where there is none, the reply is realised anew.
    """

    kind: Literal["skill", "call", "reply"]
    family: Family | None = None
    capability: Capability | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str | None = None


@dataclass(frozen=True)
class CallRecord:
    """One attempted call as the simulator judged it."""

    name: str
    arguments: dict[str, Any]
    capability: Capability | None  # None: no such tool in the harness of that moment
    known: bool  # the name stands in the prompt
    ok: bool  # executed and returned a result
    fault: str | None  # injected fault that hit it
    decoy: bool  # a decoy tool or decoy skill
    expected: bool  # belongs to the calls that this question needs (by meaning, arguments included)
    right_tool: bool  # the capability is one that this question still needs, whatever the arguments
    right_names: tuple[str, ...] = ()  # for a name that the prompt does not hold: the names that were right here


@dataclass(frozen=True)
class Moment:
    """What held when a reply was given. With scenario and catalogue a judge of its text needs no more: the stream
    stands still while a message is answered, so its second says its state.
    """

    at_s: float = 0.0  # simulated second at which the viewer's message came
    unavailable: tuple[Capability, ...] = ()  # first-choice lookups of the facts that could not be had
    tried: bool = True  # a lookup was made, or none was within reach
    skill_missing: bool = False  # a hook asks for the right skill, which could be loaded and was not


@dataclass(frozen=True)
class Reply:
    """One final reply to one viewer message and what the verifiers found."""

    question_id: str
    family: Family
    text: str
    accuracy: float  # 0 or 1
    effectiveness: float  # 0, 0.5 or 1
    false_claims: tuple[str, ...]
    missing_facts: tuple[str, ...]
    broken_rules: tuple[str, ...]  # hooks that the final text still breaks
    persona_kept: bool
    fabricated: bool  # stated a fact that could not be had (outage)
    unavailable: bool  # the required fact could not be had: the right reply says so
    seconds: float  # simulated
    moment: Moment = Moment()


@dataclass(frozen=True)
class Score:
    """Rewards of an episode, each in [0, 1] (mean over its questions); `length_penalty` in [0, 1] is subtracted."""

    accuracy: float
    effectiveness: float
    tool_rationality: float
    skill_selection: float
    length_penalty: float

    @property
    def quality(self) -> float:
        return (self.accuracy + self.effectiveness) / 2
