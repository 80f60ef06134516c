"""The traffic split and who is served by which arm. No HTTP here: the router serves it, a controller changes it.

The interface is that of a Kubernetes object: read it with its version, write it with the version that was read, get a
conflict when somebody else was faster, read it back. So a controller can drive another router (a gateway, a KServe
resource) by the same three steps.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import Field

from components.avatar.harness.schema import Frozen
from components.canary_deploy.assignment import Arm, assign
from components.canary_deploy.config import Unit

Server = Literal["champion", "canary"]


class Phase(StrEnum):
    RAMP = "ramp"
    """Canary and concurrent control each take `share` of the units."""
    PROMOTED = "promoted"
    """Every new session is served by the canary's release; running ones end where they are."""
    ROLLED_BACK = "rolled_back"
    """Kill: the champion serves everyone at once, running sessions included."""


class Traffic(Frozen):
    """The split as it is. `version` grows with every change."""

    version: int = Field(default=1, ge=1)
    phase: Phase = Phase.RAMP
    share: float = Field(default=0.0, ge=0, le=0.5)


class TrafficChange(Frozen):
    """A wanted split. `version` is the one that the writer read."""

    version: int = Field(ge=1)
    phase: Phase
    share: float = Field(ge=0, le=0.5)


class Conflict(Exception):
    """The split was changed since it was read: read it again."""


class Refused(Exception):
    """A change that would move viewers between arms or revive a finished rollout."""


def change(now: Traffic, wanted: TrafficChange) -> Traffic:
    """The next split.

    Raises:
        Conflict: `wanted.version` is not the current one.
        Refused: the ramp shrinks (units would flip from canary to champion; to stop a canary, roll back), or the
        rollout is over.
    """
    if wanted.version != now.version:
        raise Conflict(f"version is {now.version}, the change was made for version {wanted.version}")
    if now.phase is not Phase.RAMP and wanted.phase is not now.phase:
        raise Refused(f"the rollout is {now.phase}; a new attempt is a new rollout")
    if wanted.share < now.share:
        raise Refused(f"share {wanted.share:g} is below {now.share:g}: a ramp only grows")
    return Traffic(version=now.version + 1, phase=wanted.phase, share=wanted.share)


@dataclass(frozen=True)
class Route:
    """Where a turn goes, and the arm in which it counts."""

    unit: str
    arm: Arm
    server: Server


@dataclass
class RoutingTable:
    """Sticky routes. A unit keeps the arm of its first turn; counters are cumulative.

    Args:
        rollout, salt: names of the rollout and of its hash.
        unit: what is randomised.
    """

    rollout: str
    salt: str
    unit: Unit
    traffic: Traffic = field(default_factory=Traffic)
    pinned: dict[str, tuple[Arm, Server]] = field(default_factory=dict)
    assigned: dict[Arm, int] = field(default_factory=lambda: dict.fromkeys(Arm, 0))
    """Units by arm."""
    routed: dict[Arm, int] = field(default_factory=lambda: dict.fromkeys(Arm, 0))
    """Finished replies by arm."""

    def unit_of(self, session: str, room: str, viewer: str) -> str:
        return session if self.unit is Unit.ROOM_SESSION else f"{room}/{viewer}"

    def route(self, session: str, room: str, viewer: str) -> Route:
        """The route of a turn; assigns the unit when this is its first."""
        unit = self.unit_of(session, room, viewer)
        if unit not in self.pinned:
            self._pin(unit, *self._first(unit))
        arm, server = self.pinned[unit]
        return Route(unit, arm, "champion" if self.traffic.phase is Phase.ROLLED_BACK else server)

    def restore(self, unit: str, arm: Arm) -> None:
        """Take up a unit and one reply of it from the event log, after a restart."""
        self.routed[arm] += 1
        if unit not in self.pinned and (arm is not Arm.OUTSIDE or self.traffic.phase is not Phase.PROMOTED):
            self._pin(unit, arm, "canary" if arm is Arm.CANARY else "champion")

    def _first(self, unit: str) -> tuple[Arm, Server]:
        if self.traffic.phase is not Phase.RAMP:  # nothing is compared any more
            return Arm.OUTSIDE, "canary" if self.traffic.phase is Phase.PROMOTED else "champion"
        arm = assign(unit, self.salt, self.traffic.share)
        return arm, "canary" if arm is Arm.CANARY else "champion"

    def _pin(self, unit: str, arm: Arm, server: Server) -> None:
        self.pinned[unit] = arm, server
        self.assigned[arm] += 1
