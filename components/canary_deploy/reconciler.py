"""What is to be done next, from what the registry shows and what the controller knows. Pure.

Level-triggered: a webhook only says "look now", and a look at an interval makes up for a lost one. The same state
gives the same action however often it is looked at, so deliveries may be lost, doubled or late. What is done and undone
between two looks is not seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.canary_deploy.promotion_state import Known

STATE, WHY, VERDICT = "canary.state", "canary.why", "canary.verdict"
ROLLOUT, RUN, BY = "canary.rollout", "canary.run", "canary.by"
"""Tags of a model version, to be read in the UI. `canary.state` is running, waiting, refused, finished, failed or
withdrawn; `canary.by` names who runs the rollout."""
FROZEN = "promotion.frozen"
"""Tag of the registered model, of the version that `champion` was moved to, and of the run."""
ACKNOWLEDGE = "promotion.acknowledge"
"""Tag that a person sets on the registered model in the UI: their name, which lifts the freeze."""
CONTROLLER, PIPELINE = "promote-watch", "pipeline"
MAX_ATTEMPTS = 3


@dataclass(frozen=True)
class Version:
    """A version of the registered model; `status` is MLflow's (READY when it can be served)."""

    number: str
    status: str = "READY"
    run_id: str = ""
    model_id: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """The registry at one moment."""

    champion: Version | None = None
    canary: Version | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    """Of the registered model."""


@dataclass(frozen=True)
class Adopt:
    """Expect `champion` where it stands; `rollout` of a pipeline has brought it there ("": none has)."""

    champion: str
    why: str
    rollout: str = ""


@dataclass(frozen=True)
class Freeze:
    found: str
    why: str


@dataclass(frozen=True)
class Acknowledge:
    champion: str
    by: str


@dataclass(frozen=True)
class Say:
    """Write or delete (`why` is "") the freeze where a person sees it."""

    why: str


@dataclass(frozen=True)
class Moved:
    """Our own move of `champion` has arrived."""

    version: str


@dataclass(frozen=True)
class Promote:
    version: str
    before: str


@dataclass(frozen=True)
class Withdraw:
    """Stop the rollout: its alias is gone."""

    why: str


@dataclass(frozen=True)
class Resume:
    """Start the rollout of a controller that died anew."""


@dataclass(frozen=True)
class Close:
    """End a rollout that has no thread any more."""

    outcome: str
    why: str


@dataclass(frozen=True)
class Publish:
    """Tell the outcome of the last rollout in MLflow."""


@dataclass(frozen=True)
class Release:
    """Forget the version that had the alias `canary`."""

    version: str


@dataclass(frozen=True)
class Leave:
    """Remember that a pipeline has the alias `canary` on a version."""

    version: str
    rollout: str


@dataclass(frozen=True)
class Wait:
    """Say on a version why its canary does not start yet."""

    version: Version
    why: str


@dataclass(frozen=True)
class Consider:
    """Start the canary of a version, if it may; else refuse it."""

    version: Version
    champion: Version | None


Action = (
    Adopt | Freeze | Acknowledge | Say | Moved | Promote | Withdraw | Resume | Close | Publish | Release | Leave
    | Wait | Consider
)  # fmt: skip


def next_action(known: Known, seen: Seen, alive: str = "") -> Action | None:
    """The next thing to do, None when all is well. `alive` is the rollout whose thread runs in this process."""
    return _champion(known, seen) or _rollout(known, seen, alive) or _canary(known, seen)


