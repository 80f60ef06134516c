"""The decision: a pure function of evidence and configuration, in six steps (rollout-facts, "Decision order").

1. the data cannot be trusted (split, coverage, staleness, digests, clock) -> hold; canary silent while the champion
   reports -> rollback
2. absolute kill (crash, burst of tool errors or violations) -> rollback
3. a guardrail's confidence sequence lies wholly beyond its margin -> rollback
4. at a planned look: every guardrail non-inferior and GMV as the mode asks -> promote
5. budget spent -> hold; deadline passed -> rollback
6. conditions of 4: the minimum duration has passed, and the last third of the rooms is not below the margin

Two orders differ from that list on purpose. Step 2 outranks the holds of step 1: a canary that crashes also loses
exposures, and a hold would keep it on air. The deadline outranks every hold, because a hold with no end is how a
rollout is forgotten.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from math import isfinite, log

import numpy as np

from components.canary_deploy.checks import Check, Status, integrity_checks, kill_checks
from components.canary_deploy.config import CanaryConfig, Mode, Unit
from components.canary_deploy.evidence import LOG_LATENCY_EDGES, Evidence, Rooms
from components.canary_deploy.sequential import look_bounds, sequence_multiplier, to_t
from components.canary_deploy.statistics import (
    Estimate,
    Scale,
    cuped,
    independent_ratio,
    merge_small_strata,
    paired_ratio,
    quantile_ratio,
)

MIN_STEP = 0.002  # information between two looks; a look on (almost) the same data is costed as if this much had come


class Verdict(StrEnum):
    CONTINUE = "continue"
    PROMOTE = "promote"
    HOLD = "hold"
    ROLLBACK = "rollback"


@dataclass(frozen=True)
class Metric:
    """A ratio of two columns of `Rooms`. `worse` is the direction of harm: +1 higher, -1 lower."""

    name: str
    numerator: str
    denominator: str
    scale: Scale
    worse: int


GMV = Metric("gmv", "gmv", "viewers", Scale.LOG, -1)
RATES = (
    Metric("refund_rate", "refunds", "orders", Scale.DIFFERENCE, +1),
    Metric("slow_share", "slow", "replies", Scale.DIFFERENCE, +1),
    Metric("tool_error_rate", "tool_errors", "replies", Scale.DIFFERENCE, +1),
    Metric("quality", "quality", "judged", Scale.DIFFERENCE, -1),
    Metric("violation_rate", "violations", "replies", Scale.DIFFERENCE, +1),
)
SECONDARY = (  # shown, never judged: they explain a GMV effect
    Metric("orders", "orders", "viewers", Scale.LOG, -1),
    Metric("page_views", "page_views", "viewers", Scale.LOG, -1),
)
WORSE = {metric.name: metric.worse for metric in (GMV, *RATES)} | {"latency_p95": +1}
GUARDRAILS = tuple(WORSE)


@dataclass(frozen=True)
class Decision:
    """A verdict with everything it was drawn from."""

    verdict: Verdict
    why: str
    step: int
    """Of the decision order; 0 for `continue`."""
    checks: tuple[Check, ...]
    estimates: dict[str, Estimate]
    at: float
    """`now` of the state, seconds."""
    rooms: float
    fraction: float
    """Share of the planned information."""
    look: float | None
    """Append to `RolloutState.looks`: fraction of the look that this decision took (1.0: the last one), or None."""

    def check(self, name: str) -> Check:
        """The check of that name.

        Raises:
            KeyError: no such check was made.
        """
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    def to_json(self) -> dict:
        """Plain JSON data; what is unknown is null, never NaN."""
        return {
            "verdict": str(self.verdict),
            "why": self.why,
            "step": self.step,
            "at": self.at,
            "rooms": self.rooms,
            "fraction": self.fraction,
            "look": self.look,
            "checks": [{**asdict(check), "status": str(check.status)} for check in self.checks],
            "estimates": {
                name: {
                    "estimate": _finite(e.estimate),
                    "se": _finite(e.se),
                    "n": e.n,
                    "canary": _finite(e.canary),
                    "control": _finite(e.control),
                    "scale": str(e.scale),
                }
                for name, e in self.estimates.items()
            },
        }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def harm_margins(config: CanaryConfig) -> dict[str, float]:
    """Margin of each guardrail on its estimate's scale (log for GMV and P95), positive."""
    margins = config.margins
    return {
        "gmv": -log(1 - margins.gmv),
        "refund_rate": margins.refund_rate,
        "slow_share": margins.slow_share,
        "tool_error_rate": margins.tool_error_rate,
        "quality": margins.quality,
        "violation_rate": margins.violation_rate,
        "latency_p95": log(1 + margins.latency_p95),
    }


