"""Settings of evaluation."""

from typing import Literal

from pydantic import Field

from components.avatar.harness.schema import Family, Frozen

Decoding = Literal["free", "constrained"]


class Settings(Frozen):
    """Sizes of the suites. T1 and T2 are the same `cases` under two kinds of harness."""

    cases: int = Field(default=200, ge=1)
    robustness_cases: int = Field(default=60, ge=0)
    pass_cases: int = Field(default=0, ge=0)
    """Cases of T2 that are played under two more held-out harness states: `pass3` is the share solved under all three
    (pass^3 of tau-bench, with harness states in the place of trials)."""
    general_prompts: int = Field(default=120, ge=0)
    latency_cases: int = Field(default=12, ge=0)
    """Episodes answered one at a time, for the latency of a single viewer's turn."""
    decodings: tuple[Decoding, ...] = ("free", "constrained")
    batch_size: int = Field(default=32, ge=1)
    max_new_tokens: int = Field(default=64, ge=8)
    """Tokens of one agent turn."""
    general_new_tokens: int = Field(default=80, ge=8)
    max_context: int = Field(default=1536, ge=256)
    strength: float = Field(default=1.0, ge=0, le=1)
    """Strength of the held-out perturbation of T2."""
    families: tuple[Family, ...] = ()
    """Families of the questions, in equal shares; empty: all that the merchant's log and the verifiers know."""
