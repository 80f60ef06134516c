"""Accuracy and effectiveness of a reply, tool rationality and skill selection of a turn, and the score of an episode.

Definitions (DESIGN, metrics):

* accuracy 1 if every claim is true at that moment and every required fact is stated, else 0. A fact that could not be
  had must be declined, not stated; declining what could be had is untrue.
* effectiveness 1 answered within all form rules; 0.5 answered with one form rule broken or a secondary part missing;
  else 0.
* tool rationality = needed lookups made / needed lookups - 0.5 for each call that was unneeded, repeated, a decoy, or
  of no tool.
* skill selection = 1 if the right reply skill was loaded before the reply, else 0; - 0.5 for each wrong or decoy skill.
* length penalty = share of words above the limit, at most 1.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from components.avatar.harness.script import words as words_of
from components.avatar.simulator.claims import Claims
from components.avatar.simulator.facts import FactKind, Lookup
from components.avatar.simulator.families import Requirement
from components.avatar.simulator.types import Score
from components.avatar.simulator.verify import Context, false_claims, false_text, satisfied, unsupported

BAD_CALL = 0.5  # our choice: two useless calls undo a perfect lookup
BAD_SKILL = 0.5
_MARKUP = re.compile(r'[{\[]\s*"|"\s*[}\]]|<\|?/?\w+\|?>')  # a tool result or a call marker read out is no answer


class Verdict(NamedTuple):
    """What the verifiers found about the facts of one reply."""

    accuracy: float
    answered: bool
    complete: bool  # secondary parts too
    false_claims: tuple[str, ...]
    missing_facts: tuple[str, ...]
    fabricated: bool
    unavailable: bool


class TurnScore(NamedTuple):
    """Rewards of one question."""

    accuracy: float
    effectiveness: float
    tool_rationality: float
    skill_selection: float
    length_penalty: float


def judge(
    claims: Claims,
    context: Context,
    requirements: Sequence[Requirement],
    unavailable: frozenset[str],
    truth: Lookup,
    results: Lookup,
    attempted: bool,
) -> Verdict:
    """Facts of one reply. `unavailable` names the requirements whose fact could not be had; `attempted` whether a
    lookup was tried.
    """
    declined = FactKind.UNAVAILABLE in claims.says
    must_decline = bool(unavailable) and any(not r.secondary and r.name in unavailable for r in requirements)
    wrong = [*false_claims(claims, context, truth), *false_text(claims, context, truth)]
    missing, secondary = [], []
    for requirement in requirements:
        if requirement.name not in unavailable and not satisfied(requirement, claims, context):
            (secondary if requirement.secondary else missing).append(requirement.name)
    fabricated = must_decline and (
        any(satisfied(r, claims, context) for r in requirements if r.name in unavailable)
        or unsupported(claims, context, results)
    )
    if must_decline and not (declined and attempted):
        missing.append("cannot_check")
    if declined and not must_decline:
        wrong.append("cannot_check")
    if fabricated and not wrong:
        wrong.append("made_up")
    talk = (bool(requirements) or _is_talk(claims.text, context.question.text)) and not _MARKUP.search(claims.text)
    return Verdict(
        accuracy=float(not wrong and not missing),
        answered=not missing and talk and not (declined and not must_decline),
        complete=not secondary,
        false_claims=tuple(wrong),
        missing_facts=(*missing, *secondary),
        fabricated=fabricated,
        unavailable=must_decline,
    )


def effectiveness(verdict: Verdict, broken_form: int) -> float:
    """`broken_form`: number of verifiable form rules that the reply breaks."""
    defects = broken_form + (not verdict.complete)
    if not verdict.answered or defects > 1:
        return 0.0
    return 0.5 if defects else 1.0


def tool_rationality(needed: int, made: int, bad: int) -> float:
    recall = made / needed if needed else 1.0
    return max(0.0, recall - BAD_CALL * bad)


def skill_selection(right_loaded: bool, wrong: int) -> float:
    return max(0.0, float(right_loaded) - BAD_SKILL * wrong)


def length_penalty(words: int, limit: int) -> float:
    return min(1.0, max(0.0, words / limit - 1.0))


def episode_score(turns: Sequence[TurnScore], questions: int) -> Score:
    """Mean over all questions of the episode; those never answered count as zero."""
    if questions < 1:
        raise ValueError("an episode has at least one question")
    if not turns:
        return Score(0.0, 0.0, 0.0, 0.0, 0.0)
    return Score(*[sum(rewards) / questions for rewards in zip(*turns, strict=True)])  # their fields are the same


def _is_talk(reply: str, question: str) -> bool:
    """Small talk has no facts to check: it must be words of its own, not the viewer's message again and not one word
    over and over.
    """
    words = words_of(reply)
    asked = words_of(question.lower())
    new = [word for word in words if word not in asked]
    return len(words) >= 3 and len(new) >= 2 and len(set(words)) * 2 > len(words)