def estimates(evidence: Evidence, config: CanaryConfig) -> dict[str, Estimate]:
    """Effect of the canary on every metric."""
    return _guardrail_estimates(evidence, config) | {
        metric.name: _estimate(metric, evidence.canary, evidence.control, config, _strata(evidence))
        for metric in SECONDARY
    }


def _guardrail_estimates(evidence: Evidence, config: CanaryConfig) -> dict[str, Estimate]:
    strata = _strata(evidence)
    paired = config.unit is Unit.VIEWER_IN_ROOM
    found = {
        metric.name: _estimate(metric, evidence.canary, evidence.control, config, strata) for metric in (GMV, *RATES)
    }
    found["latency_p95"] = quantile_ratio(
        evidence.canary.latency, evidence.control.latency, LOG_LATENCY_EDGES, 0.95, paired=paired
    )
    return found


def _strata(evidence: Evidence) -> tuple[np.ndarray, np.ndarray, int]:
    return merge_small_strata(evidence.canary.stratum, evidence.control.stratum)


def _estimate(
    metric: Metric,
    canary: Rooms,
    control: Rooms,
    config: CanaryConfig,
    strata: tuple[np.ndarray, np.ndarray, int] | None,
) -> Estimate:
    y_b, n_b = getattr(canary, metric.numerator), getattr(canary, metric.denominator)
    y_a, n_a = getattr(control, metric.numerator), getattr(control, metric.denominator)
    floor = metric.scale is Scale.DIFFERENCE
    if (
        config.unit is Unit.VIEWER_IN_ROOM
    ):  # the room's own level cancels: CUPED and strata have nothing left to explain
        return paired_ratio(y_b, n_b, y_a, n_a, metric.scale, floor)
    if metric is GMV and config.use_covariates:
        y_b, y_a = cuped(y_b, n_b, canary.covariate, y_a, n_a, control.covariate, strata)
    return independent_ratio(y_b, n_b, y_a, n_a, metric.scale, strata, floor)


def decide(evidence: Evidence, config: CanaryConfig) -> Decision:
    """Judge a rollout. Pure: the same evidence and configuration give the same decision."""
    state = evidence.state
    elapsed = state.now - state.started
    fraction = min(1.0, evidence.rooms / config.planned_rooms)
    integrity = integrity_checks(evidence, config)
    kills = kill_checks(evidence, config)
    found = _guardrail_estimates(evidence, config)
    guardrails = [_guardrail(name, found[name], config) for name in GUARDRAILS]
    time = _time_checks(elapsed, state.looks, config)
    broken = [check for check in integrity if check.status in (Status.FAIL, Status.STALE)]
    promotion: list[Check] = []
    look: float | None = None
    if not broken:
        look, bound = _look(state.looks, fraction, elapsed, config)
        if look is not None:
            promotion = [_at_look(name, found[name], bound, config) for name in GUARDRAILS] + [
                _last_third(evidence, config)
            ]
    checks = (*integrity, *kills, *guardrails, *promotion, *time)

    def verdict(kind: Verdict, step: int, causes: list[Check]) -> Decision:
        why = "; ".join(f"{check.name}: {check.reason}" for check in causes)
        return Decision(kind, why, step, checks, found, state.now, evidence.rooms, fraction, look)

    failed = [check for check in kills if check.status is Status.FAIL]
    if failed:
        return verdict(Verdict.ROLLBACK, 2, failed)
    failed = [check for check in broken if check.name == "canary_silent"]
    if failed:
        return verdict(Verdict.ROLLBACK, 1, failed)
    deadline, budget = time
    if deadline.status is Status.FAIL and not (promotion and _promotable(integrity, promotion)):
        return verdict(Verdict.ROLLBACK, 5, [deadline, *broken])
    if broken:
        return verdict(Verdict.HOLD, 1, broken)
    failed = [check for check in guardrails if check.status is Status.FAIL]
    if failed:
        return verdict(Verdict.ROLLBACK, 3, failed)
    if promotion and _promotable(integrity, promotion):
        return verdict(Verdict.PROMOTE, 4, promotion)
    missing = [check for check in (*integrity, *promotion) if check.status is not Status.PASS]
    if budget.status is Status.FAIL or look == 1.0:
        return verdict(Verdict.HOLD, 5, [budget, *missing])
    if missing:
        return verdict(Verdict.CONTINUE, 0, missing)
    upcoming = [planned for planned in config.looks if planned > fraction + 1e-9]
    next_look = Check(
        "next_look",
        4,
        Status.INSUFFICIENT,
        fraction,
        upcoming[0] if upcoming else 1.0,
        "no look is due; nothing speaks against going on",
    )
    return verdict(Verdict.CONTINUE, 0, [next_look])


