"""Simulated rollouts, fast enough to run thousands: rooms are drawn from a large simulated population of rooms.

Drawing whole rooms (with replacement) keeps everything that makes the problem hard: GMV differs between rooms,
purchases are rare and skewed, replies of a room share its latency and its faults. Both arms draw from the same
population, so a null effect is exactly null.
"""

from dataclasses import dataclass, replace

import numpy as np

from components.canary_deploy.assignment import Arm
from components.canary_deploy.config import DAY_S, CanaryConfig
from components.canary_deploy.decision import Decision, Verdict, decide
from components.canary_deploy.evidence import (
    LATENCY_EDGES_MS,
    Burst,
    Evidence,
    Integrity,
    RampStep,
    RolloutState,
    Rooms,
)

PEEKS = 20  # evenly spaced decisions over a rollout
DURATION_S = 10 * DAY_S
RAMP_SHARES = ((0.01, 0.01), (0.05, 0.04), (0.2, 0.15), (0.5, 0.8))
"""Ramp step and the share of an arm's rooms that fall into it, one day a step and the rest of ten days at one half."""


@dataclass(frozen=True)
class Shop:
    """What rooms look like. Defaults give a coefficient of variation of GMV per viewer of 0.4 between rooms of 1,000
    viewers (rollout-facts, "Offline validation")."""

    viewers: float = 1000
    viewers_cv: float = 0.3
    order_rate: float = 0.05
    room_cv: float = 0.36
    """Of the order rate between rooms; the purchases' own noise brings GMV per viewer to 0.4."""
    amount: float = 100.0
    amount_cv: float = 0.7
    refund_rate: float = 0.05
    page_view_rate: float = 0.4
    replies: float = 60
    latency_ms: float = 800
    latency_sigma: float = 0.5
    latency_room_sigma: float = 0.15
    tool_error_rate: float = 0.02
    violation_rate: float = 0.003
    quality: float = 0.8
    history_correlation: float = 0.7
    """Between a room's order rate and what was known of it before."""


@dataclass(frozen=True, eq=False)
class Population:
    """A pool of rooms, with what a viewer-level test needs and the worst windows of each room."""

    rooms: Rooms
    gmv_squares: np.ndarray
    """Sum over viewers of GMV squared, [K]."""
    tool_error_burst: np.ndarray
    violation_burst: np.ndarray


def _lognormal(rng: np.random.Generator, cv: float, size: int) -> np.ndarray:
    """Mean 1 and the given coefficient of variation."""
    sigma = np.sqrt(np.log1p(cv**2))
    return np.exp(sigma * rng.standard_normal(size) - sigma**2 / 2)


def _worst_window(flags: np.ndarray, window: int) -> np.ndarray:
    sums = np.cumsum(np.pad(flags, ((0, 0), (1, 0))), axis=1)
    if flags.shape[1] <= window:
        return sums[:, -1]
    return (sums[:, window:] - sums[:, :-window]).max(axis=1)


def population(shop: Shop, size: int, rng: np.random.Generator, slo_ms: float = 2000, window: int = 20) -> Population:
    """Simulate `size` rooms, viewer by viewer for purchases and reply by reply for the rest."""
    viewers = np.maximum(rng.poisson(shop.viewers * _lognormal(rng, shop.viewers_cv, size)), 1)
    level = _lognormal(rng, shop.room_cv, size)
    orders = rng.binomial(viewers, np.minimum(shop.order_rate * level, 1.0))
    amounts = shop.amount * _lognormal(rng, shop.amount_cv, int(orders.sum()))
    owner = np.repeat(np.arange(size), orders)
    replies = np.maximum(rng.poisson(shop.replies, size), 1)
    there = np.arange(replies.max())[None, :] < replies[:, None]
    latency = np.exp(
        np.log(shop.latency_ms)
        + shop.latency_room_sigma * rng.standard_normal((size, 1))
        + shop.latency_sigma * rng.standard_normal(there.shape)
    )
    errors = there & (rng.random(there.shape) < shop.tool_error_rate * rng.gamma(2.0, 0.5, (size, 1)))
    violations = there & (rng.random(there.shape) < shop.violation_rate)
    quality = np.clip(
        shop.quality + 0.04 * rng.standard_normal((size, 1)) + 0.2 * rng.standard_normal(there.shape), 0, 1
    )
    width = len(LATENCY_EDGES_MS)
    bins = np.minimum(np.searchsorted(LATENCY_EDGES_MS, latency), width - 1)
    rows = np.broadcast_to(np.arange(size)[:, None], there.shape)
    histogram = np.bincount((rows * width + bins)[there], minlength=size * width).reshape(size, width)
    noise = _lognormal(rng, shop.room_cv * np.sqrt(1 / shop.history_correlation**2 - 1), size)
    rooms = Rooms(
        room=np.arange(size),
        first_at=np.zeros(size),
        stratum=np.zeros(size, dtype=np.int64),
        viewers=viewers.astype(float),
        gmv=np.bincount(owner, amounts, minlength=size),
        orders=orders.astype(float),
        page_views=rng.poisson(viewers * shop.page_view_rate).astype(float),
        refunds=rng.binomial(orders, shop.refund_rate).astype(float),
        replies=replies.astype(float),
        slow=(there & (latency > slo_ms)).sum(axis=1).astype(float),
        tool_errors=errors.sum(axis=1).astype(float),
        violations=violations.sum(axis=1).astype(float),
        quality=np.where(there, quality, 0.0).sum(axis=1),
        judged=replies.astype(float),
        covariate=shop.amount * shop.order_rate * level * noise,
        latency=np.cumsum(histogram, axis=1, dtype=np.int32),
    )
    return Population(
        rooms,
        np.bincount(owner, amounts**2, minlength=size),
        _worst_window(errors, window),
        _worst_window(violations, window),
    )


