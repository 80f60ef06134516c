"""Estimates against independent oracles: statsmodels (cluster-robust), tea-tasting (delta method, CUPED), bootstrap,
scipy."""

from math import exp, log, sqrt

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import tea_tasting as tt
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, binom

from components.canary_deploy.statistics import (
    Scale,
    cuped,
    independent_ratio,
    merge_small_strata,
    paired_ratio,
    quantile_ratio,
    sample_ratio_bayes_factor,
    share_in_both,
)


def rooms(seed: int, count: int, effect: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """GMV and viewers of `count` rooms."""
    rng = np.random.default_rng(seed)
    viewers = rng.integers(20, 80, count).astype(float)
    return viewers * 5 * (1 + effect) * np.exp(0.4 * rng.standard_normal(count)), viewers


def viewers_table(seed: int, count: int, shared: bool) -> pd.DataFrame:
    """One row a viewer: room, arm, y. Shared: viewers of both arms in every room; else a room has one arm."""
    rng = np.random.default_rng(seed)
    rows = []
    for room in range(count):
        level = np.exp(0.5 * rng.standard_normal())
        for _ in range(rng.integers(5, 25)):
            arm = int(rng.random() < 0.5) if shared else room % 2
            rows.append((room, arm, rng.poisson(2 * level * (1.2 if arm else 1.0))))
    return pd.DataFrame(rows, columns=["room", "arm", "y"])


def sums(table: pd.DataFrame, arm: int, every_room: bool) -> tuple[np.ndarray, np.ndarray]:
    grouped = table[table.arm == arm].groupby("room").y.agg(["sum", "count"])
    if every_room:
        grouped = grouped.reindex(sorted(table.room.unique()), fill_value=0)
    return grouped["sum"].to_numpy(float), grouped["count"].to_numpy(float)


@pytest.mark.parametrize("scale", [Scale.LOG, Scale.DIFFERENCE])
def test_paired_rooms_equal_the_cluster_robust_regression(scale):
    table = viewers_table(3, 60, shared=True)
    design = sm.add_constant(table.arm.to_numpy(float))
    model = sm.GLM(table.y, design, family=sm.families.Poisson()) if scale is Scale.LOG else sm.OLS(table.y, design)
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": table.room.to_numpy(), "use_correction": False})
    mine = paired_ratio(*sums(table, 1, True), *sums(table, 0, True), scale)
    assert mine.estimate == pytest.approx(fit.params.iloc[1], rel=1e-6)
    assert mine.se == pytest.approx(fit.bse.iloc[1] * sqrt(60 / 59), rel=1e-6)  # statsmodels divides by K, not K - 1


@pytest.mark.parametrize("scale", [Scale.LOG, Scale.DIFFERENCE])
def test_independent_rooms_equal_the_cluster_robust_regression(scale):
    table = viewers_table(4, 80, shared=False)
    design = sm.add_constant(table.arm.to_numpy(float))
    model = sm.GLM(table.y, design, family=sm.families.Poisson()) if scale is Scale.LOG else sm.OLS(table.y, design)
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": table.room.to_numpy(), "use_correction": False})
    mine = independent_ratio(*sums(table, 1, False), *sums(table, 0, False), scale)
    assert mine.estimate == pytest.approx(fit.params.iloc[1], rel=1e-6)
    assert mine.se == pytest.approx(fit.bse.iloc[1] * sqrt(40 / 39), rel=1e-6)
    assert (mine.n, mine.df) == (40, 78)


def tea_result(y_b, n_b, y_a, n_a, x_b=None, x_a=None):
    frame = pd.DataFrame(
        {
            "variant": [1] * len(y_b) + [0] * len(y_a),
            "y": np.concatenate([y_b, y_a]),
            "n": np.concatenate([n_b, n_a]),
        }
    )
    extra = {}
    if x_b is not None:
        frame["history"] = frame.n * np.concatenate([x_b, x_a])
        frame["history_n"] = frame.n  # tea-tasting 1.14 fails when both ratios name one denominator
        extra = {"numer_covariate": "history", "denom_covariate": "history_n"}
    experiment = tt.Experiment(m=tt.RatioOfMeans("y", "n", equal_var=False, use_t=False, **extra))
    return experiment.analyze(frame)["m"]


def test_independent_rooms_equal_tea_tasting():
    b, a = rooms(1, 120, 0.1), rooms(2, 150)
    result = tea_result(*b, *a)
    difference = independent_ratio(*b, *a, Scale.DIFFERENCE)
    assert difference.estimate == pytest.approx(result.effect_size, rel=1e-9)
    assert difference.se == pytest.approx(
        (result.effect_size_ci_upper - result.effect_size_ci_lower) / 2 / 1.959964, rel=1e-5
    )
    relative = independent_ratio(*b, *a, Scale.LOG)
    assert exp(relative.estimate) - 1 == pytest.approx(result.rel_effect_size, rel=1e-9)
    width = log(1 + result.rel_effect_size_ci_upper) - log(1 + result.rel_effect_size_ci_lower)
    assert relative.se == pytest.approx(width / 2 / 1.959964, rel=1e-5)


def test_cuped_agrees_with_tea_tasting_and_narrows_the_interval():
    rng = np.random.default_rng(5)
    (y_b, n_b), (y_a, n_a) = rooms(1, 300, 0.1), rooms(2, 300)
    x_b, x_a = (
        y_b / 1.1 / n_b * np.exp(0.2 * rng.standard_normal(300)),
        y_a / n_a * np.exp(0.2 * rng.standard_normal(300)),
    )
    adjusted_b, adjusted_a = cuped(y_b, n_b, x_b, y_a, n_a, x_a)
    mine = independent_ratio(adjusted_b, n_b, adjusted_a, n_a)
    result = tea_result(y_b, n_b, y_a, n_a, x_b, x_a)
    width = log(1 + result.rel_effect_size_ci_upper) - log(1 + result.rel_effect_size_ci_lower)
    # tea-tasting pools the arms' means into theta, this does not: equal to a few percent of an SE
    assert mine.estimate == pytest.approx(log(1 + result.rel_effect_size), abs=0.2 * mine.se)
    assert mine.se == pytest.approx(width / 2 / 1.959964, rel=0.05)
    assert mine.se < 0.7 * independent_ratio(y_b, n_b, y_a, n_a).se


def test_cuped_without_history_changes_nothing():
    (y_b, n_b), (y_a, n_a) = rooms(1, 30), rooms(2, 30)
    none = np.full(30, np.nan)
    adjusted = cuped(y_b, n_b, none, y_a, n_a, none)
    assert np.array_equal(adjusted[0], y_b) and np.array_equal(adjusted[1], y_a)


def test_strata_remove_an_imbalance_that_would_look_like_an_effect():
    # every room is worth 1 in stratum 0 and 10 in stratum 1; the canary happens to have more of stratum 1
    strata_b, strata_a = np.repeat([0, 1], [20, 30]), np.repeat([0, 1], [30, 20])
    rng = np.random.default_rng(0)
    n_b, n_a = np.full(50, 10.0), np.full(50, 10.0)
    y_b = n_b * np.where(strata_b, 10.0, 1.0) * (1 + 0.1 * rng.standard_normal(50))
    y_a = n_a * np.where(strata_a, 10.0, 1.0) * (1 + 0.1 * rng.standard_normal(50))
    pooled = independent_ratio(y_b, n_b, y_a, n_a)
    split = independent_ratio(y_b, n_b, y_a, n_a, strata=merge_small_strata(strata_b, strata_a))
    assert pooled.estimate > 0.3
    assert abs(split.estimate) < 3 * split.se < 0.1
    assert split.df == 96


def test_small_strata_are_pooled_and_then_joined():
    b = np.repeat([0, 1, 2, 3], [20, 3, 2, 20])
    a = np.repeat([0, 1, 2, 3], [20, 4, 6, 20])
    new_b, new_a, size = merge_small_strata(b, a)
    assert size == 3 and set(new_b[20:25]) == {2} and set(new_a[20:30]) == {2}
    new_b, _, size = merge_small_strata(np.repeat([0, 1], [20, 2]), np.repeat([0, 1], [20, 2]))
    assert size == 1 and set(new_b) == {0}
    new_b, new_a, size = merge_small_strata(np.repeat([0, 1], [20, 9]), np.zeros(20, int))
    assert size == 1 and set(new_b) == {0}


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 1000))
def test_swapping_the_arms_flips_the_sign_and_money_has_no_unit(seed, price):
    b, a = rooms(seed, 12), rooms(seed + 1, 15)
    one, other = independent_ratio(*b, *a), independent_ratio(*a, *b)
    assert one.estimate == pytest.approx(-other.estimate) and one.se == pytest.approx(other.se)
    dearer = independent_ratio(b[0] * price, b[1], a[0] * price, a[1])
    assert dearer.estimate == pytest.approx(one.estimate, abs=1e-9) and dearer.se == pytest.approx(one.se)


