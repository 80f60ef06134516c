"""Settings of teacher generation; the profile's `teacher_generation` section."""

from decimal import Decimal
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from components.avatar.harness.schema import Family, Frozen


class Endpoint(Frozen):
    """An OpenAI-compatible server: `POST <url>/chat/completions`. The key itself never stands in a settings file."""

    url: str = Field(pattern=r"^https?://[^\s@?#]+$")  # with its path, e.g. https://host/v1; no user, no query
    model: str = Field(min_length=1)
    key_file: str | None = None
    """File that holds the key, or the folder where a Kubernetes secret of one key is mounted; None: no key needed."""
    max_tokens: int = Field(default=1024, ge=1)  # of one answer, thinking included
    temperature: float = Field(default=0.7, ge=0, le=2)
    timeout_s: float = Field(default=120, gt=0)  # for one whole answer
    retries: int = Field(default=5, ge=0)  # further tries of a request after 429, 5xx, a cut connection or garbage
    backoff_s: float = Field(default=1.0, ge=0)  # before the first of them; doubles, up to a minute
    prompt_price: Decimal = Field(default=Decimal(0), ge=0)  # of a million prompt tokens, in any one currency
    completion_price: Decimal = Field(default=Decimal(0), ge=0)
    body: dict[str, Any] = Field(default_factory=dict)
    """Further fields of each request, e.g. `{chat_template_kwargs: {enable_thinking: false}}`."""

    @model_validator(mode="before")
    @classmethod
    def _no_key(cls, value: Any) -> Any:
        """A key put here by mistake is refused as an unknown field, but its value must not be shown."""
        if not isinstance(value, dict):
            return value
        return {name: item if name in cls.model_fields else "(not shown)" for name, item in value.items()}


class EndpointTeacher(Endpoint):
    """How the endpoint plays. The paper gives neither share nor attempts; these defaults are ours."""

    concurrency: int = Field(default=8, ge=1, le=512)  # scenarios played at a time, one request each
    augmented_share: float = Field(default=0.3, ge=0, le=1)  # of the episodes: played under a variant of the harness
    attempts: int = Field(default=4, ge=1)  # at one scenario, until one is accepted (rejection sampling)

    @model_validator(mode="after")
    def _attempts_differ(self) -> "EndpointTeacher":
        if self.attempts > 1 and self.temperature == 0:
            raise ValueError("more than one attempt needs a temperature above 0")
        return self


class Settings(Frozen):
    """How many training episodes the teacher plays, on what, and which of its solutions are kept.

    `families` weighs the families of the questions; empty means that every family of the merchant's question log
    weighs the same. `outage` is no weight but `outage_rate`. Rates and shares are fractions of the episodes.
    """

    episodes: int = Field(default=600, ge=1)
    families: dict[Family, float] = Field(default_factory=dict)
    questions_per_episode: dict[int, float] = Field(
        default_factory=lambda: {1: 0.7, 2: 0.3}
    )  # number of questions -> weight
    fault_rate: float = Field(default=0.1, ge=0, le=1)  # one transient fault of a needed tool
    varied_share: float = Field(default=0.8, ge=0, le=1)
    """Episodes whose products have fresh facts: what stands still in the catalogue would be learned by heart."""
    mistyped_share: float = Field(default=0.2, ge=0, le=1)  # questions with a slip of the keyboard
    outage_rate: float = Field(default=0.08, ge=0, le=1)  # the needed fact cannot be had at all
    misstep_share: float = Field(default=0.1, ge=0, le=1)
    """Trajectories with a wrong call that no hook catches (another skill or tool, a misspelt name) and its repair."""
    retry_share: float = Field(default=0.08, ge=0, le=1)  # the paper keeps "a few" full hook retries; the share is ours
    min_accepted: float = Field(
        default=0.5, ge=0, le=1
    )  # below this acceptance rate the run stops: teacher and simulator disagree
    teacher: Literal["oracle", "endpoint"] = "oracle"
    endpoint: EndpointTeacher | None = None
    judges: tuple[Endpoint, ...] = ()
    """None, or three models that vote on the replies of an endpoint's episode once the verifiers accept it."""

    @field_validator("families")
    @classmethod
    def _weights(cls, value: dict[Family, float]) -> dict[Family, float]:
        if any(weight < 0 for weight in value.values()) or (value and not sum(value.values())):
            raise ValueError("weights are >= 0 and not all 0")
        if Family.OUTAGE in value:
            raise ValueError("outages are set by outage_rate")
        return value

    @field_validator("questions_per_episode")
    @classmethod
    def _counts(cls, value: dict[int, float]) -> dict[int, float]:
        if not value or min(value) < 1 or min(value.values()) < 0 or not sum(value.values()):
            raise ValueError("maps a number of questions >= 1 to a weight >= 0, not all 0")
        return value

    @model_validator(mode="after")
    def _teacher_is_there(self) -> "Settings":
        if self.teacher == "endpoint" and self.endpoint is None:
            raise ValueError("teacher endpoint needs an endpoint section")
        if self.judges and self.teacher == "oracle":
            raise ValueError("judges vote on an endpoint's replies; the oracle's need none")
        if len(self.judges) not in (0, 3) or len({judge.model for judge in self.judges}) != len(self.judges):
            raise ValueError("judges are none or three different models")
        return self
