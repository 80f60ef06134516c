"""Settings of general on-policy distillation."""

from typing import Literal

from pydantic import Field

from components.avatar.harness.schema import Frozen


class Settings(Frozen):
    """The student samples answers to general prompts; the model from before SFT grades every token."""

    tuning: Literal["full", "lora"] = "full"
    lora_rank: int = Field(default=16, ge=1)
    prompts: int = Field(default=128, ge=0)
    """0 skips the stage: the model folder is passed on as it is."""
    prompts_per_step: int = Field(default=8, ge=1)
    prompts_per_batch: int = Field(default=8, ge=1)
    max_new_tokens: int = Field(default=64, ge=1)
    learning_rate: float = Field(default=1e-5, gt=0)
    """hat-method.md: 2e-5 good, 4e-5 worse in one report on a larger student."""
    temperature: float = Field(default=1.0, gt=0)