def test_no_event_is_no_proof():
    # 0 of 30 replies in each arm: the standard error is one reply in 30, not zero
    none, replies = np.zeros(10), np.full(10, 3.0)
    floored = independent_ratio(none, replies, none, replies, Scale.DIFFERENCE, se_floor=True)
    assert floored.se == pytest.approx(sqrt(2) / 30)
    assert independent_ratio(none, replies, none, replies, Scale.DIFFERENCE).se == 0
    assert paired_ratio(none, replies, none, replies, Scale.DIFFERENCE, se_floor=True).se == pytest.approx(sqrt(2) / 30)


@pytest.mark.parametrize(("y", "n"), [([], []), ([1.0], [10.0]), ([0.0, 0.0], [10.0, 10.0]), ([0.0, 0.0], [0.0, 0.0])])
def test_what_cannot_be_estimated_is_unknown_not_zero(y, n):
    y, n = np.array(y), np.array(n)
    good = rooms(1, len(y) if len(y) > 1 else 30)
    assert not independent_ratio(y, n, *good).known
    if len(y) > 1:
        assert not paired_ratio(y, n, *good).known


EDGES = np.log(10.0 * 1.07 ** np.arange(128))


def latency(seed: int, count: int, sigma_room: float = 0.2, factor: float = 1.0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        factor * 800 * np.exp(sigma_room * rng.standard_normal() + 0.5 * rng.standard_normal(rng.integers(20, 60)))
        for _ in range(count)
    ]


