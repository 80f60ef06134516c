"""Settings of the canary step: a rollout in compressed time on this machine. The defaults are those of profile
`local`."""

from typing import Literal, Self

from pydantic import Field, model_validator

from components.avatar.harness.schema import Frozen
from components.canary_deploy.config import DAY_S, CanaryConfig, Margins


def compressed() -> CanaryConfig:
    """Decision settings that about 65 rooms an arm can answer.

    A real rollout has thousands of rooms and the margins of `Margins`; with 65 those would always end in hold. GMV per
    viewer varies by 0.56 between the simulated rooms (measured), so at a margin of 25% an equal model is promoted with
    a power of about 80% (`plan`). Rooms lie two hours apart, so "silent" is counted in days. The service level is that
    of a 135M model on two shared CPU cores.
    """
    return CanaryConfig(
        margins=Margins(
            gmv=0.25,
            refund_rate=0.04,
            slow_share=0.1,
            latency_p95=0.5,
            tool_error_rate=0.05,
            quality=0.08,
            violation_rate=0.05,
        ),
        slo_ms=15_000,
        ramp=(0.1, 0.3, 0.5),
        planned_rooms=65,
        exposure_stale_s=3 * DAY_S,
        outcome_stale_s=3 * DAY_S,
    )


class Settings(Frozen):
    """Sizes of the live rollout. Simulated time runs as fast as the rooms can be played: `canary.budget_s` from first
    to last room."""

    canary: CanaryConfig = Field(default_factory=compressed)
    """A profile that states any of it gets `CanaryConfig`'s defaults for the rest, those of a real rollout."""
    rooms: int = Field(default=170, ge=10)
    """Room sessions of the whole rollout, both arms and those outside of the comparison."""
    viewers_per_room: float = Field(default=300, ge=1)
    ask_share: float = Field(default=0.04, gt=0, le=1)
    """Share of viewers who write to the avatar."""
    buyer_rate: float = Field(default=0.05, ge=0.005, le=0.10)
    """Share of viewers who buy: between the usual 2% and the 8-12% of top sellers, so that few rooms say something."""
    live_replies: int = Field(default=48, ge=2)
    """Distinct questions that each arm really answers; rooms that repeat one get the same reply again (decoding is
    greedy)."""
    fault_rate: float = Field(default=0.1, ge=0, le=1)
    """Share of those questions during which a tool fails once."""
    edit_at: float | None = Field(default=0.25, gt=0, lt=1)
    """After this share of the rooms the merchant edits the harness under the running services (the harness edits of
    its events.jsonl). None: no edit."""
    rooms_a_decision: int = Field(default=25, ge=1)
    """Rooms between two decisions; each ramp step lasts at least as long."""
    concurrent_rooms: int = Field(default=16, ge=1)
    """Rooms played at the same time: the load on the services."""

    decoding: Literal["free", "constrained"] = "constrained"
    max_new_tokens: int = Field(default=64, ge=8)
    max_context: int = Field(default=1536, ge=256)
    batch_size: int = Field(default=16, ge=1)
    ready_timeout_s: float = Field(default=180, gt=0)
    turn_timeout_s: float = Field(default=120, gt=0)
    """Then the router asks the champion instead. Long: on a laptop both arms and everything else share two cores."""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if self.edit_at is not None and self.live_replies < 4:
            raise ValueError(
                f"live_replies: found {self.live_replies}; allowed: 4 or more when the harness is edited (edit_at)"
            )
        return self
