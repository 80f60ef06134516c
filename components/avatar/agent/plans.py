"""What the teacher does turn by turn: recorded actions or the oracle's own, and, in a few episodes, a mistake that a
hook catches or that its own result shows.

A plan answers one question: given the session as it stands, what is the next turn? Teacher generation plays it
straight in a session, augmentation plays it through the episode loop.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from components.avatar.agent.examples import Misstep, Mistake
from components.avatar.agent.parser import call_text
from components.avatar.harness.schema import Capability, Hook, HookCheck
from components.avatar.simulator.oracle import call_of, next_action, realise
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import Observation, SemanticAction
from components.avatar.simulator.typing_slips import mistyped


@dataclass(frozen=True)
class Turn:
    """A call (`name` set) or a reply."""

    reply: str = ""
    name: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """As the agent writes it."""
        return self.reply if self.name is None else call_text(self.name, self.arguments)


class Plan:
    """Plays `recorded` actions, or the oracle's when None. `last` is the action behind the last turn, None for a
    mistake; `slipped_at` is the number of the turn (from 0) that was the mistake, or the first of its two."""

    def __init__(self, recorded: Sequence[SemanticAction] | None = None, mistake: Mistake | None = None) -> None:
        self.recorded = recorded
        self.mistake = mistake
        self.position = 0  # actions taken so far, mistakes not counted
        self.last: SemanticAction | None = None
        self.slipped_at: int | None = None
        self._unseen = False  # a wrong skill is loaded, and the reply that shows it is still to come

    @property
    def missteps(self) -> int:
        """Wrong calls so far that no hook caught: 0 or 1."""
        kind = None if self.mistake is None or self.slipped_at is None else self.mistake.kind
        return int(isinstance(kind, Misstep))

    def turn(self, session: Session) -> Turn:
        """The next turn. When the recorded actions run out before the episode ends, the oracle goes on."""
        if self._unseen:
            self._unseen = False
            return Turn(_premature(session))
        left = self.recorded is not None and self.position < len(self.recorded)
        action = self.recorded[self.position] if self.recorded is not None and left else next_action(session)
        right = _turn(session, action)
        if self.mistake is not None and self.slipped_at is None and self.mistake.before == self.position:
            wrong = slip(session, action, right, self.mistake.kind)
            if wrong is not None:
                self.slipped_at = self.position
                self._unseen = self.mistake.kind == Misstep.UNSEEN_SKILL
                self.last = None
                return wrong
        self.position += 1
        self.last = action
        return right


def play(session: Session, plan: Plan) -> tuple[SemanticAction, ...]:
    """Play a whole episode; returns its finally correct behaviour: the actions that no hook corrected."""
    session.begin()
    actions = []
    done = False
    while not done:
        observation = take(session, plan.turn(session))
        if plan.last is not None and (observation.done or observation.role != "system"):
            actions.append(plan.last)
        done = observation.done
    return tuple(actions)


def take(session: Session, turn: Turn) -> Observation:
    return session.reply(turn.reply) if turn.name is None else session.call(turn.name, turn.arguments)


def possible_mistakes(session: Session, action: SemanticAction) -> list[HookCheck | Misstep]:
    """What can go wrong in place of `action`: checks of the hooks of the session's harness, missteps."""
    right = _turn(session, action)
    kinds = [*dict.fromkeys(hook.check for hook in session.harness.hooks), *Misstep]
    return [kind for kind in kinds if slip(session, action, right, kind) is not None]


def slip(session: Session, action: SemanticAction, right: Turn, kind: HookCheck | Misstep) -> Turn | None:
    """A turn that goes wrong as `kind` says instead of the `right` one; None where that is not possible. Built from the
    right text and the harness's names, so that it needs no wording of its own in any language."""
    if isinstance(kind, Misstep):
        return _misstep(session, action, right, kind)
    return _breach(session, action, right, kind)


def _misstep(session: Session, action: SemanticAction, right: Turn, kind: Misstep) -> Turn | None:
    """A wrong call in place of `right`, if the call limit leaves room for it."""
    turn = session.turn
    needed = sum(state.open and bool(state.need.calls) for state in turn.needs) + (action.kind == "skill")
    if right.name is None or session.harness.limits.tool_calls - turn.calls <= needed:
        return None
    rng = random.Random(f"{session.scenario.seed}/{session.harness.digest}/{turn.calls}")
    if kind == Misstep.WRONG_NAME:
        return _misnamed(session, action, right, rng)
    if kind == Misstep.UNSEEN_SKILL and _hook(session, HookCheck.SKILL_LOADED) is None:
        return None
    if kind in (Misstep.WRONG_SKILL, Misstep.UNSEEN_SKILL) and action.kind == "skill":
        return _another_skill(session, rng)
    if kind == Misstep.WRONG_TOOL and action.kind == "call":
        return _another_tool(session, action, rng)
    return None


