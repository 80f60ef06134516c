"""The one episode loop: teacher, RL, evaluation and canary all run this.

An episode is a sequence of ids that only ever grows: prompt, agent turn, observation, agent turn, ... Ids are carried,
never re-tokenised, so what a trainer sees is exactly what the model saw and wrote.

Limits, in the order in which they end an episode: the session's own (calls, retries), then the context. A turn that is
cut at `actor.max_new_tokens` counts as malformed; its missing closing token is added as the environment's, not the
agent's.

Errors: whatever the agent does is data. A `SystemFault` of the actor ends the episodes it was acting for unscored; a
backend that fails `MAX_FAILURES` times running is down, and the fault is raised.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from components.avatar.agent.chat import Chat
from components.avatar.agent.parser import CALL_START, ParsedCall, ParsedMalformed, ParsedReply, parse
from components.avatar.agent.types import EpisodeResult, Generation, Segment
from components.avatar.errors import SystemFault
from components.avatar.harness.schema import Harness, content_digest
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import Observation, StopReason

MAX_FAILURES = 3
_OBSERVATION_KINDS: dict[str, Literal["tool", "correction", "viewer"]] = {
    "tool": "tool",
    "system": "correction",
    "user": "viewer",
}


@dataclass(frozen=True)
class Start:
    """Where an episode starts: a scenario under a state of the harness."""

    harness: Harness
    scenario: Scenario


@dataclass
class EpisodeState:
    """A running episode as an actor sees it. `ids` is the prompt of the next turn; `seed` differs for every turn."""

    session: Session
    ids: list[int]
    prompt_ids: tuple[int, ...]
    seed: int
    segments: list[Segment] = field(default_factory=list)
    parse: dict[str, int] = field(default_factory=lambda: {"strict": 0, "repaired": 0, "failed": 0})
    shown_digest: str = ""  # the harness that the agent has seen last
    first_digest: str = ""
    seconds: float = 0.0
    stop: StopReason | None = None
    error: str | None = None

    @property
    def harness(self) -> Harness:
        """The harness of this moment: the names that a call may use."""
        return self.session.harness

    def append(self, segment: Segment) -> None:
        self.segments.append(segment)
        self.ids.extend(segment.ids)


class Actor(Protocol):
    """Decides the next turn of each episode: a model, the oracle or a scripted policy."""

    max_new_tokens: int

    def act(self, states: list[EpisodeState]) -> list[Generation]:
        """One generation a state. Raises SystemFault when our own side fails."""
        ...


def run_episodes(
    starts: Sequence[Start],
    actor: Actor,
    chat: Chat,
    catalogue: Catalogue,
    *,
    max_context: int = 2048,
    concurrent: int = 64,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[EpisodeResult]:
    """Run every start to its end; results stand in the order of `starts`.

    `concurrent` episodes are live at a time and take their turns together, so that a model client can batch them and
    keep their caches. `max_context` bounds prompt and episode in tokens. `on_progress(done, total)` is called when
    episodes end.
    """
    waiting: Iterator[int] = iter(range(len(starts)))
    live: dict[int, EpisodeState] = {}
    results: dict[int, EpisodeResult] = {}
    failures = 0
    while True:
        while len(live) < concurrent and (index := next(waiting, None)) is not None:
            live[index] = _begin(starts[index], chat, catalogue, seed=_mix(seed, index))
        if not live:
            return [results[index] for index in range(len(starts))]
        for state in live.values():
            if len(state.ids) + actor.max_new_tokens > max_context:
                state.stop = StopReason.CONTEXT_FULL
        acting = [state for state in live.values() if state.stop is None]
        try:
            generations = actor.act(acting) if acting else []
            failures = 0
        except SystemFault as fault:
            failures += 1
            if failures >= MAX_FAILURES:
                raise
            generations = []
            for state in acting:
                state.stop, state.error = StopReason.SYSTEM_FAULT, str(fault)
        if generations:
            for state, generation in zip(acting, generations, strict=True):
                _step(state, generation, chat)
        ended = [index for index, state in live.items() if state.stop is not None]
        for index in ended:
            results[index] = _finish(live.pop(index), starts[index])
        if ended and on_progress:
            on_progress(len(results), len(starts))


def _begin(start: Start, chat: Chat, catalogue: Catalogue, *, seed: int) -> EpisodeState:
    session = Session(start.harness, catalogue, start.scenario)
    first = session.begin()
    prompt = chat.prompt_ids(session.harness, first.content)
    shown = session.harness.digest
    return EpisodeState(session, list(prompt), tuple(prompt), seed, shown_digest=shown, first_digest=shown)


def _step(state: EpisodeState, generation: Generation, chat: Chat) -> None:
    """Apply one agent turn to the session and append what the agent sees next."""
    ids = generation.ids
    assert ids and len(generation.logprobs) in (0, len(ids)), (
        "a generation has ids, and one log-probability for each or none"
    )
    closed = ids[-1] == chat.end_id
    assert closed == (generation.finish == "stop"), "finish and the closing token agree"
    special = chat.special_ids.intersection(ids[:-1] if closed else ids)

    parsed = parse(generation.text)
    if special:
        parsed = ParsedMalformed("special token inside the turn")
    elif not closed:
        parsed = ParsedMalformed("the turn was too long")
    _count(state.parse, parsed, generation.text)

    kind: Literal["call", "reply", "malformed"]
    match parsed:
        case ParsedCall(name, arguments):
            kind, observation = "call", state.session.call(name, arguments)
        case ParsedReply(text):
            kind, observation = "reply", state.session.reply(text)
        case ParsedMalformed(reason):
            kind, observation = "malformed", state.session.malformed(reason)
    state.append(Segment("agent", kind, ids, generation.text, generation.logprobs))
    state.seconds += generation.seconds
    state.seed = _mix(state.seed, len(state.segments))
    if observation.done:
        state.stop = state.session.stop
        assert state.stop is not None, "a session that is done says why"
        return
    state.append(_observed(state, observation, chat, closed=closed))


def _observed(state: EpisodeState, observation: Observation, chat: Chat, *, closed: bool) -> Segment:
    changed = state.harness if state.harness.digest != state.shown_digest else None
    state.shown_digest = state.harness.digest
    ids = chat.observation_ids(observation, changed)
    if not closed:
        ids = [chat.end_id, *ids]
    return Segment("environment", _OBSERVATION_KINDS[observation.role], tuple(ids), observation.content)


def _count(counts: dict[str, int], parsed: ParsedCall | ParsedReply | ParsedMalformed, text: str) -> None:
    if isinstance(parsed, ParsedCall):
        counts["repaired" if parsed.repaired else "strict"] += 1
    elif isinstance(parsed, ParsedMalformed) and CALL_START in text:
        counts["failed"] += 1


def _finish(state: EpisodeState, start: Start) -> EpisodeResult:
    assert state.stop is not None
    result = EpisodeResult(
        scenario_id=start.scenario.id,
        harness_digest=state.first_digest,
        prompt_ids=state.prompt_ids,
        segments=tuple(state.segments),
        calls=tuple(state.session.calls),
        replies=tuple(state.session.replies),
        score=None if state.stop is StopReason.SYSTEM_FAULT else state.session.score(),
        stop=state.stop,
        parse=dict(state.parse),
        corrections=state.session.corrections,
        faults=state.session.faults,
        seconds=state.seconds,
        error=state.error,
    )
    assert [*result.prompt_ids, *result.completion_ids] == state.ids, "an episode's ids are its prompt and its segments"
    return result


def _mix(seed: int, step: int) -> int:
    """A new 63-bit seed from a seed and a step; no two turns of a run share their random numbers."""
    return int(content_digest([seed, step]), 16) >> 1
