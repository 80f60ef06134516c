"""Estimates of canary against control from cluster sums (one number a room and column; numpy, no loop over rooms).

A room is a cluster: its viewers hear the same avatar and see the same products, so viewers are no independent
observations.
Sources: Deng, Knoblich & Lu (2018), "Applying the delta method in metric analytics", arXiv:1803.06336 (ratio metrics,
clustered quantiles); Cochran (1977), Sampling Techniques, ch. 5A and 6 (ratios, post-stratification); Deng, Xu,
Kohavi & Walker (2013), CUPED; Woodruff (1952) (standard error of a quantile); Lindon & Malek (2022), arXiv:2011.03567
(sequential sample-ratio test).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite, log, nan, sqrt

import numpy as np
from scipy.special import gammaln

Array = np.ndarray
MIN_STRATUM_ROOMS = 5  # an arm; smaller strata are pooled, because a variance of two rooms says nothing


class Scale(StrEnum):
    LOG = "log"
    """ln(canary / control): money and latency, whose effects are relative."""
    DIFFERENCE = "difference"
    """canary - control: rates, which may be zero."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An effect of the canary. `estimate` and `se` are on `scale`; both are nan where the data cannot say (no rooms,
    a zero mean).
    """

    estimate: float
    se: float
    n: int
    """Rooms of the smaller arm (paired: rooms)."""
    df: float
    """Degrees of freedom of `se`."""
    canary: float
    control: float
    scale: Scale

    @property
    def known(self) -> bool:
        return isfinite(self.estimate) and isfinite(self.se) and self.df >= 1

    def bounds(self, multiplier: float) -> tuple[float, float]:
        """Lower and upper bound, `multiplier` standard errors away."""
        return self.estimate - multiplier * self.se, self.estimate + multiplier * self.se


def _unknown(rooms: int, scale: Scale, canary: float = nan, control: float = nan) -> Estimate:
    return Estimate(nan, nan, rooms, 0, canary, control, scale)


def merge_small_strata(canary: Array, control: Array, minimum: int = MIN_STRATUM_ROOMS) -> tuple[Array, Array, int]:
    """Renumber strata 0..S-1; those with fewer than `minimum` rooms in either arm become one (joined to the largest
    if still small).

    Returns:
        Stratum of each canary room, of each control room, and S.
    """
    if not (canary.any() or control.any()):  # one stratum, by far the commonest case
        return canary, control, 1
    size = int(max(canary.max(initial=0), control.max(initial=0))) + 1
    counts = np.minimum(np.bincount(canary, minlength=size), np.bincount(control, minlength=size))
    totals = np.bincount(canary, minlength=size) + np.bincount(control, minlength=size)
    small = counts < minimum
    if small.all():
        return np.zeros_like(canary), np.zeros_like(control), 1
    new = np.cumsum(~small) - 1
    if small.any():
        pooled = min(int(small[canary].sum()), int(small[control].sum()))
        rest = int((~small).sum())
        new[small] = rest if pooled >= minimum else new[int(np.argmax(np.where(small, -1, totals)))]
    return new[canary], new[control], int(new.max()) + 1


def _arm(y: Array, n: Array, strata: Array, weights: Array) -> tuple[float, float]:
    """Post-stratified ratio of means sum_s W_s r_s and its variance sum_s W_s^2 s^2(Y - r_s N) / (K_s mean(N)_s^2)."""
    size = len(weights)
    if size == 1:
        rooms, total = len(y), float(n.sum())
        ratio = float(y.sum()) / total
        residual = y - ratio * n
        return ratio, float(residual @ residual) * rooms / (rooms - 1) / total**2
    rooms_S = np.bincount(strata, minlength=size)
    total_S = np.bincount(strata, n, minlength=size)
    ratio_S = np.bincount(strata, y, minlength=size) / total_S
    residual = y - ratio_S[strata] * n
    variance_S = np.bincount(strata, residual * residual, minlength=size) * rooms_S / (rooms_S - 1) / total_S**2
    return float(weights @ ratio_S), float(weights**2 @ variance_S)


def _weights(n_b: Array, n_a: Array, strata_b: Array, strata_a: Array, size: int) -> Array | None:
    """Share of each stratum in both arms' denominators together; None if an arm has a stratum without denominator or
    variance.
    """
    if min(len(n_b), len(n_a)) < 2:
        return None
    if size == 1:
        return np.ones(1) if min(n_b.sum(), n_a.sum()) > 0 else None
    total_b, total_a = np.bincount(strata_b, n_b, minlength=size), np.bincount(strata_a, n_a, minlength=size)
    if min(total_b.min(), total_a.min()) <= 0:
        return None
    return (total_b + total_a) / (total_b + total_a).sum()


def independent_ratio(
    y_b: Array,
    n_b: Array,
    y_a: Array,
    n_a: Array,
    scale: Scale = Scale.LOG,
    strata: tuple[Array, Array, int] | None = None,
    se_floor: bool = False,
) -> Estimate:
    """Effect on a ratio of means sum(Y)/sum(N), rooms of the two arms disjoint (room sessions are the unit).

    delta = ln(r_B/r_A), SE^2 = Var_B/r_B^2 + Var_A/r_A^2 (delta method), or r_B - r_A with Var_B + Var_A. Deng et al.
    2018, section 2.

    Args:
        y_b, n_b: canary's numerator and denominator, one a room; y_a, n_a: control's.
        strata: result of `merge_small_strata`; None is one stratum.
        se_floor: for rates of rare events: an arm's SE is at least one event in its denominator. Without it, no event
            in 30 replies would have an SE of zero and prove non-inferiority.
    """
    rooms = min(len(y_b), len(y_a))
    strata_b, strata_a, size = strata or (np.zeros(len(y_b), int), np.zeros(len(y_a), int), 1)
    weights = _weights(n_b, n_a, strata_b, strata_a, size)
    if weights is None:  # a metric with its own denominator (orders) may be empty in a small stratum
        if size > 1:
            return independent_ratio(y_b, n_b, y_a, n_a, scale, None, se_floor)
        return _unknown(rooms, scale)
    r_b, var_b = _arm(y_b, n_b, strata_b, weights)
    r_a, var_a = _arm(y_a, n_a, strata_a, weights)
    if se_floor:
        var_b, var_a = max(var_b, float(n_b.sum()) ** -2), max(var_a, float(n_a.sum()) ** -2)
    df = len(y_b) + len(y_a) - 2 * size
    if scale is Scale.DIFFERENCE:
        return Estimate(r_b - r_a, sqrt(var_b + var_a), rooms, df, r_b, r_a, scale)
    if r_b <= 0 or r_a <= 0:
        return _unknown(rooms, scale, r_b, r_a)
    return Estimate(log(r_b / r_a), sqrt(var_b / r_b**2 + var_a / r_a**2), rooms, df, r_b, r_a, scale)


def paired_ratio(
    y_b: Array, n_b: Array, y_a: Array, n_a: Array, scale: Scale = Scale.LOG, se_floor: bool = False
) -> Estimate:
    """Effect on a ratio of means when viewers within rooms are the unit, so that both arms share the rooms (aligned
    arrays).

    psi_i = (Y_Bi - r_B N_Bi)/(r_B mean N_B) - (Y_Ai - r_A N_Ai)/(r_A mean N_A), SE^2 = s^2(psi)/K (influence function
    of the log ratio; without the 1/r for a difference). The room's own level cancels; strata need no weights, since
    every room is in both arms.
    """
    rooms = len(y_b)
    if rooms < 2 or n_b.sum() <= 0 or n_a.sum() <= 0:
        return _unknown(rooms, scale)
    total_b, total_a = float(n_b.sum()), float(n_a.sum())
    r_b, r_a = float(y_b.sum()) / total_b, float(y_a.sum()) / total_a
    if scale is Scale.LOG and (r_b <= 0 or r_a <= 0):
        return _unknown(rooms, scale, r_b, r_a)
    unit_b, unit_a = (r_b, r_a) if scale is Scale.LOG else (1.0, 1.0)
    psi = (y_b - r_b * n_b) * (rooms / total_b / unit_b) - (y_a - r_a * n_a) * (rooms / total_a / unit_a)
    variance = float(psi @ psi) / (rooms - 1) / rooms
    if se_floor:
        variance = max(variance, total_b**-2 + total_a**-2)
    estimate = log(r_b / r_a) if scale is Scale.LOG else r_b - r_a
    return Estimate(estimate, sqrt(variance), rooms, rooms - 1, r_b, r_a, scale)


def cuped(
    y_b: Array,
    n_b: Array,
    x_b: Array,
    y_a: Array,
    n_a: Array,
    x_a: Array,
    strata: tuple[Array, Array, int] | None = None,
) -> tuple[Array, Array]:
    """Numerators of both arms with the pre-period taken out: Y_i - theta N_i (X_i - mean X). Deng et al. 2013, for a
    ratio metric.

    X is the room's metric per viewer *before* the rollout, so it cannot be moved by the arm. theta is the pooled
    within-stratum regression of the ratio's residual on that of N (X - mean X), which minimises the variance of the
    ratio. Rooms without history (nan) get the mean and are not adjusted.
    """
    x, n = np.concatenate([x_b, x_a]), np.concatenate([n_b, n_a])
    seen = np.isfinite(x)
    if seen.sum() < 3 or n[seen].sum() <= 0:
        return y_b, y_a
    mean = float((n * np.where(seen, x, 0.0)).sum() / n[seen].sum())
    z = n * np.where(seen, x - mean, 0.0)
    strata_b, strata_a, size = strata or (np.zeros(len(y_b), int), np.zeros(len(y_a), int), 1)
    cell = np.concatenate([strata_b, strata_a + size])
    y = np.concatenate([y_b, y_a])
    totals = np.maximum(np.bincount(cell, n, minlength=2 * size), 1e-12)
    residual_y = y - (np.bincount(cell, y, minlength=2 * size) / totals)[cell] * n
    residual_z = z - (np.bincount(cell, z, minlength=2 * size) / totals)[cell] * n
    spread = float(residual_z @ residual_z)
    theta = float(residual_y @ residual_z) / spread if spread > 0 else 0.0
    adjusted = y - theta * z
    return adjusted[: len(y_b)], adjusted[len(y_b) :]


@dataclass(frozen=True, slots=True)
class _Quantile:
    value: float
    """ln of the quantile."""
    slope: float
    """Density of ln latency at the quantile."""
    residual: Array
    """1(X <= q) summed over the room's replies, minus p times its replies."""
    total: float


