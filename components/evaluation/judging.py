"""Accuracy, effectiveness and quality of a finished episode by the evaluation's own verifier."""

from collections.abc import Sequence
from dataclasses import dataclass

from components.avatar.agent.types import EpisodeResult
from components.avatar.harness.schema import Harness
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.stream import Stream, apply_harness_event
from components.avatar.simulator.types import Reply
from components.evaluation.verifier import Moment, ReplyVerdict, judge_reply


@dataclass(frozen=True)
class EpisodeVerdict:
    """Means over all questions of the episode; those never answered count as zero. `replies` in their order."""

    accuracy: float
    effectiveness: float
    replies: tuple[ReplyVerdict, ...]

    @property
    def quality(self) -> float:
        return (self.accuracy + self.effectiveness) / 2


def judge_episode(
    harness: Harness, catalogue: Catalogue, scenario: Scenario, result: EpisodeResult
) -> EpisodeVerdict | None:
    """`harness` is the state that the episode started under; edits of the scenario's events are applied here again.

    None when our own side failed the episode. Raises InputError when the verifier does not read the harness's language
    (`verifier.LANGUAGES`).
    """
    if result.score is None:
        return None
    verdicts, last = _judged(harness, catalogue, scenario, result.replies)
    questions = max(1, min(len(scenario.questions), last.limits.turns), len(verdicts))
    return EpisodeVerdict(
        accuracy=sum(verdict.accuracy for verdict in verdicts) / questions,
        effectiveness=sum(verdict.effectiveness for verdict in verdicts) / questions,
        replies=tuple(verdicts),
    )


def _judged(
    harness: Harness, catalogue: Catalogue, scenario: Scenario, replies: Sequence[Reply]
) -> tuple[list[ReplyVerdict], Harness]:
    """Verdicts in order, and the harness of the last moment."""
    stream = Stream(catalogue.replacing(scenario.products), scenario.events, scenario.on_air)
    questions = {question.id: question for question in scenario.questions}
    verdicts = []
    for event in stream.advance(0.0):
        harness = apply_harness_event(harness, event)
    for reply in replies:
        for event in stream.advance(reply.moment.at_s):
            harness = apply_harness_event(harness, event)
        moment = Moment(
            question=questions[reply.question_id],
            harness=harness,
            stream=stream,
            unavailable=frozenset(reply.moment.unavailable),
            tried=reply.moment.tried,
            skill_missing=reply.moment.skill_missing,
        )
        verdicts.append(judge_reply(reply.text, moment))
    return verdicts, harness
