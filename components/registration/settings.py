"""Settings of registration: the limits that a new model must keep to become the challenger."""

from typing import Literal

from pydantic import Field

from components.avatar.harness.schema import Frozen


class Settings(Frozen):
    """Gates judge the candidate `hat`. A limit of null switches its gate off; `gates.py` says how each is judged."""

    decoding: Literal["free", "constrained"] = "free"
    """Which decoding's figures are judged: the one that will be served."""
    confidence: float = Field(default=0.95, ge=0.5, lt=1)
    """One-sided confidence of the bounds that T1, T2 and the lead are judged by."""
    min_t1: float | None = Field(default=0.5, ge=0, le=1)
    """Least T1 quality (lower bound)."""
    min_t2: float | None = Field(default=0.4, ge=0, le=1)
    """Least T2 quality (lower bound)."""
    max_gap: float | None = Field(default=0.2, ge=-1, le=1)
    """Largest T1 - T2 (upper end of the paired interval)."""
    min_t2_lead: float | None = Field(default=0.05, ge=-1, le=1)
    """Least lead in T2 (lower bound) over the evaluated champion, else the fixed-harness baseline, else the base
    model.
    """
    max_general_drop: float | None = Field(default=0.1, ge=-1, le=1)
    """Largest loss in the general score against the base model (point estimate)."""
    verify_tokens: int = Field(default=24, ge=1)
    """Tokens that the trained and the registered folder must generate alike for each of the prompts of verify.py."""
    inline_limit_mib: int = Field(default=8, ge=1)
    """Files up to this size also stand in MLflow; larger ones only in the store."""
    server_arguments: tuple[str, ...] = ()
    """Arguments that the model server is started with: part of the release digest."""
