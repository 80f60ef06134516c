"""Rows of cases.jsonl, made by the code that makes the real ones."""

from components.avatar.agent.transcript import transcript_row
from components.avatar.agent.types import EpisodeResult, Segment
from components.avatar.harness.schema import Capability
from components.avatar.simulator.scenario import Question, Scenario
from components.avatar.simulator.types import CallRecord, Reply, Score, StopReason

FAILED = [
    ("environment", "viewer", "price of 7?"),  # the first part is the question's own text
    ("agent", "call", '<tool_call>{"name": "price_check", "arguments": {"link": 7}}</tool_call>'),
    ("environment", "tool", '{"error": "no such tool"}'),
    ("agent", "malformed", '<tool_call>{"name": </tool_call>'),
    ("environment", "correction", "That was no call."),
    ("agent", "call", '<tool_call>{"name": "get_cost", "arguments": {"item": 7}}</tool_call>'),
    ("environment", "tool", '{"price": "129.00"}'),
    ("agent", "reply", "It costs 99 yuan."),
    ("environment", "correction", "Load the matching skill first."),
    ("agent", "reply", "It is 99 yuan."),
    ("environment", "viewer", "thanks"),
    ("agent", "reply", "My pleasure."),
]


def call(name, known):
    return CallRecord(
        name=name,
        arguments={"link": 7},
        capability=Capability.PRICE_LOOKUP if known else None,
        known=known,
        ok=known,
        fault=None,
        decoy=False,
        expected=known,
        right_tool=known,
    )


def reply(text, family, wrong):
    return Reply(
        question_id="q",
        family=family,
        text=text,
        accuracy=float(not wrong),
        effectiveness=float(not wrong),
        false_claims=("99.00",) if wrong else (),
        missing_facts=("129.00",) if wrong else (),
        broken_rules=(),
        persona_kept=True,
        fabricated=False,
        unavailable=False,
        seconds=1.0,
    )


def failed_row(number=0, **extra):
    """Two turns: an absent name, a malformed call, a wrong price after a correction; then thanks."""
    first, second = FAILED[0][2], FAILED[-2][2]
    questions = (Question(id="q1", text=first, family="price"), Question(id="q2", text=second, family="chit_chat"))
    parts = tuple(Segment(author, kind, (), text) for author, kind, text in FAILED[1:])
    result = EpisodeResult(
        scenario_id=f"s{number}",
        harness_digest="abc",
        prompt_ids=(),
        segments=parts,
        calls=(call("price_check", False), call("get_cost", True)),
        replies=(reply("It is 99 yuan.", "price", True), reply("My pleasure.", "chit_chat", False)),
        score=Score(0.5, 0.5, 0.5, 1.0, 0.0),
        stop=StopReason.DONE,
        parse={"strict": 2, "repaired": 0, "failed": 1},
        corrections=2,
    )
    return _row(result, questions, number, True, extra)


def passed_row(number=0, **extra):
    result = EpisodeResult(
        scenario_id=f"s{number}",
        harness_digest="abc",
        prompt_ids=(),
        segments=(Segment("agent", "reply", (), "Hello!"),),
        calls=(),
        replies=(reply("Hello!", "chit_chat", False),),
        score=Score(1.0, 1.0, 1.0, 1.0, 0.0),
        stop=StopReason.DONE,
    )
    return _row(result, (Question(id="q1", text="hi", family="chit_chat"),), number, False, extra)


def _row(result, questions, number, failed, extra):
    scenario = Scenario(id=f"s{number}", seed=0, merchant="m", questions=questions)
    kind = {"arm": "hat", "decoding": "free", "suite": "T2", "failed": failed, "tools": ["get_cost", "load_skill"]}
    return transcript_row(result, scenario, **(kind | extra))
