"""Checks of the data itself (step 1) and the absolute kill rules (step 2). Each returns a `Check`, never raises,
never guesses.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import log

from scipy.special import bdtrc

from components.canary_deploy.assignment import Arm
from components.canary_deploy.config import CanaryConfig
from components.canary_deploy.evidence import Burst, Evidence
from components.canary_deploy.statistics import Coverage, sample_ratio_bayes_factor

IN_FLIGHT = 2  # units or replies of an arm that may be counted but not yet here, or here but not yet counted


class Status(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    INSUFFICIENT = "insufficient"
    """Too little data to say; never read as pass."""
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Check:
    """One question put to the evidence. `limit` is what `value` was held against; both None where nothing was
    measured.
    """

    name: str
    step: int
    """Of the decision order, 1 to 6."""
    status: Status
    value: float | None
    limit: float | None
    reason: str


def integrity_checks(evidence: Evidence, config: CanaryConfig) -> list[Check]:
    """Step 1: may this evidence be judged at all?"""
    return [
        _split(evidence, config),
        _coverage(evidence, config),
        _share(
            "quarantined", evidence.integrity.quarantined, evidence.integrity.received, config.max_quarantined, "events"
        ),
        _share("in_both_arms", evidence.integrity.in_both_arms, _units(evidence), config.max_in_both_arms, "units"),
        _share("misassigned", evidence.integrity.misassigned, _units(evidence), config.max_misassigned, "units"),
        _releases(evidence),
        _harness(evidence, config),
        _aliases(evidence),
        _exposures_fresh(evidence, config),
        _outcomes_fresh(evidence, config),
        _control_fresh(evidence, config),
        _clock(evidence, config),
        _canary_silent(evidence, config),
    ]


def kill_checks(evidence: Evidence, config: CanaryConfig) -> list[Check]:
    """Step 2: faults so plain that no comparison is needed. They outrank step 1: a broken canary must not hide
    behind broken data.
    """
    crashes = evidence.state.crashes.get(Arm.CANARY, 0)
    crashed = crashes > config.max_crashes
    return [
        Check(
            "crashes",
            2,
            Status.FAIL if crashed else Status.PASS,
            crashes,
            config.max_crashes,
            f"the canary's process died {crashes} time(s)",
        ),
        _burst("tool_error_burst", evidence.bursts["tool_errors"], config.kill_tool_error_rate, config),
        _burst("violation_burst", evidence.bursts["violations"], config.kill_violation_rate, config),
        _burst("fallback_burst", evidence.bursts["fallbacks"], config.kill_fallback_rate, config),
    ]


def _units(evidence: Evidence) -> int:
    return sum(evidence.integrity.units.values())


def _split(evidence: Evidence, config: CanaryConfig) -> Check:
    canary, control = evidence.integrity.units[Arm.CANARY], evidence.integrity.units[Arm.CONTROL]
    if canary + control == 0:
        return Check("srm", 1, Status.INSUFFICIENT, None, None, "no unit was exposed yet")
    factor = sample_ratio_bayes_factor((canary, control), (0.5, 0.5))
    status = Status.FAIL if factor > log(config.srm_alarm) else Status.PASS
    reason = (
        f"{canary} canary and {control} control units where equal shares were assigned; log Bayes factor {factor:.2f}"
    )
    return Check("srm", 1, status, round(factor, 4), round(log(config.srm_alarm), 4), reason)


def _coverage(evidence: Evidence, config: CanaryConfig) -> Check:
    pairs = {}
    for arm in (Arm.CANARY, Arm.CONTROL):
        for what, counted, seen in (
            ("replies", evidence.state.routed, evidence.integrity.exposures),
            ("units", evidence.state.assigned, evidence.integrity.units),
        ):
            if arm not in counted:
                return Check(
                    "coverage",
                    1,
                    Status.INSUFFICIENT,
                    None,
                    config.min_coverage,
                    f"no count of {arm} {what} from the router",
                )
            pairs[f"{arm} {what}"] = Coverage(seen[arm], counted[arm])
    for name, pair in pairs.items():
        if pair.seen > config.max_coverage * pair.counted + IN_FLIGHT:
            reason = (
                f"{pair.seen} {name} arrived but the router counted {pair.counted}: its counter is frozen or was reset"
            )
            return Check(
                "coverage", 1, Status.FAIL, round(pair.share, 4) if pair.counted else None, config.max_coverage, reason
            )
    for name, pair in pairs.items():
        if pair.seen < config.min_coverage * pair.counted - IN_FLIGHT:
            reason = f"only {pair.seen} of {pair.counted} {name} arrived as events"
            return Check("coverage", 1, Status.FAIL, round(pair.share, 4), config.min_coverage, reason)
    known = {name: pair for name, pair in pairs.items() if pair.counted}
    if not known:
        return Check("coverage", 1, Status.INSUFFICIENT, None, config.min_coverage, "the router counted nothing yet")
    name, pair = min(known.items(), key=lambda item: item[1].share)
    return Check(
        "coverage",
        1,
        Status.PASS,
        round(pair.share, 4),
        config.min_coverage,
        f"{pair.seen} of {pair.counted} {name} arrived",
    )


def _share(name: str, count: int, total: int, limit: float, what: str) -> Check:
    if not total:
        return Check(name, 1, Status.INSUFFICIENT, None, limit, f"no {what} yet")
    status = Status.FAIL if count / total > limit else Status.PASS
    return Check(name, 1, status, count / total, limit, f"{count} of {total} {what}")


def _releases(evidence: Evidence) -> Check:
    wrong = evidence.integrity.wrong_release
    return Check(
        "release_digest",
        1,
        Status.FAIL if wrong else Status.PASS,
        wrong,
        0,
        f"{wrong} replies came from a release that their arm must not serve",
    )


def _harness(evidence: Evidence, config: CanaryConfig) -> Check:
    rooms, digest = evidence.integrity.one_sided_rooms, evidence.integrity.one_sided_digest
    status = Status.FAIL if rooms >= config.one_sided_rooms else Status.PASS
    reason = (
        f"harness {digest} was read in {rooms} rooms of one arm and none of the other"
        if digest
        else "both arms read the same harnesses"
    )
    return Check("harness_digest", 1, status, rooms, config.one_sided_rooms, reason)


def _aliases(evidence: Evidence) -> Check:
    state = evidence.state
    if state.canary_alias is None or state.champion_alias is None:
        return Check("alias", 1, Status.INSUFFICIENT, None, None, "the registry's aliases were not read back")
    moved = [
        f"alias {name} points to {now}, the rollout compares {own}"
        for name, now, own in (
            ("canary", state.canary_alias, state.canary_release),
            ("champion", state.champion_alias, state.champion_release),
        )
        if now != own
    ]
    if moved:
        return Check("alias", 1, Status.FAIL, len(moved), 0, "; ".join(moved) + ": somebody else moved it, frozen")
    return Check("alias", 1, Status.PASS, 0, 0, "both aliases are where the rollout found them")


def _age(moment: float | None, evidence: Evidence) -> float:
    return evidence.state.now - (moment if moment is not None else evidence.state.started)


def _exposures_fresh(evidence: Evidence, config: CanaryConfig) -> Check:
    last = [moment for moment in evidence.integrity.last_exposure.values() if moment is not None]
    age = _age(max(last, default=None), evidence)
    if age > config.exposure_stale_s:
        return Check(
            "exposures_fresh",
            1,
            Status.STALE,
            age,
            config.exposure_stale_s,
            f"no reply in either arm for {age:.0f} s: page",
        )
    if not last:
        return Check("exposures_fresh", 1, Status.INSUFFICIENT, age, config.exposure_stale_s, "no reply yet")
    return Check("exposures_fresh", 1, Status.PASS, age, config.exposure_stale_s, f"newest reply {age:.0f} s ago")


def _outcomes_fresh(evidence: Evidence, config: CanaryConfig) -> Check:
    last = evidence.integrity.last_outcome
    age = _age(last, evidence)
    if age > config.outcome_stale_s:
        return Check(
            "outcomes_fresh",
            1,
            Status.STALE,
            age,
            config.outcome_stale_s,
            f"no order, view or watch event for {age:.0f} s",
        )
    if last is None:
        return Check("outcomes_fresh", 1, Status.INSUFFICIENT, age, config.outcome_stale_s, "no outcome yet")
    return Check("outcomes_fresh", 1, Status.PASS, age, config.outcome_stale_s, f"newest outcome {age:.0f} s ago")


def _control_fresh(evidence: Evidence, config: CanaryConfig) -> Check:
    rooms = evidence.integrity.silent_rooms[Arm.CONTROL]
    silent = _age(evidence.integrity.last_exposure[Arm.CONTROL], evidence) > config.exposure_stale_s
    status = Status.STALE if silent and rooms >= config.silent_rooms else Status.PASS
    reason = f"{rooms} canary rooms began after the control's last reply"
    return Check("control_fresh", 1, status, rooms, config.silent_rooms, reason)


def _clock(evidence: Evidence, config: CanaryConfig) -> Check:
    skew, source = evidence.integrity.skew_s, evidence.integrity.skew_source
    status = Status.FAIL if skew > config.max_skew_s else Status.PASS
    return Check("clock", 1, status, skew, config.max_skew_s, f"clock of {source} off by at least {skew:.0f} s")


def _canary_silent(evidence: Evidence, config: CanaryConfig) -> Check:
    """Champion reports, canary does not: its process is gone even if nobody counted a crash."""
    integrity = evidence.integrity
    canary_age = _age(integrity.last_exposure[Arm.CANARY], evidence)
    control_age = _age(integrity.last_exposure[Arm.CONTROL], evidence)
    rooms = integrity.silent_rooms[Arm.CANARY]
    quiet = canary_age > config.exposure_stale_s and control_age <= config.exposure_stale_s
    dead = quiet and rooms >= config.silent_rooms
    reason = f"canary's last reply {canary_age:.0f} s ago, {rooms} control rooms began since"
    if quiet and not dead:
        reason += ": perhaps no canary room is on air"
    return Check("canary_silent", 1, Status.FAIL if dead else Status.PASS, rooms, config.silent_rooms, reason)


def _burst(name: str, burst: Burst, tolerated: float, config: CanaryConfig) -> Check:
    """Exact binomial tail of the worst window under the tolerated rate, or the control's own if that is worse (a
    shared outage).
    """
    if burst.window < config.kill_events:
        return Check(
            name, 2, Status.INSUFFICIENT, burst.count, None, f"{burst.window} replies; {config.kill_events} are needed"
        )
    rate = min(max(tolerated, burst.control_rate), 0.99)
    limit = burst_limit(burst.window, rate, config.kill_alpha)
    status = Status.FAIL if burst.count >= limit else Status.PASS
    reason = (
        f"{burst.count} of {burst.window} consecutive canary replies; {limit} would be too many at a rate of {rate:.3f}"
    )
    return Check(name, 2, status, burst.count, limit, reason)


def burst_limit(window: int, rate: float, alpha: float) -> int:
    """Smallest count whose probability of being reached in `window` independent replies is at most alpha (window +
    1: none).
    """
    for count in range(1, window + 1):
        if bdtrc(count - 1, window, rate) <= alpha:
            return count
    return window + 1
