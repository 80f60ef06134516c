"""Looks and confidence sequences against tables, spotify-confidence's solver, and simulation."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import norm, t
from spotify_confidence.analysis.frequentist.sequential_bound_solver import bounds as spotify_bounds
from statsmodels.stats.power import NormalIndPower

from components.canary_deploy.sequential import (
    PLANNED_LOOKS,
    crossing_probability,
    look_bounds,
    required_drift,
    sequence_multiplier,
    spent,
    to_t,
)


def test_published_bounds():
    assert look_bounds(PLANNED_LOOKS) == pytest.approx((4.877, 3.357, 2.680, 2.290, 2.031), abs=6e-4)


def test_one_look_is_the_fixed_test():
    assert look_bounds((1.0,))[0] == pytest.approx(1.959964, abs=1e-4)


@pytest.mark.parametrize("fractions", [(0.2, 0.4, 0.6, 0.8, 1.0), (0.13, 0.5, 0.51, 0.97, 1.0), (0.6, 1.0)])
def test_crossing_a_bound_spends_what_was_planned(fractions):
    found = look_bounds(fractions)
    for looks in range(1, len(fractions) + 1):
        crossed = crossing_probability(0.0, fractions[:looks], found[:looks])
        assert crossed == pytest.approx(spent(fractions[looks - 1], 0.025), abs=2e-5)


def test_the_recursion_agrees_with_spotify_confidence():
    # its solver spends alpha t^rho, two-sided; our crossing probability of its bounds must give that back
    fractions = np.array([0.25, 0.5, 0.75, 1.0])
    theirs = spotify_bounds(fractions, alpha=0.05, rho=2.0, ztrun=8.0, sides=2).df["zb"].to_numpy()
    for looks in range(1, 5):
        crossed = crossing_probability(0.0, tuple(fractions[:looks]), tuple(theirs[:looks]))
        assert crossed == pytest.approx(0.025 * fractions[looks - 1] ** 2, abs=2e-5)


def test_a_last_look_that_comes_early_spends_the_rest():
    early = look_bounds((0.2, 0.4, 0.7), final=True)
    assert early[-1] < look_bounds((0.2, 0.4, 0.7))[-1]
    assert crossing_probability(0.0, (0.2, 0.4, 0.7), early) == pytest.approx(0.025, abs=2e-5)


@pytest.mark.parametrize("fractions", [(0.4, 0.2), (0.0, 0.5), (0.5, 1.1), (0.5, 0.5)])
def test_looks_must_increase(fractions):
    with pytest.raises(ValueError, match="allowed: increasing"):
        look_bounds(fractions)


def test_power_costs_a_few_percent_more_rooms_than_one_look():
    fixed = NormalIndPower().solve_power(effect_size=0.1, alpha=0.05, power=0.8)
    sequential = 2 * (required_drift(0.8) / 0.1) ** 2
    assert 1.0 < sequential / fixed < 1.04
    assert crossing_probability(required_drift(0.9), PLANNED_LOOKS, look_bounds(PLANNED_LOOKS)) == pytest.approx(0.9)


@pytest.mark.parametrize(("z", "df"), [(1.96, 10), (2.031, 398), (4.877, 78)])
def test_to_t_keeps_the_tail_probability(z, df):
    assert t.sf(to_t(z, df), df) == pytest.approx(norm.sf(z), rel=1e-6)
    assert to_t(z, 0) == float("inf")


def test_the_confidence_sequence_holds_at_all_times_at_once():
    rng = np.random.default_rng(1)
    runs, rooms, alpha = 2000, 400, 0.05
    means = np.cumsum(rng.standard_normal((runs, rooms)), axis=1) / np.arange(1, rooms + 1)
    reach = np.array([sequence_multiplier(n, rooms, alpha) / sqrt(n) for n in range(1, rooms + 1)])
    broken = (np.abs(means) > reach).any(axis=1).mean()
    assert 0.005 < broken <= alpha
    fixed = (np.abs(means[:, 24:]) > 1.96 / np.sqrt(np.arange(25, rooms + 1))).any(axis=1).mean()
    assert fixed > 0.2  # what it protects from


def test_the_sequence_is_tightest_around_the_planned_rooms():
    relative = {n: sequence_multiplier(n, 200, 0.01) for n in (25, 100, 200, 400, 2000)}
    assert min(relative, key=relative.__getitem__) in (200, 400)
    assert relative[25] > relative[100] > relative[200] > norm.isf(0.005)