def cumulative(replies: list[np.ndarray]) -> np.ndarray:
    return np.array([np.searchsorted(np.sort(np.log(room)), EDGES, side="right") for room in replies])


def test_p95_of_the_histogram_is_that_of_the_replies():
    b, a = latency(1, 200, factor=1.2), latency(2, 200)
    mine = quantile_ratio(cumulative(b), cumulative(a), EDGES)
    assert mine.canary == pytest.approx(np.quantile(np.concatenate(b), 0.95), rel=0.01)
    assert mine.control == pytest.approx(np.quantile(np.concatenate(a), 0.95), rel=0.01)
    assert mine.estimate == pytest.approx(log(mine.canary / mine.control))


@pytest.mark.parametrize("paired", [False, True])
def test_clustered_p95_has_the_standard_error_of_a_cluster_bootstrap(paired):
    rng = np.random.default_rng(9)
    b, a = latency(1, 150), latency(2, 150)
    if paired:  # the same rooms: give both arms the level of the room
        levels = np.exp(0.3 * rng.standard_normal(150))
        b = [room * level for room, level in zip(b, levels, strict=True)]
        a = [room * level for room, level in zip(a, levels, strict=True)]
    cum_b, cum_a = cumulative(b), cumulative(a)
    draws = []
    for _ in range(400):
        rows = rng.integers(0, 150, 150)
        other = rows if paired else rng.integers(0, 150, 150)
        draws.append(quantile_ratio(cum_b[rows], cum_a[other], EDGES).estimate)
    mine = quantile_ratio(cum_b, cum_a, EDGES, paired=paired)
    assert mine.se == pytest.approx(np.std(draws), rel=0.2)
    unclustered = sqrt(2 * 0.95 * 0.05 / sum(map(len, a))) / (0.103 / 0.5)  # normal density at its 95% point / sigma
    assert paired or mine.se > 1.1 * unclustered


@pytest.mark.parametrize("counts", [(0, 0), (10, 12), (60, 140), (400, 401), (300, 500)])
def test_sample_ratio_bayes_factor_is_the_beta_binomial_ratio(counts):
    n, total = counts[0], sum(counts)
    expected = np.mean([betabinom.pmf(n, total, k / 2, k / 2) for k in (10, 1000)]) / binom.pmf(n, total, 0.5)
    assert sample_ratio_bayes_factor(counts, (0.5, 0.5)) == pytest.approx(log(expected), abs=1e-9)


def test_sample_ratio_factor_has_mean_one_under_a_correct_split():
    total = 80  # a Bayes factor's mean under the null is 1; hence Ville's bound of 1/1000 for ever exceeding 1000
    factors = [exp(sample_ratio_bayes_factor((n, total - n), (0.5, 0.5))) for n in range(total + 1)]
    assert sum(binom.pmf(n, total, 0.5) * factor for n, factor in enumerate(factors)) == pytest.approx(1)


def test_a_wide_prior_alone_cannot_see_a_hundred_rooms_in_one_arm():
    assert exp(sample_ratio_bayes_factor((100, 0), (0.5, 0.5), (1000.0,))) < 150
    assert sample_ratio_bayes_factor((100, 0), (0.5, 0.5)) > log(1000)
    assert sample_ratio_bayes_factor((53_000, 47_000), (0.5, 0.5)) > log(1000)
    assert sample_ratio_bayes_factor((50_200, 49_800), (0.5, 0.5)) < 0


def test_units_in_both_arms():
    assert share_in_both({"a", "b"}, {"b", "c"}) == (1, 1 / 3)
    assert share_in_both(set(), set()) == (0, 0.0)
