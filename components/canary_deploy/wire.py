"""What crosses HTTP between viewers, router and agent services."""

from pydantic import Field

from components.avatar.harness.schema import Frozen
from components.avatar.simulator.scenario import Question, StreamEvent, ToolFault
from components.canary_deploy.assignment import Arm

Name = Field(min_length=1, max_length=200)


class StreamContext(Frozen):
    """State of the stream when the message arrives. A real stream fills `on_air`; the rest is the simulator's."""

    question: Question | None = None
    """What the message really asks, for the verifier only (the agent never sees it). None: the reply is not judged."""
    faults: tuple[ToolFault, ...] = ()
    events: tuple[StreamEvent, ...] = ()
    """Changes of stream and harness up to now (`at_s` 0): the turn starts under their result."""
    on_air: int | None = None
    seed: int = 0


class TurnRequest(Frozen):
    """One message of one viewer. Each turn is an episode of its own: viewers of a room ask independent questions."""

    session: str = Name
    """Room session: one live stream from its start to its end."""
    room: str = Name
    viewer: str = Name
    message: str = Field(min_length=1, max_length=2000)
    reply_id: str | None = Field(default=None, min_length=1, max_length=180)
    """Unique; made by the router where the client has none."""
    at: float | None = Field(default=None, ge=0)
    """Seconds of the events' clock. Required under a simulated clock, else the router's own clock is used."""
    context: StreamContext = StreamContext()


class TurnReply(Frozen):
    """What an agent service answers."""

    reply: str
    """Empty when the agent ended the turn without a reply (`stop` says why)."""
    stop: str
    release_digest: str
    harness_digest: str
    """Of the state of the harness under which the turn started."""
    tool_errors: int
    """Calls that failed or could not be parsed."""
    violations: int
    """Rules of the harness (hooks) that the final reply still breaks."""
    quality: float | None
    """(accuracy + effectiveness) / 2 by the verifier; None: not judged."""
    accuracy: float | None
    """1: every stated fact is true and every asked fact is there. None: not judged."""
    false_claims: int
    service_ms: float
    """From arrival at the service to the reply, waiting for the batch included. Of a reused reply: that of its
    generation."""
    reused: bool = False
    """The same question under the same state was answered before; greedy decoding would give the same reply again."""


class RoutedReply(Frozen):
    """What the router answers: the arm's reply and how it came about."""

    reply_id: str
    arm: Arm
    """Intention to treat: stays `canary` when the champion had to answer."""
    fallback: bool
    latency_ms: float
    """Measured at the router; a reused reply counts the generation that it reuses."""
    answer: TurnReply
