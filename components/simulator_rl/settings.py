"""Settings of reinforcement learning in the simulator."""

from typing import Literal

from pydantic import Field, model_validator

from components.avatar.harness.schema import Family, Frozen


class RewardWeights(Frozen):
    """Weights of the normalised rewards (GDPO sums them after normalising each within its group)."""

    accuracy: float = 1.0
    effectiveness: float = 1.0
    tool_rationality: float = 0.5
    skill_selection: float = 0.5
    brevity: float = 0.1
    """Reward is minus the length penalty."""


class Settings(Frozen):
    """GRPO with per-reward normalisation (GDPO) and sequence-level importance sampling (GSPO)."""

    tuning: Literal["full", "lora"] = "full"
    lora_rank: int = Field(default=16, ge=1)
    steps: int = Field(default=8, ge=0)
    """Optimizer steps; 0 skips the stage."""
    groups_per_step: int = Field(default=4, ge=1)
    """Scenarios sampled for one rollout batch."""
    group_size: int = Field(default=6, ge=2)
    """Episodes of each scenario, under one harness state: the group that a reward is normalised in."""
    episodes_per_batch: int = Field(default=4, ge=1)
    iterations: int = Field(default=2, ge=1)
    """Updates on one rollout batch: with a single one the importance ratio is exactly 1 and clipping is inert."""
    learning_rate: float = Field(default=2e-6, gt=0)
    temperature: float = Field(default=1.0, gt=0)
    clip: float = Field(default=3e-3, gt=0)
    """Range of the sequence-level ratio; GSPO's paper uses 3e-4 to 4e-4 on long answers, short episodes need more."""
    beta: float = Field(default=0.0, ge=0)
    original_share: float = Field(default=0.3, ge=0, le=1)
    """Share of groups under the merchant's own harness; the others get a fresh augmented state."""
    strength: float = Field(default=0.7, ge=0, le=1)
    fault_rate: float = Field(default=0.4, ge=0, le=1)
    varied_share: float = Field(default=0.8, ge=0, le=1)
    mistyped_share: float = Field(default=0.2, ge=0, le=1)
    """Both as in teacher_generation."""
    max_new_tokens: int = Field(default=64, ge=8)
    """Tokens of one agent turn."""
    max_context: int = Field(default=1536, ge=256)
    families: tuple[Family, ...] = ()
    """Families of the questions, in equal shares; empty: all that the merchant's log and the verifiers know."""
    reward_weights: RewardWeights = RewardWeights()

    @model_validator(mode="after")
    def _whole_batches(self) -> "Settings":
        episodes = self.groups_per_step * self.group_size
        if episodes % self.episodes_per_batch:
            raise ValueError(
                f"episodes_per_batch {self.episodes_per_batch} must divide the {episodes} episodes of a step"
            )
        return self
