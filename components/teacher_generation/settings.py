"""Settings of teacher generation; the profile's `teacher_generation` section."""

from typing import Literal

from pydantic import Field, field_validator

from components.avatar.harness.schema import Family, Frozen


class Settings(Frozen):
    """How many training episodes the teacher plays, on what, and which of its solutions are kept.

    `families` weighs the families of the questions; empty means that every family of the merchant's question log
    weighs the same. `outage` is no weight but `outage_rate`. Rates and shares are fractions of the episodes.
    """

    episodes: int = Field(default=600, ge=1)
    families: dict[Family, float] = Field(default_factory=dict)
    questions_per_episode: dict[int, float] = Field(
        default_factory=lambda: {1: 0.7, 2: 0.3}
    )  # number of questions -> weight
    fault_rate: float = Field(default=0.1, ge=0, le=1)  # one transient fault of a needed tool
    outage_rate: float = Field(default=0.08, ge=0, le=1)  # the needed fact cannot be had at all
    retry_share: float = Field(default=0.08, ge=0, le=1)  # the paper keeps "a few" full hook retries; the share is ours
    min_accepted: float = Field(
        default=0.5, ge=0, le=1
    )  # below this acceptance rate the run stops: teacher and simulator disagree
    teacher: Literal["oracle"] = "oracle"

    @field_validator("families")
    @classmethod
    def _weights(cls, value: dict[Family, float]) -> dict[Family, float]:
        if any(weight < 0 for weight in value.values()) or (value and not sum(value.values())):
            raise ValueError("weights are >= 0 and not all 0")
        if Family.OUTAGE in value:
            raise ValueError("outages are set by outage_rate")
        return value

    @field_validator("questions_per_episode")
    @classmethod
    def _counts(cls, value: dict[int, float]) -> dict[int, float]:
        if not value or min(value) < 1 or min(value.values()) < 0 or not sum(value.values()):
            raise ValueError("maps a number of questions >= 1 to a weight >= 0, not all 0")
        return value
