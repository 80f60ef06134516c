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
    max_example_tokens: int = Field(default=1024, ge=64)
    max_tokens_per_arm: int = Field(default=250_000, ge=1)
    min_augmented_share: float = Field(default=0.5, ge=0, le=1)  # hsa rows whose harness is not the merchant's own
    max_token_imbalance: float = Field(default=0.35, ge=0)  # |hsa - fixed| / fixed, tokens; a warning beyond it
    min_script_share: float = Field(
        default=0.9, ge=0, le=1
    )  # letters of a row that belong to the script of the merchant's language
