"""A row played in the simulator: the lookups that it says, then its reply, judged by both verifiers."""

from dataclasses import dataclass

from components.avatar.agent.types import EpisodeResult
from components.avatar.harness.schema import Capability
from components.avatar.simulator.oracle import call_of
from components.avatar.simulator.session import Session
from components.evaluation.agreement.cases import Transcript, harness_of, shop
from components.evaluation.judging import judge_episode


@dataclass(frozen=True)
class Opinion:
    """One judge's accuracy and effectiveness, and why (empty for the labels' own reasons)."""

    accuracy: float
    effectiveness: float
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    row: Transcript
    label: Opinion
    reward: Opinion
    evaluation: Opinion


def judge(row: Transcript) -> Judged:
    harness, catalogue = harness_of(row), shop(row.merchant)[1]
    session = Session(harness, catalogue, row.scenario)
    session.begin()
    turn = session.turn
    if row.skill and turn.skills:
        _, name, arguments = call_of(session.harness, Capability.LOAD_SKILL, {"skill": turn.skills[0].name})
        session.call(name, arguments)
    for need in turn.needs if row.tools == "asked" else ():
        while need.need.calls and need.open and turn.calls < harness.limits.tool_calls:
            call = need.need.calls[0]
            _, name, arguments = call_of(session.harness, call.capability, dict(call.arguments))
            session.call(name, arguments)
    session.reply(row.reply)
    assert session.stop is not None, "hooks without retries let every reply stand"
    reply = session.replies[0]
    result = EpisodeResult(
        scenario_id=row.id,
        harness_digest=harness.digest,
        prompt_ids=(),
        segments=(),
        calls=tuple(session.calls),
        replies=(reply,),
        score=session.score(),
        stop=session.stop,
    )
    verdict = judge_episode(harness, catalogue, row.scenario, result)
    assert verdict is not None
    own = verdict.replies[0]
    return Judged(
        row=row,
        label=Opinion(row.accuracy, row.effectiveness, (row.reason,)),
        reward=Opinion(
            reply.accuracy,
            reply.effectiveness,
            (*(f"false: {text}" for text in reply.false_claims), *(f"missing: {name}" for name in reply.missing_facts)),
        ),
        evaluation=Opinion(
            own.accuracy,
            own.effectiveness,
            (*(f"false: {text}" for text in own.false), *(f"missing: {name}" for name in (*own.missing, *own.lacking))),
        ),
    )