@dataclass(frozen=True, eq=False)
class Run:
    """One simulated rollout at full length: `rooms` rooms an arm, drawn from the population."""

    canary: Rooms
    control: Rooms
    bursts: dict[str, np.ndarray]
    """Worst window of the canary's rooms so far, by fault, [rooms]."""


def draw(pool: Population, rooms: int, rng: np.random.Generator, gmv_effect: float = 0.0, cuped: bool = False) -> Run:
    """Draw both arms. `gmv_effect` multiplies every amount of the canary by 1 + effect."""
    rows_b, rows_a = rng.integers(0, len(pool.rooms), (2, rooms))
    shares = np.cumsum([share for _, share in RAMP_SHARES])
    position = np.arange(rooms) / rooms
    common = {"first_at": position * DURATION_S, "stratum": np.searchsorted(shares[:-1], position, side="right")}
    if not cuped:
        common["covariate"] = np.full(rooms, np.nan)
    canary, control = replace(pool.rooms.take(rows_b), **common), replace(pool.rooms.take(rows_a), **common)
    canary = replace(canary, gmv=canary.gmv * (1 + gmv_effect))
    return Run(
        canary,
        control,
        {
            "tool_errors": np.maximum.accumulate(pool.tool_error_burst[rows_b]),
            "violations": np.maximum.accumulate(pool.violation_burst[rows_b]),
        },
    )


def evidence_at(run: Run, rooms: int, looks: tuple[float, ...], window: int = 20) -> Evidence:
    """Evidence after `rooms` rooms an arm, with data that is whole (faults in the data are the drill's matter)."""
    canary, control = run.canary.take(slice(0, rooms)), run.control.take(slice(0, rooms))
    now = DURATION_S * rooms / len(run.canary)
    replies = {Arm.CANARY: int(canary.replies.sum()), Arm.CONTROL: int(control.replies.sum())}
    units = {Arm.CANARY: rooms, Arm.CONTROL: rooms}
    state = RolloutState.model_construct(  # built thousands of times from our own numbers: nothing to validate
        rollout="simulated",
        salt="simulated",
        started=0.0,
        now=now,
        ramp=tuple(RampStep.model_construct(at=0.0, share=share) for share, _ in RAMP_SHARES),
        canary_release="canary",
        champion_release="champion",
        canary_alias="canary",
        champion_alias="champion",
        assigned=units,
        routed=replies,
        crashes={},
        looks=looks,
    )
    integrity = Integrity(
        received=sum(replies.values()),
        quarantined=0,
        reasons={},
        duplicates=0,
        units={str(arm): rooms for arm in units},
        exposures={str(arm): count for arm, count in replies.items()},
        in_both_arms=0,
        misassigned=0,
        wrong_release=0,
        fallbacks=0,
        one_sided_rooms=0,
        one_sided_digest=None,
        last_exposure={str(arm): now for arm in units},
        last_outcome=now,
        silent_rooms={str(arm): 0 for arm in units},
        skew_s=0.0,
        skew_source="none",
        unattributed=0,
    )
    bursts = {name: Burst(int(worst[rooms - 1]), window, 0.0) for name, worst in run.bursts.items()}
    strata = tuple(f"{share:g}/simulated" for share, _ in RAMP_SHARES)
    return Evidence(state, strata, canary, control, integrity, bursts | {"fallbacks": Burst(0, window, 0.0)})


def roll_out(run: Run, config: CanaryConfig, peeks: int = PEEKS) -> Decision:
    """Decide at evenly spaced times until a promotion, a rollback or the end; the last decision."""
    looks: tuple[float, ...] = ()
    decision = None
    for peek in range(1, peeks + 1):
        rooms = round(len(run.canary) * peek / peeks)
        if rooms < 2:
            continue
        decision = decide(evidence_at(run, rooms, looks, config.kill_events), config)
        if decision.look is not None:
            looks = (*looks, decision.look)
        if decision.verdict in (Verdict.PROMOTE, Verdict.ROLLBACK):
            break
    assert decision is not None
    return decision


def draw_shared_rooms(
    shop: Shop, rooms: int, rng: np.random.Generator, gmv_effect: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """GMV and viewers by room of canary and control when viewers are randomised within rooms: both share the room's
    level.
    """
    viewers = np.maximum(rng.poisson(shop.viewers * _lognormal(rng, shop.viewers_cv, rooms)), 2)
    level = _lognormal(rng, shop.room_cv, rooms)
    n_b = np.clip(rng.binomial(viewers, 0.5), 1, viewers - 1)
    arms = []
    for n in (n_b, viewers - n_b):
        orders = rng.binomial(n, np.minimum(shop.order_rate * level, 1.0))
        amounts = shop.amount * _lognormal(rng, shop.amount_cv, int(orders.sum()))
        arms.append((np.bincount(np.repeat(np.arange(rooms), orders), amounts, minlength=rooms), n.astype(float)))
    (y_b, m_b), (y_a, m_a) = arms
    return y_b * (1 + gmv_effect), m_b, y_a, m_a