def _quantile(cumulative: Array, log_edges: Array, p: float) -> _Quantile | None:
    """Quantile of one arm from counts at or below each edge [rooms, edges]; the last edge holds every reply."""
    counts = cumulative.sum(axis=0, dtype=float)
    total = float(counts[-1])
    if total <= 0 or len(cumulative) < 2:
        return None
    share = counts / total
    value = float(np.interp(p, share, log_edges))
    upper = min(int(np.searchsorted(log_edges, value)), len(log_edges) - 1)
    lower = max(upper - 1, 0)
    width = log_edges[upper] - log_edges[lower]
    part = (value - log_edges[lower]) / width if width > 0 else 1.0
    below = (1 - part) * cumulative[:, lower] + part * cumulative[:, upper]
    residual = below - p * cumulative[:, -1]
    se = sqrt(float(residual @ residual) * len(cumulative) / (len(cumulative) - 1)) / total
    high = min(p + se, 1 - 1e-9)
    low = max(p - se, 1e-9)
    span = float(np.interp(high, share, log_edges) - np.interp(low, share, log_edges))
    return _Quantile(value, (high - low) / span if span > 0 else inf, residual, total)


def quantile_ratio(
    cumulative_b: Array, cumulative_a: Array, log_edges: Array, p: float = 0.95, paired: bool = False
) -> Estimate:
    """ln(quantile of canary / quantile of control) of replies that are clustered in rooms.

    SE(q) = SE_clustered(F(q)) / f(q) (Deng et al. 2018, section 4), the density from the Woodruff (1952) interval
    instead of a kernel.

    Args:
        cumulative_b, cumulative_a: replies at or below each edge, [rooms, edges]; the last column counts all.
        log_edges: ln of the edges, increasing, [edges]. The quantile is interpolated between them.
        paired: rows are the same rooms in both arms.
    """
    rooms = min(len(cumulative_b), len(cumulative_a))
    b, a = _quantile(cumulative_b, log_edges, p), _quantile(cumulative_a, log_edges, p)
    if b is None or a is None:
        return _unknown(rooms, Scale.LOG)
    canary, control = float(np.exp(b.value)), float(np.exp(a.value))
    scaled_b, scaled_a = b.residual / (b.total * b.slope), a.residual / (a.total * a.slope)
    if paired:
        psi = scaled_b - scaled_a
        variance, df = float(psi @ psi) * rooms / (rooms - 1), rooms - 1
    else:
        k_b, k_a = len(scaled_b), len(scaled_a)
        variance = float(scaled_b @ scaled_b) * k_b / (k_b - 1) + float(scaled_a @ scaled_a) * k_a / (k_a - 1)
        df = k_b + k_a - 2
    return Estimate(b.value - a.value, sqrt(variance), rooms, df, canary, control, Scale.LOG)


