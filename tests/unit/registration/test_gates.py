import math
import random

import pytest
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from components.registration.gates import difference_bounds, judge, wilson
from components.registration.settings import Settings

LIMITS = Settings(min_t1=0.6, min_t2=0.5, max_gap=0.2, min_t2_lead=0.1, max_general_drop=0.05)
PERMISSIVE = Settings(min_t1=0, min_t2=0, max_gap=1, min_t2_lead=-1, max_general_drop=1)
OFF = Settings(min_t1=None, min_t2=None, max_gap=None, min_t2_lead=None, max_general_drop=None)


def arm(t1=0.8, t2=0.75, general=0.5, n=400, gap_ci=(0.0, 0.1)):
    return {
        "free": {
            "T1": {"value": t1, "n": n},
            "T2": {"value": t2, "n": n},
            "general": {"value": general, "n": 100},
            "gap": {"value": t1 - t2, "ci": list(gap_ci), "n": n},
        }
    }


GOOD = {"base": arm(0.1, 0.1, 0.52), "fixed_sft": arm(0.8, 0.4), "hat": arm()}


def test_a_good_model_passes_every_gate():
    verdicts = judge(GOOD, LIMITS)
    assert list(verdicts) == ["t1", "t2", "gap", "t2_lead", "general"]
    assert all(v.passed for v in verdicts.values())


@pytest.mark.parametrize(
    ("gate", "models"),
    [
        ("t1", GOOD | {"hat": arm(t1=0.63)}),  # above the limit, but its lower bound is not
        ("t2", GOOD | {"hat": arm(t2=0.53), "fixed_sft": arm(t2=0.2)}),
        ("gap", GOOD | {"hat": arm(gap_ci=(0.05, 0.21))}),
        ("t2_lead", GOOD | {"fixed_sft": arm(t2=0.62)}),
        ("general", GOOD | {"hat": arm(general=0.46)}),
    ],
)
def test_each_gate_fails_alone_for_its_own_reason(gate, models):
    verdicts = judge(models, LIMITS)
    assert [name for name, v in verdicts.items() if not v.passed] == [gate]


def test_the_reason_holds_numbers_n_bound_and_limit():
    why = judge(GOOD, LIMITS)
    low = wilson(0.8, 400, 0.95)[0]
    assert why["t1"].why == f"T1 0.800 (n=400), lower 95% bound {low:.3f}; at least 0.600 wanted"
    assert "interval 0.000 to 0.100" in why["gap"].why and "n=400 pairs" in why["gap"].why
    assert "of fixed_sft: lead 0.350" in why["t2_lead"].why
    assert "drop 0.020" in why["general"].why and "(n=100)" in why["general"].why


def test_few_cases_do_not_pass():
    assert not judge(GOOD | {"hat": arm(n=5)}, LIMITS)["t1"].passed
    assert judge(GOOD | {"hat": arm(n=5000)}, LIMITS)["t1"].passed


def test_the_evaluated_champion_is_the_one_to_beat():
    verdict = judge(GOOD | {"champion": arm(t2=0.74)}, LIMITS)["t2_lead"]
    assert not verdict.passed and "of champion" in verdict.why
    assert "of base" in judge({"base": arm(0.1, 0.1), "hat": arm()}, LIMITS)["t2_lead"].why


@pytest.mark.parametrize("models", [{"hat": arm(0, 0, 0, n=1, gap_ci=(-1, 1)), "base": arm(1, 1, 1, n=1)}, GOOD])
def test_permissive_limits_pass_anything_that_was_measured(models):
    assert all(v.passed for v in judge(models, PERMISSIVE).values())


def test_what_was_not_measured_fails_and_what_is_not_limited_passes():
    empty = {"hat": {"free": {"T1": {"value": None, "n": 0}}}}
    verdicts = judge(empty, PERMISSIVE)
    assert not any(v.passed for v in verdicts.values()) and "not measured" in verdicts["t1"].why
    assert all(v.passed for v in judge(empty, OFF).values())
    without_interval = {"hat": {"free": arm()["free"] | {"gap": {"value": 0.0, "n": 9}}}}
    assert not judge(without_interval, PERMISSIVE)["gap"].passed


def test_the_figures_of_the_chosen_decoding_count():
    models = GOOD | {"hat": arm() | {"constrained": arm(t1=0.1)["free"]}}
    assert judge(models, LIMITS)["t1"].passed
    assert not judge(models, LIMITS.model_copy(update={"decoding": "constrained"}))["t1"].passed


@pytest.mark.parametrize(("successes", "n"), [(0, 7), (3, 10), (45, 60), (200, 200)])
def test_wilson_agrees_with_statsmodels(successes, n):
    expected = proportion_confint(successes, n, alpha=0.1, method="wilson")  # two-sided 90% = one-sided 95% at each end
    assert wilson(successes / n, n, 0.95) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("a", "b"), [((8, 10), (3, 10)), ((56, 70), (48, 80)), ((0, 10), (10, 10))])
def test_difference_bounds_agree_with_statsmodels(a, b):
    expected = confint_proportions_2indep(*a, *b, method="newcomb", compare="diff", alpha=0.1)
    found = difference_bounds((a[0] / a[1], a[1]), (b[0] / b[1], b[1]), 0.95)
    assert found == pytest.approx(expected, abs=1e-9)


def test_the_lower_bound_is_rarely_above_the_truth():
    """Coverage on quality, which takes the values 0, 0.25, ..., 1 and not only 0 and 1."""
    rng = random.Random(1)
    values, weights = (0, 0.25, 0.5, 0.75, 1), (0.1, 0.1, 0.2, 0.2, 0.4)
    truth = sum(v * w for v, w in zip(values, weights, strict=True))
    misses = sum(wilson(math.fsum(rng.choices(values, weights, k=60)) / 60, 60, 0.95)[0] > truth for _ in range(4000))
    assert misses / 4000 < 0.05


def test_the_lead_is_judged_by_its_paired_interval_when_there_is_one():
    paired = {"hat": {LIMITS.decoding: {"T2": {"value": 0.2, "ci": [0.19, 0.21], "n": 200}}}}
    verdict = judge(GOOD, LIMITS.model_copy(update={"min_t2_lead": 0.18}), paired)["t2_lead"]
    assert verdict.passed and "interval of 200 pairs 0.190" in verdict.why
    assert not judge(GOOD, LIMITS.model_copy(update={"min_t2_lead": 0.195}), paired)["t2_lead"].passed
