"""Settings of data validation; the profile's `data_validation` section."""

from pydantic import Field

from components.avatar.harness.schema import Family, Frozen


class Settings(Frozen):
    """Limits that the training data must keep. `families` empty: every family of the merchant's question log, outages
    included when a trajectory has one."""

    min_trajectories: int = Field(default=100, ge=1)
    min_examples: int = Field(default=100, ge=1)  # in each arm
    families: tuple[Family, ...] = ()
    min_per_family: int = Field(default=5, ge=1)  # questions
    max_family_share: float = Field(default=0.4, gt=0, le=1)  # a warning beyond it
    max_retry_share: float = Field(default=0.3, ge=0, le=1)  # trajectories with a mistake; a warning beyond it
    max_example_tokens: int = Field(default=1024, ge=64)
    max_tokens_per_arm: int = Field(default=250_000, ge=1)
    min_augmented_share: float = Field(default=0.5, ge=0, le=1)  # hsa rows whose harness is not the merchant's own
    min_variants: int = Field(default=2, ge=1)  # different harnesses in the hsa arm
    min_axis_share: float = Field(default=0.05, ge=0, le=1)  # of the hsa rows; a warning below it
    max_token_imbalance: float = Field(default=0.35, ge=0)  # |hsa - fixed| / fixed, tokens; a warning beyond it
    min_script_share: float = Field(
        default=0.9, ge=0, le=1
    )  # letters of a row that belong to the script of the merchant's language
    general_prompts: int = Field(default=4096, ge=1)
    """Prompts of each split that are checked. The sampler is sequential: these contain the fewer ones that distillation
    and evaluation draw with the same seed."""
    max_prompt_tokens: int = Field(default=128, ge=16)  # of a general prompt, roles included
    min_unique_prompts: float = Field(default=0.8, ge=0, le=1)  # share of different texts
