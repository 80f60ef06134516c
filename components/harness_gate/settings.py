"""Settings of the harness gate; the profile's `harness_gate` section."""

from typing import Literal

from pydantic import Field

from components.avatar.harness.schema import Frozen


class Settings(Frozen):
    """When a merchant's edit leads to a new training run."""

    mode: Literal["always", "measure"] = "always"
    """always: retrain whatever the champion can do. measure: retrain only if the champion's quality on the edited
    harness falls below `min_quality`."""
    cases: int = Field(default=120, ge=1)
    """Test cases that the champion plays; the standard error of a quality near 0.9 is then about 0.03."""
    min_quality: float = Field(default=0.85, ge=0, le=1)
    decoding: Literal["free", "constrained"] = "constrained"
    """The decoding that is served."""
    batch_size: int = Field(default=32, ge=1)
    max_new_tokens: int = Field(default=64, ge=8)
    max_context: int = Field(default=1536, ge=256)
