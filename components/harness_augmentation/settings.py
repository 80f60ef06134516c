"""Settings of harness augmentation; the profile's `harness_augmentation` section."""

from pydantic import Field, model_validator

from components.avatar.harness.schema import Frozen


class Settings(Frozen):
    """How examples are made of trajectories for the two training arms.

    Strength grows linearly from `strength_start` to `strength_end` over the rows of the hsa arm (a curriculum when
    training reads them in order). The paper gives no augmentation probabilities; these defaults are ours.
    """

    variants_per_trajectory: int = Field(default=1, ge=1)  # the fixed arm repeats its example as often
    trajectories_per_variant: int = Field(
        default=1, ge=1
    )  # neighbours that share one variant, so that SFT can share their prefix
    original_share: float = Field(default=0.1, ge=0, le=1)  # rows of the hsa arm that keep the merchant's own harness
    strength_start: float = Field(default=0.3, ge=0, le=1)
    strength_end: float = Field(default=1.0, ge=0, le=1)
    unneeded_start: float = Field(default=1, ge=0, le=1)
    """Share of the tools and skills that no question of the row needs which a variant keeps at the start; it grows
    linearly to 1. Fewer make the choice easier and the prompt shorter."""
    operators: tuple[str, ...] = ()  # names of components.avatar.harness.operators; empty: all of them
    attempts: int = Field(
        default=4, ge=1
    )  # fresh variants tried for one row before its trajectory is left out of both arms
    max_tokens_per_arm: int = Field(default=250_000, ge=1)
    max_example_tokens: int = Field(default=1024, ge=64)  # longer: rejected, never cut

    @model_validator(mode="after")
    def _rising(self) -> "Settings":
        if self.strength_end < self.strength_start:
            raise ValueError("strength_end is at least strength_start")
        return self
