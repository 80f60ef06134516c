"""Settings of supervised fine-tuning."""

from typing import Literal, Self

from pydantic import Field, model_validator

from components.avatar.harness.schema import Frozen


class Settings(Frozen):
    """Both arms (fixed and hsa) train with the same settings: equal examples, equal steps."""

    tuning: Literal["full", "lora"] = "full"
    """On a CPU LoRA saves memory, not time (training-facts), so `local` trains all weights."""
    lora_rank: int = Field(default=16, ge=1)
    frozen_layers: int = Field(default=0, ge=0)
    """Lowest decoder layers that keep their weights, with the embeddings below them (and a head tied to these): the
    backward pass ends above them. Only for `tuning` full."""
    learning_rate: float = Field(default=2e-4, gt=0)
    """2e-4 solved the trial task on this base model with full fine-tuning."""
    warmup_ratio: float = Field(default=0.05, ge=0, lt=1)
    decay_ratio: float = Field(default=0.15, ge=0, lt=1)
    """Share of the steps at the end over which the learning rate falls to 0; it is constant before. A cosine would
    give the last third of the curriculum, its hardest harnesses, 6% of the learning rate."""
    decision_weight: float = Field(default=5.0, ge=1)
    """Weight in the loss of the tokens of a call's values and of a reply's facts (weights.py)."""
    epochs: int = Field(default=1, ge=1)
    rows_per_step: int = Field(default=4, ge=1)
    """Rows whose gradients are summed for one optimizer step."""
    rows_per_batch: int = Field(default=1, ge=1)
    """Rows of one forward pass; rows differ in length, so a large batch pays for padding."""
    max_row_tokens: int = Field(default=1280, ge=64)
    max_branches: int = Field(default=8, ge=1)
    """Conversations that share one harness prefix in a row (see packing.py)."""
    general_tokens: int = Field(default=0, ge=0)
    """Tokens of general replay beside the domain examples (replay.py); 0: none."""
    general_samples: int = Field(default=2, ge=1)
    """Answers that the base model gives to a general prompt; the best one is replayed."""
    general_new_tokens: int = Field(default=96, ge=1)

    @model_validator(mode="after")
    def _frozen_layers_belong_to_full(self) -> Self:
        if self.frozen_layers and self.tuning != "full":
            raise ValueError(f"frozen_layers needs tuning full, found {self.tuning}")
        return self
