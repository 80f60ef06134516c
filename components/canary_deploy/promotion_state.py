"""What the promotion controller knows: the sum of its ledger, so that a restart forgets nothing.

| entry | written | means |
|---|---|---|
| `adopted` | at first sight, and when a pipeline promoted | `champion` is the version that we expect |
| `left` | when a pipeline has alias `canary` on a version | its rollout is not ours to start |
| `refused` | after the version was marked | alias `canary` on this version starts nothing |
| `started` | before the rollout's first process; again after a restart | a rollout runs |
| `withdrawn` | alias `canary` was taken away under a rollout | the rollout is to stop |
| `ended` | by the rollout | its outcome and verdict |
| `moving`, `moved` | before and after we move `champion` | what lies between is ours, whatever a timeout hid |
| `published` | after MLflow's run and version tell the outcome | |
| `released` | alias `canary` is on no version, or on another one | the version that had it may be started again |
| `frozen` | somebody else moved `champion` | nothing is started, promoted or rolled back by us |
| `acknowledged` | a person accepts it | `champion` is adopted as it stands |
| `cleared` | a person allows a rolled-back release again | |
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from components.canary_deploy.ledger import Entry


@dataclass(frozen=True)
class Running:
    """A rollout that has begun. `attempt` counts its starts: a controller that died starts it anew."""

    rollout: str
    version: str
    champion: str
    release: str
    run_id: str
    attempt: int = 1
    withdrawn: str = ""
    """Why it is to stop; "" while it may go on."""


@dataclass(frozen=True)
class Ended:
    """A rollout that MLflow does not tell the outcome of yet. `verdict` is "" unless `outcome` is `finished`."""

    running: Running
    outcome: str
    """`finished`, `withdrawn` or `failed`."""
    verdict: str
    why: str
    folder: str


@dataclass(frozen=True)
class Move:
    """`champion` is being moved by us; `before` is the version that had it."""

    version: str
    before: str


@dataclass(frozen=True)
class Frozen:
    """Somebody else moved `champion` to `found` ("": to no version)."""

    found: str
    why: str
    at: float


@dataclass(frozen=True)
class Known:
    """`champion`: the version that we expect to bear the alias ("": none), None before the first sight.
    `canary`: the version whose alias was dealt with ("": none)."""

    champion: str | None = None
    canary: str = ""
    running: Running | None = None
    ended: Ended | None = None
    promote: str = ""
    """The version that a rollout decided to promote and that is not champion yet."""
    moving: Move | None = None
    frozen: Frozen | None = None
    latched: dict[str, str] = field(default_factory=dict)
    """Release digest -> why it was rolled back, until a person clears it."""
    rollouts: int = 0
    """Rollouts begun so far."""
    left: frozenset[str] = frozenset()
    """Rollouts of pipelines whose alias `canary` we have seen: set again, it is a person's."""
    adopted: frozenset[str] = frozenset()
    """Rollouts of pipelines whose promotion we have seen: it explains one move of `champion`, not a later one."""


def known_from(entries: Iterable[Entry]) -> Known:
    """The state that a ledger's entries add up to; kinds of other ledgers are passed over."""
    known = Known()
    for entry in entries:
        known = _add(known, entry)
    return known


def _add(known: Known, entry: Entry) -> Known:
    body = entry.body
    match entry.kind:
        case "adopted":
            return replace(known, champion=body["champion"], adopted=(known.adopted | {body.get("rollout", "")}) - {""})
        case "left":
            return replace(known, canary=body["version"], left=known.left | {body["rollout"]})
        case "acknowledged":
            return replace(known, champion=body["champion"], frozen=None)
        case "refused":
            return replace(known, canary=body["version"])
        case "started":
            running = Running(**body["running"])
            first = known.running is None
            return replace(known, canary=running.version, running=running, rollouts=known.rollouts + first)
        case "withdrawn":
            return replace(known, running=known.running and replace(known.running, withdrawn=body["why"]))
        case "ended":
            ended = Ended(running=Running(**body["running"]), **body["ended"])
            latched = dict(known.latched)
            if ended.verdict == "rollback":
                latched[ended.running.release] = ended.why
            promote = ended.running.version if ended.verdict == "promote" and not known.frozen else ""
            return replace(known, running=None, ended=ended, promote=promote, latched=latched)
        case "moving":
            return replace(known, moving=Move(body["version"], body["before"]))
        case "moved":
            return replace(known, champion=body["version"], moving=None, promote="")
        case "published":
            return replace(known, ended=None)
        case "released":
            return replace(known, canary="")
        case "frozen":
            frozen = Frozen(body["found"], body["why"], entry.at)
            return replace(known, frozen=frozen, promote="", moving=None)
        case "cleared":
            return replace(known, latched={k: v for k, v in known.latched.items() if k != body["canary_release"]})
        case _:
            return known
