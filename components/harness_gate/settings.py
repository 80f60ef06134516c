"""Settings of the harness gate; the profile's `harness_gate` section."""

from typing import Literal

from components.avatar.harness.schema import Frozen


class Settings(Frozen):
    """When a merchant's edit leads to a new training run."""

    mode: Literal["always"] = "always"
    """always: retrain whatever the champion can do."""
