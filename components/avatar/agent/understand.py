"""From what an agent wrote to what it meant: a transcript as the semantic actions that can be played under any harness.

The transcript is played again in a fresh session, so a call is translated with the harness of its moment, and nothing
needs to be stored but the agent's own words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from components.avatar.agent.examples import Mistake
from components.avatar.agent.parser import ParsedCall, ParsedReply, parse
from components.avatar.harness.schema import Capability, Frozen, Harness
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.families import intent
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.surface import resolve
from components.avatar.simulator.types import SemanticAction

Speaker = Literal["viewer", "agent", "tool", "correction"]
_SPEAKERS: dict[str, Speaker] = {"user": "viewer", "tool": "tool", "system": "correction"}


class AgentTurn(Frozen):
    """One turn as the episode loop took it: a turn that was cut off is malformed, whatever its text."""

    kind: Literal["call", "reply", "malformed"]
    text: str


@dataclass(frozen=True)
class Understood:
    """`actions` is the finally correct behaviour: what no correction followed. `slips` are the corrected turns whose
    hook is known. `transcript` holds who said what, in order."""

    session: Session  # at the end of the transcript
    actions: tuple[SemanticAction, ...]
    slips: tuple[Mistake, ...]
    transcript: tuple[tuple[Speaker, str], ...]


def understand(harness: Harness, catalogue: Catalogue, scenario: Scenario, turns: Sequence[AgentTurn]) -> Understood:
    """Play `turns` again. Turns that stand after the end of the episode are ignored."""
    session = Session(harness, catalogue, scenario)
    actions: list[SemanticAction] = []
    slips: list[Mistake] = []
    transcript: list[tuple[Speaker, str]] = [("viewer", session.begin().content)]
    for turn in turns:
        if session.stop is not None:
            break
        hooks = session.harness.hooks
        parsed = parse(turn.text) if turn.kind != "malformed" else None
        action = _meaning(session, parsed)
        if isinstance(parsed, ParsedCall):
            observation = session.call(parsed.name, parsed.arguments)
        elif isinstance(parsed, ParsedReply):
            observation = session.reply(parsed.text)
        else:
            observation = session.malformed("unreadable")
        transcript.append(("agent", turn.text))
        corrected = observation.role == "system" and not observation.done
        if not observation.done:
            transcript.append((_SPEAKERS[observation.role], observation.content))
        if corrected:
            checks = [hook.check for hook in hooks if hook.message == observation.content]
            slips += [Mistake(before=len(actions), kind=check) for check in checks[:1]]
        elif action is not None:
            actions.append(action)
    return Understood(session, tuple(actions), tuple(slips), tuple(transcript))


def _meaning(session: Session, parsed: object) -> SemanticAction | None:
    """What the turn means; None for a turn that means nothing that could be played elsewhere: unreadable, an unknown
    tool, a skill that is not the right one (strategy skills are optional and cost nothing)."""
    family = intent(session.question)
    if isinstance(parsed, ParsedReply):
        return SemanticAction("reply", family=family, text=parsed.text)
    if not isinstance(parsed, ParsedCall):
        return None
    resolved = resolve(session.harness, parsed.name, parsed.arguments)
    if resolved.problem is not None or resolved.capability is None:
        return None
    if resolved.capability == Capability.LOAD_SKILL:
        asked = str(resolved.arguments["skill"]).strip()
        right = any(skill.name == asked for skill in session.turn.skills)
        return SemanticAction("skill", family=family) if right else None
    return SemanticAction("call", family=family, capability=resolved.capability, arguments=resolved.arguments)
