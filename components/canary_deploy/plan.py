"""How many rooms and days a rollout needs, before it starts. An experiment that cannot answer must not begin."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log, sqrt

from components.avatar.errors import Fault, InputError
from components.canary_deploy.config import DAY_S, CanaryConfig, Mode, Unit
from components.canary_deploy.sequential import required_drift

COMMAND_LINE = "plan"  # where a fault says the number came from


@dataclass(frozen=True)
class Plan:
    """A rollout that can be decided."""

    rooms: int
    """Of one arm: `CanaryConfig.planned_rooms`."""
    days: float
    """Until the last look, ramp included."""
    look_days: tuple[float, ...]
    """When each planned look comes."""
    margin_money: float
    """The margin (or effect) in money per viewer."""
    effect: float
    """Relative effect that is found with `power`: the margin in `non_inferior`, the gain in `superior`."""

    def to_text(self, config: CanaryConfig) -> str:
        looks = ", ".join(
            f"{fraction:.0%} on day {day:.1f}" for fraction, day in zip(config.looks, self.look_days, strict=True)
        )
        what = "loss excluded" if config.mode is Mode.NON_INFERIOR else "gain found"
        return (
            f"rooms per arm: {self.rooms} (planned_rooms)\n"
            f"days:          {self.days:.1f}, ramp included (budget {config.budget_s / DAY_S:g})\n"
            f"looks:         {looks}\n"
            f"{what}: {self.effect:.1%} of GMV per viewer, {self.margin_money:.2f} {config.currency}"
        )


def rooms_needed(cv: float, effect: float, power: float, config: CanaryConfig, cuped_r: float = 0.0) -> int:
    """Rooms of one arm: drift^2 (2 CV^2 (1 - r^2)) / ln(1 +- effect)^2 with the drift of the group-sequential design.

    Args:
        cv: standard deviation of a room's GMV per viewer divided by its mean; with viewers as units, the standard
            deviation of the room's paired difference divided by the mean (then without the factor 2).
        effect: margin (`non_inferior`; the canary is taken to be equal) or gain (`superior`), relative.
        cuped_r: correlation of a room's GMV per viewer with its history, if CUPED is used.
    """
    distance = -log(1 - effect) if config.mode is Mode.NON_INFERIOR else log(1 + effect)
    arms = 1 if config.unit is Unit.VIEWER_IN_ROOM else 2
    drift = required_drift(power, config.looks, config.alpha)
    return max(2 * config.burn_in_rooms, ceil(drift**2 * arms * cv**2 * (1 - cuped_r**2) / distance**2))


def days_until(rooms: float, rooms_per_day: float, ramp: tuple[float, ...], step_days: float, unit: Unit) -> float:
    """Days until an arm has `rooms` rooms while the ramp grows one step every `step_days` and then stays at its last
    step.

    With viewers as units every room counts for both arms from the first step on (at low shares with few viewers an
    arm, so the variation given to `plan` must be that of the last step).
    """
    collected, day = 0.0, 0.0
    for share in ramp[:-1]:
        rate = rooms_per_day * (share if unit is Unit.ROOM_SESSION else 1.0)
        if collected + rate * step_days >= rooms:
            return day + (rooms - collected) / rate
        collected, day = collected + rate * step_days, day + step_days
    return day + (rooms - collected) / (rooms_per_day * (ramp[-1] if unit is Unit.ROOM_SESSION else 1.0))


def plan(
    baseline: float,
    cv: float,
    rooms_per_day: float,
    config: CanaryConfig,
    power: float = 0.8,
    gain: float = 0.1,
    cuped_r: float = 0.0,
    step_days: float = 1.0,
) -> Plan:
    """Plan a rollout.

    Args:
        baseline: GMV per viewer of the champion, in the rollout's currency.
        cv: variation between rooms, see `rooms_needed`.
        rooms_per_day: room sessions of all participating merchants (holdout excluded).
        config: mode, margin, looks, levels, budget.
        power: chance of a promotion of an equal model (`non_inferior`) or of one with the given `gain` (`superior`).
        gain: relative effect to be found in `superior` mode.

    Raises:
        InputError: a number is impossible, or the rollout cannot be decided within its budget (the fault says what
            would do).
    """
    faults = [
        Fault(COMMAND_LINE, name, f"{value:g}", allowed)
        for name, value, fine, allowed in (
            ("baseline", baseline, baseline > 0, "above 0"),
            ("cv", cv, cv > 0, "above 0"),
            ("rooms_per_day", rooms_per_day, rooms_per_day > 0, "above 0"),
            ("power", power, 0.05 < power < 0.999, "between 0.05 and 0.999"),
            ("gain", gain, gain > 0, "above 0"),
            ("cuped_r", cuped_r, -1 < cuped_r < 1, "between -1 and 1"),
            ("step_days", step_days, step_days >= 0, "0 or more"),
        )
        if not fine
    ]
    if faults:
        raise InputError(faults)
    effect = config.margins.gmv if config.mode is Mode.NON_INFERIOR else gain
    rooms = rooms_needed(cv, effect, power, config, cuped_r)
    when = [days_until(rooms * look, rooms_per_day, config.ramp, step_days, config.unit) for look in config.looks]
    days = max(when[-1], config.min_duration_s / DAY_S)
    budget = config.budget_s / DAY_S
    if days > budget:
        raise InputError([_refusal(rooms, days, budget, cv, rooms_per_day, config, power, cuped_r, step_days)])
    return Plan(rooms, days, tuple(when), baseline * effect, effect)


def _refusal(
    rooms: int,
    days: float,
    budget: float,
    cv: float,
    rooms_per_day: float,
    config: CanaryConfig,
    power: float,
    cuped_r: float,
    step_days: float,
) -> Fault:
    """The fault of a rollout that is too long, with what its budget could decide instead."""

    def fits(effect: float, traffic: float) -> bool:
        needed = rooms_needed(cv, effect, power, config, cuped_r)
        return days_until(needed, traffic, config.ramp, step_days, config.unit) <= budget

    within = _smallest(lambda value: fits(value, rooms_per_day), 0.001, 0.95)
    traffic = _smallest(lambda value: days_until(rooms, value, config.ramp, step_days, config.unit) <= budget, 0.1, 1e7)
    name = "margin" if config.mode is Mode.NON_INFERIOR else "gain"
    instead = [f"{name} of {within:.1%}"] if within else []
    instead += [f"the {name} asked for with {ceil(traffic)} rooms a day"] if traffic else []
    return Fault(
        COMMAND_LINE,
        "budget_s",
        f"{rooms} rooms per arm take {days:.1f} days with {rooms_per_day:g} rooms a day",
        f"at most {budget:g} days; they would decide: {', or '.join(instead) or 'nothing (the ramp alone is longer)'}",
    )


def _smallest(fits: Callable[[float], bool], low: float, high: float) -> float | None:
    """Smallest value in [low, high] that fits, if fitting is monotone (bisection on a log scale); None: not even
    `high`.
    """
    if not fits(high):
        return None
    for _ in range(60):
        middle = sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high
