"""When may one look, and how far from zero must an effect be? Two answers for two purposes.

* Promotion happens at a few planned looks: group-sequential bounds with the O'Brien-Fleming-type spending function of
  Lan & DeMets (1983), "Discrete sequential boundaries for clinical trials". Bounds come from the recursion of
  Armitage, McPherson & Rowe (1969); Jennison & Turnbull (2000), ch. 7 and 19.
* Guardrails are watched at every tick: the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy &
  Ramdas (2024), "Time-uniform central limit theory and asymptotic confidence sequences", arXiv:2103.06476, with its
  tuning for N*.

Everything is on the z scale of a Brownian motion B(t), t the information fraction; `to_t` converts to a t quantile
for few rooms.
"""

from functools import lru_cache
from math import inf, log, sqrt
from typing import cast

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, stdtrit

PLANNED_LOOKS = (0.2, 0.4, 0.6, 0.8, 1.0)
BURN_IN_ROOMS = 25  # an arm, before a sequence is read: below this its asymptotics are not reached (rollout-facts)
GRID = 801  # points over the continuation region; bounds are then exact to about 1e-4


def to_t(z: float, df: float) -> float:
    """The t quantile (df degrees of freedom) with the tail probability of the normal quantile `z`; inf when df < 1."""
    if df < 1 or z == inf:
        return inf
    return float(-stdtrit(df, ndtr(-z)))


def spent(fraction: float, alpha_side: float) -> float:
    """Alpha of one side spent at an information fraction: 2 - 2 Phi(z_{alpha_side/2} / sqrt(t))."""
    if fraction <= 0:
        return 0.0
    return float(2 * ndtr(ndtri(alpha_side / 2) / sqrt(min(fraction, 1.0))))


def _density(points: np.ndarray, origins: np.ndarray, mass: np.ndarray, step: float, drift: float) -> np.ndarray:
    """Density of B at `points` after an increment of information `step`, from point masses at `origins`."""
    gap = (points[:, None] - origins[None, :] - drift * step) / sqrt(step)
    return (np.exp(-0.5 * gap * gap) / sqrt(2 * np.pi * step)) @ mass


def _carry(bound: float, fraction: float, origins: np.ndarray, mass: np.ndarray, step: float, drift: float):
    """Grid and masses of the paths that stay within +-bound (z scale) at `fraction`."""
    edge = min(bound, 10.0) * sqrt(fraction) + max(0.0, abs(drift) * fraction if bound == inf else 0.0)
    points = np.linspace(-edge, edge, GRID)
    weights = np.full(GRID, points[1] - points[0])
    weights[[0, -1]] /= 2
    return points, _density(points, origins, mass, step, drift) * weights


@lru_cache(maxsize=4096)
def look_bounds(fractions: tuple[float, ...], alpha: float = 0.05, final: bool = False) -> tuple[float, ...]:
    """Two-sided z bounds of looks at increasing information fractions.

    Args:
        fractions: increasing, each in (0, 1]; looks need not fall on the planned fractions (that is the point of
            spending).
        alpha: two-sided level over all looks.
        final: the last look spends all alpha that is left, also when it comes early. Valid when the calendar, not the
            data, ended the rollout ("underrunning", Jennison & Turnbull section 7.3).

    At 20, 40, 60, 80, 100%: 4.877, 3.357, 2.680, 2.290, 2.031.
    """
    side = alpha / 2
    bounds: list[float] = []
    origins, mass, before, used = np.zeros(1), np.ones(1), 0.0, 0.0
    for index, fraction in enumerate(fractions):
        if not before < fraction <= 1.0:
            raise ValueError(f"looks are {fractions}; allowed: increasing fractions in (0, 1]")
        total = side if final and index == len(fractions) - 1 else spent(fraction, side)
        step = fraction - before
        budget = total - used

        def excess(bound: float, at=fraction, step=step, origins=origins, mass=mass, budget=budget) -> float:
            return float(ndtr((origins - bound * sqrt(at)) / sqrt(step)) @ mass) - budget

        bound = inf if budget < 1e-14 else cast(float, brentq(excess, 0.0, 10.0, xtol=1e-7))
        bounds.append(bound)
        origins, mass = _carry(bound, fraction, origins, mass, step, drift=0.0)
        before, used = fraction, max(total, used)
    return tuple(bounds)


def crossing_probability(drift: float, fractions: tuple[float, ...], bounds: tuple[float, ...]) -> float:
    """Probability that B(t) + drift t crosses an upper bound at one of the looks: the power. `drift` is the expected
    z at t = 1.
    """
    total, before = 0.0, 0.0
    origins, mass = np.zeros(1), np.ones(1)
    for fraction, bound in zip(fractions, bounds, strict=True):
        step = fraction - before
        total += float(ndtr((origins + drift * step - bound * sqrt(fraction)) / sqrt(step)) @ mass)
        origins, mass = _carry(bound, fraction, origins, mass, step, drift)
        before = fraction
    return total


@lru_cache(maxsize=256)
def required_drift(power: float, fractions: tuple[float, ...] = PLANNED_LOOKS, alpha: float = 0.05) -> float:
    """Expected z at full information that gives `power` over all looks (a fixed-N test needs z_{1-alpha/2} +
    z_power).
    """
    bounds = look_bounds(fractions, alpha)
    return cast(
        float, brentq(lambda drift: crossing_probability(drift, fractions, bounds) - power, 0.0, 12.0, xtol=1e-6)
    )


@lru_cache(maxsize=65536)
def sequence_multiplier(rooms: int, planned_rooms: int, alpha: float) -> float:
    """How many standard errors wide the confidence sequence is on each side after `rooms` rooms an arm (z scale).

    sqrt(n) sqrt(2 (n rho^2 + 1) / (n^2 rho^2) ln(sqrt(n rho^2 + 1) / alpha)), rho^2 = (-2 ln alpha + ln(1 - 2 ln
    alpha)) / N*, which is tightest at n = N* (arXiv:2103.06476, appendix B.2). Holds for all n at once, so it may be
    read at every tick.
    """
    rho2 = (-2 * log(alpha) + log(1 - 2 * log(alpha))) / planned_rooms
    scaled = rooms * rho2 + 1
    return sqrt(rooms) * sqrt(2 * scaled / (rooms**2 * rho2) * log(sqrt(scaled) / alpha))
