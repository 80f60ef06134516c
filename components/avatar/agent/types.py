"""Records of the episode loop."""

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from components.avatar.harness.schema import Harness
from components.avatar.simulator.types import CallRecord, Reply, Score, StopReason


@dataclass(frozen=True)
class Generation:
    """One sampled agent turn. `ids` include the closing `<|im_end|>` if it was sampled; `logprobs` has the same
    length (or is empty).

    `finish`: stop = `<|im_end|>` was sampled, length = cut at the limit.
    """

    ids: tuple[int, ...]
    text: str
    finish: Literal["stop", "length"]
    logprobs: tuple[float, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Segment:
    """A stretch of the episode's ids. Agent segments are trained on; observation segments are not.

    `kind`: call, reply or malformed for the agent; tool, correction or viewer for observations.
    """

    author: Literal["agent", "environment"]
    kind: Literal["call", "reply", "malformed", "tool", "correction", "viewer"]
    ids: tuple[int, ...]
    text: str
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True)
class EpisodeResult:
    """One finished episode. `prompt_ids` then all segments' ids, in order, are exactly what the model saw and wrote."""

    scenario_id: str
    harness_digest: str
    prompt_ids: tuple[int, ...]
    segments: tuple[Segment, ...]
    calls: tuple[CallRecord, ...]
    replies: tuple[Reply, ...]
    score: Score | None  # None when stop is system_fault
    stop: StopReason
    parse: dict[str, int] = field(default_factory=dict)  # strict, repaired, failed: counts of attempted calls
    corrections: int = 0
    faults: int = 0
    seconds: float = 0.0  # wall time of generation
    error: str | None = None

    @property
    def completion_ids(self) -> list[int]:
        return [token for segment in self.segments for token in segment.ids]

    @property
    def agent_mask(self) -> list[int]:
        """1 for the agent's own tokens, 0 for the environment's; same length as `completion_ids`."""
        return [int(segment.author == "agent") for segment in self.segments for _ in segment.ids]


class ModelClient(Protocol):
    """Anything that can continue a batch of token sequences (transformers in process, vLLM over HTTP)."""

    def generate(
        self,
        prompts: list[list[int]],
        harnesses: list[Harness],
        *,
        max_new_tokens: int,
        temperature: float,
        seeds: list[int] | None = None,
    ) -> list[Generation]:
        """One generation a prompt. `harnesses[i]` is the state that constrained decoding limits prompt i to.
        temperature 0 is greedy.

        Raises SystemFault when the backend fails."""
        ...


Message = dict[str, Any]  # {"role", "content"}; agent messages hold the raw text of the turn, calls included