def _promotable(integrity: list[Check], promotion: list[Check]) -> bool:
    return all(check.status is Status.PASS for check in (*integrity, *promotion))


def _guardrail(name: str, estimate: Estimate, config: CanaryConfig) -> Check:
    """Step 3: is the whole confidence sequence beyond the margin? Alpha is split evenly over the guardrails."""
    margin = harm_margins(config)[name]
    if not estimate.known:
        return Check(name, 3, Status.INSUFFICIENT, None, margin, "nothing measured in one of the arms")
    harm = WORSE[name] * estimate.estimate
    if estimate.n < config.burn_in_rooms:
        return Check(
            name,
            3,
            Status.INSUFFICIENT,
            harm,
            margin,
            f"{estimate.n} rooms of an arm; {config.burn_in_rooms} are needed",
        )
    multiplier = sequence_multiplier(estimate.n, config.planned_rooms, config.guardrail_alpha / len(GUARDRAILS))
    lower = harm - to_t(multiplier, estimate.df) * estimate.se
    status = Status.FAIL if lower > margin else Status.PASS
    reason = (
        f"canary {estimate.canary:.4g}, control {estimate.control:.4g}; harm at least {lower:.4f}, margin {margin:.4f}"
    )
    return Check(name, 3, status, lower, margin, reason)


def _look(
    taken: tuple[float, ...], fraction: float, elapsed: float, config: CanaryConfig
) -> tuple[float | None, float]:
    """The look that is due now and its z bound, or None. The last one comes at full information or at the end of the
    budget.
    """
    if (taken and taken[-1] >= 1.0) or elapsed < config.min_duration_s or fraction <= 0:
        return None, 0.0
    last = fraction >= 1.0 or elapsed >= config.budget_s
    passed = sum(planned <= fraction + 1e-9 for planned in config.looks)
    before = sum(planned <= taken[-1] + 1e-9 for planned in config.looks) if taken else 0
    if not last and passed <= before:
        return None, 0.0
    at = min(1.0, max(fraction, (taken[-1] if taken else 0.0) + MIN_STEP))
    bound = look_bounds((*taken, at), config.alpha, last)[-1]
    return (1.0 if last else at), bound


def _at_look(name: str, estimate: Estimate, bound: float, config: CanaryConfig) -> Check:
    """Step 4: is harm beyond the margin excluded (superior mode, GMV: is a gain shown)?"""
    superior = name == "gmv" and config.mode is Mode.SUPERIOR
    limit = 0.0 if superior else harm_margins(config)[name]
    label = f"{name}_superior" if superior else f"{name}_non_inferior"
    if not estimate.known:
        return Check(label, 4, Status.INSUFFICIENT, None, limit, "nothing measured in one of the arms")
    harm = WORSE[name] * estimate.estimate
    reach = to_t(bound, estimate.df) * estimate.se
    worst = harm + reach
    status = Status.PASS if worst < limit else Status.FAIL if harm - reach > limit else Status.INSUFFICIENT
    reason = f"harm at most {worst:.4f} at this look, allowed {limit:.4f}"
    return Check(label, 4, status, worst if isfinite(worst) else None, limit, reason)


def _last_third(evidence: Evidence, config: CanaryConfig) -> Check:
    """Step 6: GMV of the newest third of the rooms, so that an early gain which wore off does not promote."""
    limit = harm_margins(config)["gmv"]
    times = np.sort(np.concatenate([evidence.canary.first_at, evidence.control.first_at]))
    cut = times[len(times) * 2 // 3]
    canary = evidence.canary.take(evidence.canary.first_at >= cut)
    control = evidence.control.take(evidence.control.first_at >= cut)
    late = _estimate(GMV, canary, control, config, None)
    if not late.known:
        return Check(
            "gmv_last_third", 6, Status.INSUFFICIENT, None, limit, "nothing measured in the last third of the rooms"
        )
    harm = -late.estimate
    status = Status.PASS if harm < limit else Status.FAIL
    return Check(
        "gmv_last_third", 6, status, harm, limit, f"loss of {harm:.4f} over {late.n} rooms an arm, allowed {limit:.4f}"
    )


def _time_checks(elapsed: float, looks: tuple[float, ...], config: CanaryConfig) -> tuple[Check, Check]:
    late = elapsed >= config.deadline_s
    deadline = Check(
        "deadline",
        5,
        Status.FAIL if late else Status.PASS,
        elapsed,
        config.deadline_s,
        f"{elapsed:.0f} s since the start",
    )
    spent = elapsed >= config.budget_s or bool(looks and looks[-1] >= 1.0)
    reason = "the last look is taken, no promotion" if spent else f"{elapsed:.0f} of {config.budget_s:.0f} s"
    return deadline, Check("budget", 5, Status.FAIL if spent else Status.PASS, elapsed, config.budget_s, reason)
