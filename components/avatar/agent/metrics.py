"""Metrics of DESIGN.md, computed from finished episodes. Every rate comes with the n that it rests on.

Episodes that our own side failed (`score` is None) are counted in `system_faults` and in nothing else.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from components.avatar.agent.types import EpisodeResult
from components.avatar.harness.schema import Capability, Harness

Rate = tuple[float, int]  # value (NaN when n = 0), n


@dataclass(frozen=True)
class Judged:
    """An episode with the harness it ran under."""

    harness: Harness
    result: EpisodeResult

    @property
    def quality(self) -> float:
        assert self.result.score is not None
        return self.result.score.quality


def rate(flags: Iterable[float | bool]) -> Rate:
    values = [float(flag) for flag in flags]
    return (sum(values) / len(values) if values else float("nan"), len(values))


def episode_metrics(episodes: Sequence[Judged], known_names: frozenset[str]) -> dict[str, Rate]:
    """Metrics of one suite. `known_names`: tool and skill names seen in training (for the stale-name rate)."""
    scored = [e for e in episodes if e.result.score is not None]
    results = [e.result for e in scored]
    scores = [r.score for r in results if r.score is not None]
    calls = [call for r in results for call in r.calls]
    replies = [reply for r in results for reply in r.replies]
    named = [(e.harness, call) for e in scored for call in e.result.calls]
    disturbed = [
        r for r in results if (r.faults or r.corrections) and not any(reply.unavailable for reply in r.replies)
    ]
    attempts = {kind: sum(r.parse.get(kind, 0) for r in results) for kind in ("strict", "repaired", "failed")}
    total_attempts = sum(attempts.values())
    return {
        "quality": rate(score.quality for score in scores),
        "accuracy": rate(score.accuracy for score in scores),
        "effectiveness": rate(score.effectiveness for score in scores),
        "tool_rationality": rate(score.tool_rationality for score in scores),
        "skill_selection": rate(score.skill_selection for score in scores),
        "stale_name_rate": rate(bool(absent_names(h, c.name, c.arguments) & known_names) for h, c in named),
        "absent_name_rate": rate(bool(absent_names(h, c.name, c.arguments)) for h, c in named),
        "decoy_call_rate": rate(call.decoy for call in calls),
        "wrong_tool_rate": rate(call.known and not call.right_tool for call in calls),
        "fabricated_rate": rate(reply.fabricated for reply in replies if reply.unavailable),
        "recovery_rate": rate(r.score.accuracy == 1 for r in disturbed if r.score is not None),
        "persona_rate": rate(reply.persona_kept for reply in replies),
        "violation_rate": rate(bool(reply.broken_rules) for reply in replies),
        "strict_parse_rate": (attempts["strict"] / total_attempts if total_attempts else float("nan"), total_attempts),
        "repaired_parse_rate": (
            attempts["repaired"] / total_attempts if total_attempts else float("nan"),
            total_attempts,
        ),
        "replied_rate": rate(bool(r.replies) for r in results),
        "tokens_per_reply": _ratio(sum(sum(r.agent_mask) for r in results), len(replies)),
        "system_faults": (float(len(episodes) - len(scored)), len(episodes)),
    }


def absent_names(harness: Harness, name: str, arguments: dict[str, object]) -> set[str]:
    """The tool name, or the skill name of a load, that the harness does not have; empty when all names stand in the
    prompt."""
    tool = harness.tool(name)
    if tool is None:
        return {name}
    binding = harness.bindings.get(name)
    if binding is None or binding.capability != Capability.LOAD_SKILL:
        return set()
    return {str(value) for value in arguments.values() if harness.skill(str(value)) is None}


def _ratio(total: float, n: int) -> Rate:
    return (total / n if n else float("nan"), n)


@dataclass(frozen=True)
class PairedDifference:
    """Mean of a - b over pairs with a 95% percentile bootstrap interval (Efron & Tibshirani 1993, ch. 13)."""

    value: float
    low: float
    high: float
    n: int


def paired_difference(
    a: Sequence[float], b: Sequence[float], *, seed: int = 0, resamples: int = 4000
) -> PairedDifference:
    """`a[i]` and `b[i]` are the same case twice. Raises ValueError for unequal lengths or no pair."""
    if len(a) != len(b) or not a:
        raise ValueError(f"need pairs, got {len(a)} and {len(b)}")
    difference = np.asarray(a, float) - np.asarray(b, float)
    draws = np.random.default_rng(seed).integers(0, len(difference), (resamples, len(difference)))
    low, high = np.quantile(difference[draws].mean(axis=1), [0.025, 0.975])
    return PairedDifference(float(difference.mean()), float(low), float(high), len(difference))


def paired_qualities(
    first: Sequence[Judged], second: Sequence[Judged], value: Callable[[Judged], float] = lambda e: e.quality
) -> tuple[list[float], list[float]]:
    """Values of the scenarios that both lists scored, in the order of `first`."""
    other = {e.result.scenario_id: e for e in second if e.result.score is not None}
    pairs = [
        (e, other[e.result.scenario_id]) for e in first if e.result.score is not None and e.result.scenario_id in other
    ]
    return [value(a) for a, _ in pairs], [value(b) for _, b in pairs]
