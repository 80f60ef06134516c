"""An example is believed only when the simulator reproduces it: every agent turn is played again as text, every
observation compared."""

from components.avatar.agent.examples import ROLES, Example, poor_rewards
from components.avatar.agent.parser import ParsedCall, ParsedReply, parse
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.session import Session


def verify(example: Example, catalogue: Catalogue) -> str:
    """ "" when the transcript of `example` happens again in a fresh session and earns full reward; else what
    differs."""
    if example.harness.digest != example.harness_digest:
        return "harness_digest is not that of the harness"
    session = Session(example.harness, catalogue, example.scenario)
    observation = session.begin()
    if observation.content != example.first_message:
        return "first message differs from the scenario's"
    expected = None
    for number, segment in enumerate(example.segments):
        if segment.author == "environment":
            if expected is None or (expected.role, expected.content) != (ROLES[segment.kind], segment.text):
                return f"segment {number}: the simulator answers otherwise"
            expected = None
            continue
        if expected is not None:
            return f"segment {number}: an observation is missing before it"
        parsed = parse(segment.text)
        if isinstance(parsed, ParsedCall):
            observation = session.call(parsed.name, parsed.arguments)
        elif isinstance(parsed, ParsedReply):
            observation = session.reply(parsed.text)
        else:
            return f"segment {number}: malformed agent turn"
        expected = None if observation.done else observation
        if observation.done and number != len(example.segments) - 1:
            return f"segment {number}: the episode ends before the transcript does"
    if not observation.done:
        return "the transcript ends before the episode does"
    poor = poor_rewards(session.score(), example.missteps, len(example.scenario.questions))
    return "reward below 1: " + ", ".join(poor) if poor else ""