def _misnamed(session: Session, action: SemanticAction, right: Turn, rng: random.Random) -> Turn | None:
    """The right call with a slip in the tool's name or, of a skill to load, in the skill's."""
    assert right.name is not None
    if action.kind == "skill":
        [(argument, skill)] = right.arguments.items()
        wrong = mistyped(skill, rng)
        return Turn(name=right.name, arguments={argument: wrong}) if session.harness.skill(wrong) is None else None
    wrong = mistyped(right.name, rng)
    return Turn(name=wrong, arguments=right.arguments) if session.harness.tool(wrong) is None else None


def _another_skill(session: Session, rng: random.Random) -> Turn | None:
    others = [s.name for s in session.harness.skills if s not in session.turn.skills and s.name not in session.loaded]
    if not others:
        return None
    _, name, arguments = call_of(session.harness, Capability.LOAD_SKILL, {"skill": rng.choice(others)})
    return Turn(name=name, arguments=arguments)


def _another_tool(session: Session, action: SemanticAction, rng: random.Random) -> Turn | None:
    """A tool that the question does not need, with what is known of its arguments (too few make an error)."""
    bindings = session.harness.bindings
    useful = {call.capability for state in session.turn.needs for call in state.need.calls} | {Capability.LOAD_SKILL}
    others = [
        tool for tool in session.harness.tools if tool.name in bindings and bindings[tool.name].capability not in useful
    ]
    if not others:
        return None
    tool = rng.choice(others)
    canonical = bindings[tool.name].arguments
    known = {name: action.arguments.get(canonical.get(name, "")) for name in tool.argument_names()}
    return Turn(name=tool.name, arguments={name: value for name, value in known.items() if value is not None})


def _breach(session: Session, action: SemanticAction, right: Turn, check: HookCheck) -> Turn | None:
    """A turn that breaks `check`."""
    hook = _hook(session, check)
    if hook is None:
        return None
    if check == HookCheck.SKILL_LOADED and action.kind == "skill":
        return Turn(_premature(session))
    if check == HookCheck.TOOL_ARGUMENTS and action.kind == "call" and right.name is not None and right.arguments:
        return Turn(name=right.name)
    if action.kind != "reply":
        return None
    if check == HookCheck.REPLY_LENGTH:
        words = right.reply.split()
        return Turn(
            " ".join((words * (session.harness.limits.reply_words // max(1, len(words)) + 1))[:-1] + words[-1:])
        )
    if check == HookCheck.FORBIDDEN_WORDING and hook.arguments.get("words"):
        return Turn(f"{hook.arguments['words'][0].capitalize()}! {right.reply}")
    if check == HookCheck.REPLY_FORMAT:
        ending = hook.arguments.get("ends_with", "")
        return Turn(right.reply.removesuffix(ending).rstrip()) if ending and right.reply.endswith(ending) else None
    if check == HookCheck.FACT_CHECK:
        wrong = _other_number(right.reply, session.question.link_id)
        return Turn(wrong) if wrong is not None else None
    return None


def _hook(session: Session, check: HookCheck) -> Hook | None:
    """The hook that makes the agent try again when `check` fails."""
    return next((hook for hook in session.harness.hooks if hook.check == check and hook.retries > 0), None)


def _turn(session: Session, action: SemanticAction) -> Turn:
    realised = realise(session, action)
    return Turn(name=realised[1], arguments=realised[2]) if realised[0] == "call" else Turn(realised[1])


def _premature(session: Session) -> str:
    """What the oracle would say with what it knows now, which without a skill and without facts is too early."""
    return _turn(session, SemanticAction("reply", session.question.family)).reply


def _other_number(text: str, link_id: int | None) -> str | None:
    """`text` with its last number made larger by one, the product's link number left alone; None without such a
    number."""
    numbers = [match for match in re.finditer(r"\d+", text) if match[0] != str(link_id)]
    if not numbers:
        return None
    last = numbers[-1]
    return f"{text[: last.start()]}{int(last[0]) + 1}{text[last.end() :]}"
