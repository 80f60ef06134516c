"""Settings of a rollout's statistics and decision: the `canary` section of a profile. Frozen, so that a ledger can
name them.
"""

import itertools
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from components.canary_deploy.sequential import BURN_IN_ROOMS, PLANNED_LOOKS

DAY_S = 86_400.0


class Unit(StrEnum):
    ROOM_SESSION = "room_session"
    """The whole room hears the avatar, so the room session is randomised; the arms have different rooms."""
    VIEWER_IN_ROOM = "viewer_in_room"
    """Private text replies: viewers are randomised within a room; the arms share the rooms."""


class Mode(StrEnum):
    SUPERIOR = "superior"
    """Promote when GMV is shown to be higher."""
    NON_INFERIOR = "non_inferior"
    """Promote when GMV is shown to be not lower than its margin."""


class Margins(BaseModel):
    """How much worse the canary may be before it counts as harm. Relative for gmv and latency_p95; absolute for the
    rates.

    The defaults are a start for a shop with a few thousand replies an arm; a rollout that lacks the rooms for them
    ends in hold.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    gmv: float = Field(default=0.05, gt=0, lt=1)
    """GMV per viewer, relative (rollout-facts)."""
    refund_rate: float = Field(default=0.02, gt=0, lt=1)
    """Refunds per order."""
    slow_share: float = Field(default=0.02, gt=0, lt=1)
    """Share of replies slower than `slo_ms`."""
    latency_p95: float = Field(default=0.10, gt=0)
    """95th percentile of reply latency, relative."""
    tool_error_rate: float = Field(default=0.01, gt=0, lt=1)
    """Share of replies with a tool error."""
    quality: float = Field(default=0.02, gt=0, lt=1)
    """Mean quality of the replies that were judged."""
    violation_rate: float = Field(default=0.005, gt=0, lt=1)
    """Share of replies with a policy violation."""


class CanaryConfig(BaseModel):
    """All times in seconds of the events' clock, which a simulation may compress."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: Unit = Unit.ROOM_SESSION
    mode: Mode = Mode.NON_INFERIOR
    margins: Margins = Margins()
    currency: str = Field(default="CNY", pattern="^[A-Z]{3}$")
    """GMV is counted in one currency; an event in another one is quarantined."""
    slo_ms: float = Field(default=2000, gt=0)
    """A reply slower than this is slow."""
    use_covariates: bool = True
    """CUPED on GMV when rooms come with their history."""

    ramp: tuple[float, ...] = (0.01, 0.05, 0.2, 0.5)
    """Share of all units that each arm takes, step by step; the controller goes on while the verdict is `continue`."""
    planned_rooms: int = Field(default=400, ge=30)
    """Rooms of one arm at full information; `plan` computes it."""
    looks: tuple[float, ...] = PLANNED_LOOKS
    """Fractions of `planned_rooms` at which promotion is considered."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Two-sided level of all promotion looks together."""
    guardrail_alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """Level of all guardrails' confidence sequences together; each gets an equal part."""
    burn_in_rooms: int = Field(default=BURN_IN_ROOMS, ge=2)
    """Rooms of each arm before a confidence sequence is read."""

    min_duration_s: float = Field(default=2 * DAY_S, ge=0)
    """No promotion earlier: novelty, and weekday against weekend."""
    budget_s: float = Field(default=14 * DAY_S, gt=0)
    """Then the last look is taken, and without promotion the rollout holds."""
    deadline_s: float = Field(default=21 * DAY_S, gt=0)
    """Then it rolls back, whatever it waits for."""

    exposure_stale_s: float = Field(default=900, gt=0)
    outcome_stale_s: float = Field(default=3600, gt=0)
    max_skew_s: float = Field(default=300, gt=0)
    """Clock difference between an event's source and its receiver."""
    attribution_s: float = Field(default=7 * DAY_S, gt=0)
    """An outcome later than this after the unit's first exposure is not the avatar's."""
    max_quarantined: float = Field(default=0.001, ge=0, lt=1)
    max_in_both_arms: float = Field(default=0.001, ge=0, lt=1)
    max_misassigned: float = Field(default=0.001, ge=0, lt=1)
    min_coverage: float = Field(default=0.98, gt=0, le=1)
    """Share of what the router counted that must have arrived as events, an arm."""
    max_coverage: float = Field(default=1.01, ge=1)
    """More events than the router counted: its counter froze or was reset."""
    srm_alarm: float = Field(default=1000, gt=1)
    """Bayes factor for a wrong split."""
    one_sided_rooms: int = Field(default=12, ge=5)
    """A harness digest seen in this many rooms of one arm and none of the other: the arms read different harnesses."""
    silent_rooms: int = Field(default=10, ge=3)
    """New rooms of the control since the canary's last reply that show the canary to be dead, not merely unlucky."""

    kill_events: int = Field(default=20, ge=5)
    """Window of canary replies for the absolute kill rules."""
    kill_alpha: float = Field(default=1e-8, gt=0, lt=0.01)
    """Chance of a kill in one window at the tolerated rate; tiny, because there are thousands of windows."""
    kill_tool_error_rate: float = Field(default=0.05, gt=0, lt=1)
    """Tolerated rate within a window (or the control's own, if higher)."""
    kill_violation_rate: float = Field(default=0.01, gt=0, lt=1)
    kill_fallback_rate: float = Field(default=0.05, gt=0, lt=1)
    """Tolerated share of canary replies that the champion had to answer."""
    max_crashes: int = Field(default=0, ge=0)
    """Canary processes that died; one more rolls back."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        steps = (0.0, *self.looks)
        if not self.looks or any(b <= a for a, b in itertools.pairwise(steps)) or self.looks[-1] != 1.0:
            raise ValueError(f"looks: found {self.looks}; allowed: increasing fractions that end at 1.0")
        shares = (0.0, *self.ramp)
        if not self.ramp or any(b <= a for a, b in itertools.pairwise(shares)) or self.ramp[-1] > 0.5:
            raise ValueError(f"ramp: found {self.ramp}; allowed: increasing shares of at most 0.5")
        if not self.min_duration_s <= self.budget_s <= self.deadline_s:
            raise ValueError(
                f"found min_duration_s {self.min_duration_s}, budget_s {self.budget_s}, deadline_s {self.deadline_s}; "
                "allowed: min_duration_s <= budget_s <= deadline_s"
            )
        return self