def sample_ratio_bayes_factor(
    counts: Sequence[int], shares: Sequence[float], concentrations: Sequence[float] = (10.0, 1000.0)
) -> float:
    """Log Bayes factor that units are *not* split in the planned shares: Dirichlet(k * shares) against the fixed
    shares.

    Mean of the factors for each k in `concentrations`. A mean of Bayes factors is one too (a mixture prior), so its
    chance to ever exceed 1000 under a correct split is at most 1/1000, at any number of looks (Lindon & Malek 2022).
    k = 1000 alone, the usual choice for web traffic, cannot reach 1000 with 100 rooms all in one arm (it gives 134);
    k = 10 can.
    """
    n, p = np.asarray(counts, float), np.asarray(shares, float)
    total = float(n.sum())
    under_plan = float(n @ np.log(p))
    logs = []
    for k in concentrations:
        alternative = gammaln(k) - gammaln(k + total) + float((gammaln(k * p + n) - gammaln(k * p)).sum())
        logs.append(alternative - under_plan)
    return float(np.logaddexp.reduce(logs) - log(len(logs)))


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of what the router counted arrived as events. `share` is nan when the router counted nothing."""

    seen: int
    counted: int

    @property
    def share(self) -> float:
        return self.seen / self.counted if self.counted else nan


def share_in_both(units_canary: set[str], units_control: set[str]) -> tuple[int, float]:
    """Units seen in both arms, and their share of all units. Sticky assignment makes this zero."""
    both, either = len(units_canary & units_control), len(units_canary | units_control)
    return both, both / either if either else 0.0
