"""What a decision rests on: sums by room and arm, and counts about the data itself. Built from events, or simulated.

`Evidence` is a value: it goes into the ledger as it is, and `decide` sees nothing else.
"""

import json
from dataclasses import asdict, dataclass, fields, replace
from hashlib import sha256
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from components.canary_deploy.assignment import Arm

LATENCY_EDGES_MS = 10.0 * 1.07 ** np.arange(128)  # 10 ms to 54 s; a P95 is interpolated within bins 7% wide
LOG_LATENCY_EDGES = np.log(LATENCY_EDGES_MS)


class RampStep(BaseModel):
    """From `at` on, each arm takes `share` of all units."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    at: float = Field(ge=0)
    share: float = Field(gt=0, le=0.5)


class RolloutState(BaseModel):
    """What the controller and the router know and events do not say. Counters are cumulative and read at `now`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    rollout: str
    salt: str
    started: float = Field(ge=0)
    now: float = Field(ge=0)
    ramp: tuple[RampStep, ...] = Field(min_length=1)
    """Steps taken so far, oldest first."""
    canary_release: str
    champion_release: str
    canary_alias: str | None = None
    """Release digest that the registry's alias `canary` points to, read back now; None: not read."""
    champion_alias: str | None = None
    assigned: dict[Arm, int] = {}
    """Units that the router assigned to canary and control."""
    routed: dict[Arm, int] = {}
    """Replies that the router finished in each arm; as many exposures must arrive."""
    crashes: dict[Arm, int] = {}
    looks: tuple[float, ...] = ()
    """Information fractions of the looks taken before, from the ledger."""


@dataclass(frozen=True, eq=False)
class Rooms:
    """Cluster sums of one arm, one row a room (session), in order of `first_at`. All columns have length K.

    With viewers as units both arms have the same rooms in the same rows.
    """

    room: np.ndarray
    first_at: np.ndarray
    stratum: np.ndarray
    """Index of (ramp step, harness digest) at the room's first exposure."""
    viewers: np.ndarray
    gmv: np.ndarray
    orders: np.ndarray
    page_views: np.ndarray
    refunds: np.ndarray
    replies: np.ndarray
    slow: np.ndarray
    tool_errors: np.ndarray
    violations: np.ndarray
    quality: np.ndarray
    judged: np.ndarray
    covariate: np.ndarray
    """GMV per viewer of this room before the rollout; nan where unknown."""
    latency: np.ndarray
    """Replies at or below each of LATENCY_EDGES_MS, [K, 128]; the last column counts all."""

    def __len__(self) -> int:
        return len(self.room)

    def take(self, rows: np.ndarray | slice) -> "Rooms":
        """Some of the rooms."""
        return Rooms(*(getattr(self, name)[rows] for name in COLUMNS))


COLUMNS = tuple(column.name for column in fields(Rooms))
_SUMS = COLUMNS[3:-2]


@dataclass(frozen=True, slots=True)
class Burst:
    """The worst window of consecutive canary replies: `count` of `window` with a fault."""

    count: int
    window: int
    control_rate: float
    """Rate of the control: the worse of its whole history and its last `window` replies before the burst ended. 0 if
    it has none.
    """
    at: float | None = None


@dataclass(frozen=True)
class Integrity:
    """Counts about the data itself."""

    received: int
    quarantined: int
    reasons: dict[str, int]
    duplicates: int
    units: dict[str, int]
    """Units seen in each arm."""
    exposures: dict[str, int]
    """Exposure events of each arm."""
    in_both_arms: int
    misassigned: int
    """Units whose arm is not that of their hash at the ramp of the time."""
    wrong_release: int
    """Exposures answered by a release that their arm must not serve."""
    fallbacks: int
    """Canary replies that the champion had to answer (they stay in the canary's arm: intention to treat)."""
    one_sided_rooms: int
    """Most rooms in which a harness digest was seen in one arm, of those digests the other arm never saw."""
    one_sided_digest: str | None
    last_exposure: dict[str, float | None]
    last_outcome: float | None
    silent_rooms: dict[str, int]
    """By arm: rooms of the *other* arm that began after this arm's last exposure."""
    skew_s: float
    """Worst clock difference of a source, in either direction."""
    skew_source: str
    unattributed: int
    """Outcomes of rooms outside the comparison, or before or long after an exposure: normal, shown for a reader."""


@dataclass(frozen=True, eq=False)
class Evidence:
    state: RolloutState
    strata: tuple[str, ...]
    canary: Rooms
    control: Rooms
    integrity: Integrity
    bursts: dict[str, Burst]
    """Worst windows of `tool_errors`, `violations` and `fallbacks` (replies that the champion had to answer)."""

    @property
    def rooms(self) -> float:
        """Rooms of one arm, harmonic mean: what the variance of the comparison scales with."""
        b, a = len(self.canary), len(self.control)
        return 2 * b * a / (b + a) if b and a else 0.0

    def with_state(self, **changes: object) -> "Evidence":
        """The same evidence under a changed controller state (validated)."""
        return replace(self, state=RolloutState.model_validate({**self.state.model_dump(), **changes}))

    def to_json(self) -> dict:
        """Plain JSON data; `from_json` gives it back bit by bit."""
        return {
            "state": self.state.model_dump(mode="json"),
            "strata": list(self.strata),
            "canary": _rooms_to_json(self.canary),
            "control": _rooms_to_json(self.control),
            "integrity": asdict(self.integrity),
            "bursts": {name: asdict(burst) for name, burst in self.bursts.items()},
        }

    @classmethod
    def from_json(cls, data: dict) -> Self:
        return cls(
            state=RolloutState.model_validate(data["state"]),
            strata=tuple(data["strata"]),
            canary=_rooms_from_json(data["canary"]),
            control=_rooms_from_json(data["control"]),
            integrity=Integrity(**data["integrity"]),
            bursts={name: Burst(**burst) for name, burst in data["bursts"].items()},
        )

    def digest(self) -> str:
        """sha256 of the JSON form: equal evidence, equal digest."""
        return sha256(json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _rooms_to_json(rooms: Rooms) -> dict:
    data: dict = {"room": rooms.room.tolist(), "first_at": rooms.first_at.tolist(), "stratum": rooms.stratum.tolist()}
    for name in _SUMS:
        column = getattr(rooms, name)
        data[name] = column.tolist() if name in ("gmv", "quality") else column.astype(int).tolist()
    data["covariate"] = [None if np.isnan(value) else value for value in rooms.covariate.tolist()]
    counts = np.diff(rooms.latency, axis=1, prepend=0)  # sparse: a room's replies fall into few bins
    data["latency"] = [{str(at): int(row[at]) for at in np.flatnonzero(row)} for row in counts]
    return data


def _rooms_from_json(data: dict) -> Rooms:
    counts = np.zeros((len(data["room"]), len(LATENCY_EDGES_MS)), dtype=np.int64)
    for row, bins in zip(counts, data["latency"], strict=True):
        for at, count in bins.items():
            row[int(at)] = count
    return Rooms(
        room=np.array(data["room"], dtype=object),
        first_at=np.array(data["first_at"], dtype=float),
        stratum=np.array(data["stratum"], dtype=np.int64),
        **{name: np.array(data[name], dtype=float) for name in _SUMS},
        covariate=np.array([np.nan if value is None else value for value in data["covariate"]], dtype=float),
        latency=np.cumsum(counts, axis=1),
    )