def _champion(known: Known, seen: Seen) -> Action | None:
    """Is `champion` where we expect it, and does everybody know if it is not?"""
    champion = seen.champion.number if seen.champion else ""
    frozen = known.frozen
    if frozen and seen.tags.get(ACKNOWLEDGE):
        return Acknowledge(champion, seen.tags[ACKNOWLEDGE])
    if known.champion is None:
        return Adopt(champion, "first sight", seen.champion.tags.get(ROLLOUT, "") if seen.champion else "")
    if not frozen and known.moving and champion == known.moving.version:
        return Moved(champion)
    expected = frozen.found if frozen else known.champion
    if champion != expected:
        if not frozen and expected == "":
            return Adopt(champion, "there was no champion")
        if not frozen and known.running is None and seen.champion and _promoted_by_pipeline(known, seen.champion):
            rollout = seen.champion.tags.get(ROLLOUT, "")
            return Adopt(champion, f"promoted by a {PIPELINE}: rollout {rollout}", rollout)
        return Freeze(champion, _moved_by_hand(known, champion))
    wanted = frozen.why if frozen else ""
    if seen.tags.get(FROZEN, "") != wanted or (ACKNOWLEDGE in seen.tags and not frozen):
        return Say(wanted)
    if known.promote and not frozen:
        return Promote(known.promote, champion)
    return None


def _rollout(known: Known, seen: Seen, alive: str) -> Action | None:
    """Does the running rollout still have its alias and its thread? Is the last outcome told?"""
    running = known.running
    if running is None:
        return Publish() if known.ended and not known.moving else None
    why = _lost(known, seen)
    if why and not running.withdrawn:
        return Withdraw(why)
    if alive == running.rollout:
        return None
    if running.withdrawn:
        return Close("withdrawn", running.withdrawn)
    if running.attempt >= MAX_ATTEMPTS:
        return Close("failed", f"the controller ended {MAX_ATTEMPTS} times during this rollout")
    return None if known.frozen else Resume()


def _lost(known: Known, seen: Seen) -> str:
    """Why the running rollout has nothing to decide any more; "" if it has."""
    running = known.running
    canary = seen.canary.number if seen.canary else ""
    if running is None:
        return ""
    if canary != running.version:
        now = f"is on version {canary}" if canary else "was removed"
        return f"alias canary {now}; the rollout of version {running.version} stops"
    if not known.frozen and known.champion != running.champion:
        return f"champion is version {known.champion or 'none'} now, this rollout compares with {running.champion}"
    return ""


def _canary(known: Known, seen: Seen) -> Action | None:
    """Does the alias `canary` ask for a rollout?"""
    canary = seen.canary
    if known.canary and (canary is None or canary.number != known.canary) and known.running is None:
        return Release(known.canary)
    if canary is None or canary.number == known.canary:
        return None
    if canary.tags.get(BY) == PIPELINE and canary.tags.get(STATE) in ("running", "finished"):
        if canary.tags.get(ROLLOUT, "") not in known.left:
            return Leave(canary.number, canary.tags.get(ROLLOUT, ""))
        if canary.tags.get(STATE) == "running":
            return None
    why = ""
    if known.running is not None:
        why = f"the rollout of version {known.running.version} runs; one at a time"
    elif known.frozen:
        why = f"frozen: {known.frozen.why}"
    if not why:
        return Consider(canary, seen.champion)
    if (canary.tags.get(STATE), canary.tags.get(WHY)) != ("waiting", why):
        return Wait(canary, why)
    return None


def _promoted_by_pipeline(known: Known, version: Version) -> bool:
    """A pipeline promotes what it has just registered, once; an older champion comes back by hand."""
    new = int(version.number) > int(known.champion or 0) and version.tags.get(ROLLOUT, "") not in known.adopted
    return new and version.tags.get(BY) == PIPELINE and version.tags.get(VERDICT) == "promote"


def _moved_by_hand(known: Known, champion: str) -> str:
    if champion == known.champion:
        place = "was moved away and back"
    else:
        place = f"was moved to version {champion}" if champion else "was removed"
    expected = f"version {known.champion}" if known.champion else "no version"
    during = f", during the rollout of version {known.running.version}" if known.running else ""
    return (
        f"alias champion {place} by hand ({expected} was expected){during}; nothing is started, promoted or rolled "
        f"back until a person acknowledges it: tag {ACKNOWLEDGE} on the registered model, or `acknowledge`"
    )
