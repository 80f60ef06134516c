"""Every verdict, every check, both modes; and the laws: pure, replayable, never promoting on what is missing."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.canary_deploy.assignment import Arm
from components.canary_deploy.checks import Status, burst_limit
from components.canary_deploy.config import DAY_S, CanaryConfig, Mode, Unit
from components.canary_deploy.decision import GUARDRAILS, Verdict, decide, estimates
from components.canary_deploy.drill import FAULTS, Fault, events_to_detect, healthy_stream
from components.canary_deploy.evidence import Burst, Evidence
from components.canary_deploy.simulate import Shop, draw, evidence_at, population

ROOMS = 200
CONFIG = CanaryConfig(planned_rooms=ROOMS, mode=Mode.SUPERIOR)
POOL = population(Shop(), 2000, np.random.default_rng(0))
STREAM = healthy_stream(0)


def evidence(
    effect: float = 0.0, rooms: int = ROOMS, looks: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8), seed: int = 1
) -> Evidence:
    return evidence_at(draw(POOL, ROOMS, np.random.default_rng(seed), effect), rooms, looks)


def with_integrity(base: Evidence, **changes) -> Evidence:
    return replace(base, integrity=replace(base.integrity, **changes))


def harmed(base: Evidence, **columns: float) -> Evidence:
    """Multiply columns of the canary."""
    return replace(
        base, canary=replace(base.canary, **{name: getattr(base.canary, name) * by for name, by in columns.items()})
    )


def test_a_better_model_is_promoted_at_the_last_look():
    decision = decide(evidence(0.25), CONFIG)
    assert (decision.verdict, decision.step, decision.look) == (Verdict.PROMOTE, 4, 1.0)
    assert decision.check("gmv_superior").status is Status.PASS
    assert len([check for check in decision.checks if check.name.endswith("_non_inferior")]) == len(GUARDRAILS) - 1
    assert "gmv_superior" in decision.why


def test_an_equal_model_holds_when_superiority_is_asked_and_says_so():
    decision = decide(evidence(0.0), CONFIG)
    assert (decision.verdict, decision.step) == (Verdict.HOLD, 5)
    assert "gmv_superior: harm at most" in decision.why


def test_an_equal_model_is_promoted_as_non_inferior_when_the_margin_has_power():
    wide = CONFIG.margins.model_copy(update={"gmv": 0.15})
    config = CONFIG.model_copy(update={"mode": Mode.NON_INFERIOR, "margins": wide})
    assert decide(evidence(0.0), config).verdict is Verdict.PROMOTE
    assert decide(evidence(0.0), config.model_copy(update={"margins": CONFIG.margins})).verdict is Verdict.HOLD


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("rooms", range(60, ROOMS + 1, 20))
def test_a_much_worse_model_is_rolled_back_or_never_promoted(mode, rooms):
    decision = decide(evidence(-0.4, rooms, looks=()), CONFIG.model_copy(update={"mode": mode}))
    assert decision.verdict in (Verdict.ROLLBACK, Verdict.CONTINUE)
    if rooms >= 100:
        assert (decision.verdict, decision.step) == (Verdict.ROLLBACK, 3)
        assert decision.check("gmv").status is Status.FAIL


@pytest.mark.parametrize(
    ("column", "factor", "check"),
    [
        ("refunds", 4.0, "refund_rate"),
        ("slow", 3.0, "slow_share"),
        ("tool_errors", 5.0, "tool_error_rate"),
        ("quality", 0.8, "quality"),
        ("violations", 20.0, "violation_rate"),
    ],
)
def test_each_guardrail_rolls_back_by_itself(column, factor, check):
    decision = decide(harmed(evidence(0.25), **{column: factor}), CONFIG)
    assert (decision.verdict, decision.step) == (Verdict.ROLLBACK, 3)
    assert [c.name for c in decision.checks if c.step == 3 and c.status is Status.FAIL] == [check]


def test_slower_replies_roll_back_by_p95():
    base = evidence(0.25)
    later = np.concatenate([np.zeros((ROOMS, 5), int), base.canary.latency[:, :-5]], axis=1)  # 5 bins of 7%: 40% slower
    later[:, -1] = base.canary.latency[:, -1]
    decision = decide(replace(base, canary=replace(base.canary, latency=later)), CONFIG)
    assert decision.verdict is Verdict.ROLLBACK
    assert decision.check("latency_p95").status is Status.FAIL
    assert decision.estimates["latency_p95"].estimate == pytest.approx(np.log(1.07**5), abs=0.08)


def test_a_guardrail_that_is_not_shown_to_be_safe_blocks_a_promotion():
    decision = decide(harmed(evidence(0.25), quality=0.98), CONFIG)  # near its margin of 0.02
    assert decision.verdict is Verdict.HOLD
    assert decision.check("quality_non_inferior").status is not Status.PASS
    assert "quality_non_inferior" in decision.why


def test_a_metric_that_was_never_measured_blocks_a_promotion():
    decision = decide(harmed(evidence(0.25), judged=0.0, quality=0.0), CONFIG)
    assert decision.verdict is Verdict.HOLD
    assert decision.check("quality").status is Status.INSUFFICIENT
    assert decision.to_json()["estimates"]["quality"]["estimate"] is None


@pytest.mark.parametrize(
    ("changes", "check", "verdict"),
    [
        ({"units": {"canary": 200, "control": 90}}, "srm", Verdict.HOLD),
        ({"quarantined": 100}, "quarantined", Verdict.HOLD),
        ({"in_both_arms": 1}, "in_both_arms", Verdict.HOLD),
        ({"misassigned": 1}, "misassigned", Verdict.HOLD),
        ({"wrong_release": 1}, "release_digest", Verdict.HOLD),
        ({"one_sided_rooms": 30, "one_sided_digest": "h2"}, "harness_digest", Verdict.HOLD),
        ({"last_exposure": {"canary": 0.0, "control": 0.0}}, "exposures_fresh", Verdict.HOLD),
        ({"last_outcome": 0.0}, "outcomes_fresh", Verdict.HOLD),
        ({"last_exposure": {"canary": 864000.0, "control": 0.0}, "silent_rooms": {"canary": 0, "control": 10}},
        "control_fresh", Verdict.HOLD), ({"skew_s": 301.0}, "clock", Verdict.HOLD), ({"last_exposure": {"canary": 0.0,
        "control": 864000.0}, "silent_rooms": {"canary": 10, "control": 0}}, "canary_silent", Verdict.ROLLBACK),
    ],
)  # fmt: skip
def test_broken_data_never_promotes(changes, check, verdict):
    base = evidence(0.25)
    if check == "srm":  # the router's counts are broken in the same way, so that only the split shows it
        base = base.with_state(assigned={"canary": 200, "control": 90})
    decision = decide(with_integrity(base, **changes), CONFIG)
    assert (decision.verdict, decision.step) == (verdict, 1)
    assert [c.name for c in decision.checks if c.step == 1 and c.status in (Status.FAIL, Status.STALE)] == [check]
    assert check in decision.why
    assert decision.look is None  # no alpha is spent on data that cannot be judged


@pytest.mark.parametrize(
    "changes", [{"routed": {}}, {"assigned": {}}, {"canary_alias": None}, {"champion_alias": None}]
)
def test_what_the_controller_does_not_know_blocks_a_promotion(changes):
    decision = decide(evidence(0.25).with_state(**changes), CONFIG)
    assert decision.verdict is Verdict.HOLD
    assert any(c.step == 1 and c.status is Status.INSUFFICIENT for c in decision.checks)


def test_a_kill_outranks_broken_data():
    base = with_integrity(evidence(), skew_s=9999.0)
    burst = replace(base, bursts=base.bursts | {"violations": Burst(20, 20, 0.0)})
    for broken in (burst, base.with_state(crashes={Arm.CANARY: 1})):
        assert (decide(broken, CONFIG).verdict, decide(broken, CONFIG).step) == (Verdict.ROLLBACK, 2)


@pytest.mark.parametrize("name", ["tool_errors", "violations", "fallbacks"])
def test_a_burst_kills_unless_the_control_suffers_too(name):
    base = evidence()
    alone = replace(base, bursts=base.bursts | {name: Burst(15, 20, 0.02)})
    shared = replace(base, bursts=base.bursts | {name: Burst(15, 20, 0.8)})
    short = replace(base, bursts=base.bursts | {name: Burst(15, 19, 0.02)})
    assert decide(alone, CONFIG).step == 2
    assert decide(shared, CONFIG).step != 2
    assert decide(short, CONFIG).step != 2


@pytest.mark.parametrize(("rate", "limit"), [(0.05, 11), (0.01, 7), (0.99, 21)])
def test_burst_limits(rate, limit):
    assert burst_limit(20, rate, 1e-8) == limit


def test_looks_are_taken_once_and_only_when_due():
    assert decide(evidence(0.0, 30, looks=()), CONFIG).look is None  # 15%
    first = decide(evidence(0.0, 42, looks=()), CONFIG)
    assert first.look == pytest.approx(0.21)
    assert decide(evidence(0.0, 44, looks=(0.21,)), CONFIG).look is None
    assert decide(evidence(0.0, 80, looks=(0.21,)), CONFIG).look == pytest.approx(0.4)
    assert decide(evidence(0.0, 200, looks=(0.21, 0.4)), CONFIG).look == 1.0
    done = decide(evidence(0.25, 200, looks=(0.21, 1.0)), CONFIG)
    assert (done.look, done.verdict, done.step) == (None, Verdict.HOLD, 5)


def test_no_promotion_before_the_minimum_duration():
    early = CONFIG.model_copy(update={"min_duration_s": 11 * DAY_S})
    decision = decide(evidence(0.5), early)
    assert (decision.verdict, decision.look) == (Verdict.CONTINUE, None)


def test_the_end_of_the_budget_takes_the_last_look_early_then_holds_then_rolls_back():
    base = evidence(0.0, 150, looks=(0.2, 0.4, 0.6))
    late = base.with_state(now=15 * DAY_S)
    late = with_integrity(late, last_exposure={"canary": 15 * DAY_S, "control": 15 * DAY_S}, last_outcome=15 * DAY_S)
    decision = decide(late, CONFIG)
    assert (decision.verdict, decision.step, decision.look) == (Verdict.HOLD, 5, 1.0)
    better = replace(late, canary=replace(late.canary, gmv=late.canary.gmv * 1.3))
    assert decide(better, CONFIG).verdict is Verdict.PROMOTE
    deadline = decide(late.with_state(looks=(0.2, 0.4, 0.6, 1.0), now=21 * DAY_S), CONFIG)
    assert (deadline.verdict, deadline.step) == (Verdict.ROLLBACK, 5)
    assert "deadline" in deadline.why


def test_a_gain_that_wore_off_is_not_promoted():
    base = evidence(0.0)
    gmv = base.canary.gmv * np.where(np.arange(ROOMS) < 130, 1.8, 0.7)
    decision = decide(replace(base, canary=replace(base.canary, gmv=gmv)), CONFIG)
    assert decision.check("gmv_superior").status is Status.PASS
    assert decision.check("gmv_last_third").status is Status.FAIL
    assert decision.verdict is Verdict.HOLD


def test_nothing_yet_is_continue_and_silence_is_hold():
    empty = replace(STREAM, events=[]).decide  # no event, counters say nothing happened
    fresh = replace(
        STREAM, events=[], state=STREAM.state.model_copy(update={"now": 60.0, "routed": {}, "assigned": {}})
    )
    assert fresh.decide(CONFIG).verdict is Verdict.CONTINUE
    assert empty(CONFIG).verdict is Verdict.HOLD


def test_few_rooms_give_an_honest_continue():
    decision = decide(evidence(0.0, 20, looks=()), CONFIG)
    assert decision.verdict is Verdict.CONTINUE
    assert decision.check("gmv").status is Status.INSUFFICIENT


def test_viewers_as_units_see_a_smaller_effect_with_the_same_rooms():
    rng = np.random.default_rng(3)
    rooms = POOL.rooms.take(np.arange(ROOMS))
    base = evidence(0.0)
    same = {"first_at": base.canary.first_at, "stratum": base.canary.stratum, "covariate": base.canary.covariate}
    control = replace(rooms, **same)
    canary = replace(control, gmv=control.gmv * 1.08 * np.exp(0.1 * rng.standard_normal(ROOMS)))
    shared = replace(base, canary=canary, control=control)
    paired = estimates(shared, CONFIG.model_copy(update={"unit": Unit.VIEWER_IN_ROOM}))["gmv"]
    apart = estimates(shared, CONFIG)["gmv"]
    assert paired.estimate == pytest.approx(apart.estimate)
    assert paired.se < apart.se / 3
    assert decide(shared, CONFIG.model_copy(update={"unit": Unit.VIEWER_IN_ROOM})).verdict is Verdict.PROMOTE


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.number}-{fault.name}")
def test_injected_faults(fault: Fault):
    decision = fault.inject(STREAM).decide(CanaryConfig())
    assert decision.verdict is fault.expected, decision.why


def test_the_healthy_stream_continues_and_late_orders_change_nothing():
    plain = STREAM.decide(CanaryConfig())
    assert plain.verdict is Verdict.CONTINUE
    late = (
        next(fault for fault in FAULTS if fault.name == "late_and_duplicate_orders")
        .inject(STREAM)
        .decide(CanaryConfig())
    )
    assert late.estimates == plain.estimates


def test_a_tool_error_burst_is_found_within_twenty_replies():
    assert events_to_detect(0, 1.0) <= 20


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([-0.3, 0.0, 0.3]), st.integers(2, ROOMS), st.sampled_from(list(Mode)))
def test_deciding_is_pure_and_promotes_only_when_every_check_passes(seed, effect, rooms, mode):
    config = CONFIG.model_copy(update={"mode": mode})
    subject = evidence(effect, rooms, looks=(), seed=seed)
    first, second = decide(subject, config), decide(subject, config)
    assert first.to_json() == second.to_json()
    again = decide(Evidence.from_json(subject.to_json()), config)
    assert again.to_json() == first.to_json()
    if first.verdict is Verdict.PROMOTE:
        assert first.look is not None
        assert all(check.status is Status.PASS for check in first.checks if check.step in (1, 3, 4, 6))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"looks": (0.5, 0.2, 1.0)}, "looks"),
        ({"looks": (0.5,)}, "looks"),
        ({"ramp": (0.2, 0.6)}, "ramp"),
        ({"budget_s": 10.0}, "min_duration_s"),
        ({"margins": {"gmv": 0}}, "gmv"),
        ({"typo": 1}, "typo"),
    ],
)
def test_impossible_settings_are_refused(changes, field):
    with pytest.raises(ValueError, match=field):
        CanaryConfig.model_validate(changes)
