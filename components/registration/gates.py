"""The gates between a trained model and the canary, judged on the numbers of evaluation.json.

Sampling noise must not pass a gate, so T1 and T2 are judged by a confidence bound, and the gap and the lead by the
paired intervals that evaluation computed (the lead by an unpaired bound when the model to beat was not paired). The
general score's loss is judged by its point estimate: it has no paired interval, and the unpaired bound on a hundred
prompts (about 0.1) would fail every model or force a meaningless limit; the bound is said all the same."""

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Any

from components.registration.settings import Settings

CANDIDATE = "hat"
FIGURES = ("T1", "T2", "gap", "general")  # read from every evaluated arm
REFERENCES = ("champion", "fixed_sft", "base")  # the first that was evaluated is the one to beat
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Verdict:
    """What a gate said; `why` holds the numbers, n, the bound and the limit."""

    passed: bool
    why: str


Leads = dict[str, dict[str, dict[str, dict[str, Any]]]]  # arm -> decoding -> suite -> paired lead over fixed_sft
Models = dict[str, dict[str, dict[str, dict[str, Any]]]]  # arm -> decoding -> metric -> {"value", "n", "ci"?}


def judge(models: Models, settings: Settings, leads: Leads | None = None) -> dict[str, Verdict]:
    """All gates, in order: t1, t2, gap, t2_lead, general. A figure that was not measured fails its gate."""
    arms = {arm: by_decoding.get(settings.decoding, {}) for arm, by_decoding in models.items()}
    candidate = arms.get(CANDIDATE, {})
    reference = next((arm for arm in REFERENCES if arm in arms), None)
    ours = (leads or {}).get(CANDIDATE, {}).get(settings.decoding, {})
    paired = ours.get("T2") if reference == "fixed_sft" else None
    return {
        "t1": _at_least(candidate, "T1", settings.min_t1, settings.confidence),
        "t2": _at_least(candidate, "T2", settings.min_t2, settings.confidence),
        "gap": _gap(candidate, settings.max_gap),
        "t2_lead": _lead(candidate, arms.get(reference or "", {}), reference, settings, paired),
        "general": _general(candidate, arms.get("base", {}), settings),
    }


def wilson(value: float, n: int, confidence: float) -> tuple[float, float]:
    """One-sided bounds (lower, upper), each at `confidence`, of a mean of n values in [0, 1].

    Wilson's score interval (Wilson 1927). For values that are not only 0 and 1, as quality, it is conservative: no
    distribution on [0, 1] with this mean has a larger variance than the binomial.
    """
    z = NormalDist().inv_cdf(confidence)
    centre = (value + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(value * (1 - value) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def difference_bounds(a: tuple[float, int], b: tuple[float, int], confidence: float) -> tuple[float, float]:
    """One-sided bounds of mean a - mean b, each given as (value, n).

    Newcombe's hybrid score interval (Newcombe 1998, method 10) for independent samples; conservative when both were
    measured on the same cases and go up and down together.
    """
    (value_a, n_a), (value_b, n_b) = a, b
    (low_a, high_a), (low_b, high_b) = wilson(value_a, n_a, confidence), wilson(value_b, n_b, confidence)
    difference = value_a - value_b
    return (
        difference - sqrt((value_a - low_a) ** 2 + (high_b - value_b) ** 2),
        difference + sqrt((high_a - value_a) ** 2 + (value_b - low_b) ** 2),
    )


def _at_least(candidate: dict[str, Any], name: str, limit: float | None, confidence: float) -> Verdict:
    if limit is None:
        return _off(name)
    found = _measured(candidate, name)
    if found is None:
        return _unmeasured(name, CANDIDATE)
    value, n = found
    bound = wilson(value, n, confidence)[0]
    return Verdict(
        bound >= limit - _ROUNDING,
        f"{name} {value:.3f} (n={n}), lower {confidence:.0%} bound {bound:.3f}; at least {limit:.3f} wanted",
    )


def _gap(candidate: dict[str, Any], limit: float | None) -> Verdict:
    if limit is None:
        return _off("gap")
    found = _measured(candidate, "gap")
    interval = candidate.get("gap", {}).get("ci")
    if found is None or not interval or any(end is None for end in interval):
        return _unmeasured("gap with its interval", CANDIDATE)
    value, n = found
    low, high = interval
    return Verdict(
        high <= limit + _ROUNDING,
        f"gap T1-T2 {value:.3f} (n={n} pairs), interval {low:.3f} to {high:.3f}; at most {limit:.3f} wanted",
    )


def _lead(
    candidate: dict[str, Any],
    other: dict[str, Any],
    reference: str | None,
    settings: Settings,
    paired: dict[str, Any] | None,
) -> Verdict:
    if settings.min_t2_lead is None:
        return _off("T2 lead")
    ours, theirs = _measured(candidate, "T2"), _measured(other, "T2")
    if ours is None:
        return _unmeasured("T2", CANDIDATE)
    if theirs is None:
        return _unmeasured("T2", reference or "any reference")
    if paired is not None:
        lead, bound, kind = paired["value"], paired["ci"][0], f"lower end of the interval of {paired['n']} pairs"
    else:
        lead, bound = ours[0] - theirs[0], difference_bounds(ours, theirs, settings.confidence)[0]
        kind = f"lower {settings.confidence:.0%} bound"
    return Verdict(
        bound >= settings.min_t2_lead - _ROUNDING,
        f"T2 {ours[0]:.3f} (n={ours[1]}) against {theirs[0]:.3f} (n={theirs[1]}) of {reference}: lead {lead:.3f}, "
        f"{kind} {bound:.3f}; at least {settings.min_t2_lead:.3f} wanted",
    )


def _general(candidate: dict[str, Any], base: dict[str, Any], settings: Settings) -> Verdict:
    if settings.max_general_drop is None:
        return _off("general drop")
    ours, theirs = _measured(candidate, "general"), _measured(base, "general")
    if ours is None:
        return _unmeasured("general", CANDIDATE)
    if theirs is None:
        return _unmeasured("general", "base")
    drop = theirs[0] - ours[0]
    bound = difference_bounds(theirs, ours, settings.confidence)[1]
    return Verdict(
        drop <= settings.max_general_drop + _ROUNDING,
        f"general {ours[0]:.3f} (n={ours[1]}) against {theirs[0]:.3f} (n={theirs[1]}) of base: drop {drop:.3f}, upper "
        f"{settings.confidence:.0%} bound {bound:.3f}; a drop of at most {settings.max_general_drop:.3f} wanted",
    )


def _measured(arm: dict[str, Any], name: str) -> tuple[float, int] | None:
    row = arm.get(name) or {}
    value, n = row.get("value"), row.get("n")
    return (float(value), int(n)) if value is not None and n else None


def _unmeasured(name: str, arm: str) -> Verdict:
    return Verdict(False, f"{name} of {arm} was not measured")


def _off(name: str) -> Verdict:
    return Verdict(True, f"{name} is not limited")
