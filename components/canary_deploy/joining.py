"""Events -> evidence: which unit, arm and room an event belongs to, and the sums by room.

Join rules (`research/rollout-facts.md`, DESIGN "Events"):
* An exposure belongs to the arm in which its unit was first seen (intention to treat); a unit seen in both arms is
  counted.
* An outcome belongs to the last session of its room (or, with viewers as units, to its viewer) that was exposed
  before it, within `attribution_s`. A refund follows the viewer's last order before it, however late it comes.
* GMV counts orders as sold; refunds are a guardrail of their own, so that a late refund cannot rewrite a look already
  taken.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from components.canary_deploy.assignment import Arm, assign
from components.canary_deploy.config import CanaryConfig, Unit
from components.canary_deploy.events import LAG_WINDOW, EventLog, Exposure, Outcome
from components.canary_deploy.evidence import LATENCY_EDGES_MS, Burst, Evidence, Integrity, RolloutState, Rooms

ARMS = (Arm.CANARY, Arm.CONTROL)
FUTURE_EVENTS = 3  # so many events from the future show a clock; one shows a broken client


@dataclass
class _Unit:
    arm: Arm
    room: str
    cluster: str
    first_at: float
    ramp: int
    harness: str
    viewers: set[str] = field(default_factory=set)
    gmv: float = 0.0
    orders: int = 0
    refunds: int = 0
    page_views: int = 0


def build_evidence(
    log: EventLog, state: RolloutState, config: CanaryConfig, covariates: Mapping[str, float] | None = None
) -> Evidence:
    """Join the events of a rollout and sum them by room.

    Args:
        log: events received so far. Only the set matters, not the order in which they came.
        state: what the controller and the router know, read at the same moment.
        covariates: GMV per viewer of a room (session) before the rollout, by `room`; used for CUPED.
    """
    exposures = sorted((e for e in log.exposures.values() if e.arm is not Arm.OUTSIDE), key=lambda e: (e.at, e.id))
    outcomes = sorted(log.outcomes.values(), key=lambda e: (e.at, e.id))
    units, seen_in = _units(exposures, state, config.unit)
    unattributed = _attribute(outcomes, units, config)

    names = sorted({(unit.ramp, unit.harness) for unit in units.values()})
    stratum = {name: index for index, name in enumerate(names)}
    tables = _tables(exposures, units, stratum, config, covariates or {})
    fallback = _fallback(state)
    flags = {
        "tool_errors": lambda event: event.tool_errors > 0,
        "violations": lambda event: event.violations > 0,
        "fallbacks": fallback,
    }
    both = sum(len(arms) > 1 for arms in seen_in.values())
    return Evidence(
        state=state,
        strata=tuple(f"{state.ramp[step].share:g}/{harness}" for step, harness in names),
        canary=tables[Arm.CANARY],
        control=tables[Arm.CONTROL],
        integrity=_integrity(log, exposures, outcomes, units, both, unattributed, state),
        bursts={name: _burst(exposures, flag, config.kill_events) for name, flag in flags.items()},
    )


def _fallback(state: RolloutState) -> Callable[[Exposure], bool]:
    """Whether the champion answered for the canary. Never in an A/A rollout, where both are one release."""
    champion, aa_test = state.champion_release, state.canary_release == state.champion_release
    return lambda event: not aa_test and event.arm is Arm.CANARY and event.release_digest == champion


def _ramp_index(state: RolloutState, at: float) -> int:
    index = 0
    for number, step in enumerate(state.ramp):
        if step.at <= at:
            index = number
    return index


def _units(
    exposures: Sequence[Exposure], state: RolloutState, kind: Unit
) -> tuple[dict[str, _Unit], dict[str, set[Arm]]]:
    units: dict[str, _Unit] = {}
    seen_in: dict[str, set[Arm]] = defaultdict(set)
    for event in exposures:
        unit = units.get(event.unit)
        if unit is None:
            cluster = event.unit if kind is Unit.ROOM_SESSION else event.room
            ramp = _ramp_index(state, event.at)
            unit = units[event.unit] = _Unit(event.arm, event.room, cluster, event.at, ramp, event.harness_digest)
        unit.viewers.add(event.viewer)
        seen_in[event.unit].add(event.arm)
    return units, seen_in


def _attribute(outcomes: Sequence[Outcome], units: dict[str, _Unit], config: CanaryConfig) -> int:
    """Add outcomes to their units; the number that belongs to none."""
    by_viewer = config.unit is Unit.VIEWER_IN_ROOM
    sessions: dict[object, list[tuple[float, str]]] = defaultdict(list)
    for name, unit in units.items():
        if by_viewer:
            for viewer in unit.viewers:
                sessions[unit.room, viewer].append((unit.first_at, name))
        else:
            sessions[unit.room].append((unit.first_at, name))
    for entries in sessions.values():
        entries.sort()
    ordered: dict[tuple[str, str], str] = {}
    missed = 0
    for event in outcomes:  # in order of time, so that a refund finds the last order before it
        person = (event.room, event.viewer)
        if event.event == "refund" and person in ordered:
            units[ordered[person]].refunds += 1
            continue
        entries = sessions.get(person if by_viewer else event.room)
        position = bisect_right(entries, (event.at, "\uffff")) - 1 if entries else -1
        if not entries or position < 0 or event.at - entries[position][0] > config.attribution_s:
            missed += 1
            continue
        unit = units[entries[position][1]]
        if event.event == "order":
            unit.orders += 1
            unit.gmv += float(event.amount or 0)
            ordered[person] = entries[position][1]
        elif event.event == "page_view":
            unit.page_views += 1
        elif event.event == "refund":
            unit.refunds += 1
        elif event.event == "watch" and not by_viewer:
            unit.viewers.add(event.viewer)  # heard the avatar without asking anything
    return missed


def _tables(
    exposures: Sequence[Exposure],
    units: dict[str, _Unit],
    stratum: dict[tuple[int, str], int],
    config: CanaryConfig,
    covariates: Mapping[str, float],
) -> dict[Arm, Rooms]:
    clusters: dict[Arm, dict[str, int]] = {arm: {} for arm in ARMS}
    first: dict[str, _Unit] = {}
    for unit in sorted(units.values(), key=lambda unit: (unit.first_at, unit.cluster)):
        first.setdefault(unit.cluster, unit)
        targets = ARMS if config.unit is Unit.VIEWER_IN_ROOM else (unit.arm,)
        for arm in targets:
            clusters[arm].setdefault(unit.cluster, len(clusters[arm]))
    rows_by_arm: dict[Arm, list[int]] = {arm: [] for arm in ARMS}
    values: dict[Arm, list[tuple[float, int, int, float, int]]] = {arm: [] for arm in ARMS}
    for event in exposures:
        unit = units[event.unit]
        rows_by_arm[unit.arm].append(clusters[unit.arm][unit.cluster])
        judged = event.quality is not None
        values[unit.arm].append(
            (event.latency_ms, event.tool_errors > 0, event.violations > 0, event.quality or 0.0, judged)
        )
    tables = {}
    for arm in ARMS:
        names = list(clusters[arm])
        size = len(names)
        sums = {name: np.zeros(size) for name in ("viewers", "gmv", "orders", "page_views", "refunds")}
        for unit in units.values():
            if unit.arm is arm:
                row = clusters[arm][unit.cluster]
                sums["viewers"][row] += len(unit.viewers)
                for name in ("gmv", "orders", "page_views", "refunds"):
                    sums[name][row] += getattr(unit, name)
        rows = np.array(rows_by_arm[arm], dtype=np.int64)
        data = np.array(values[arm], dtype=float).reshape(-1, 5)
        bins = np.minimum(np.searchsorted(LATENCY_EDGES_MS, data[:, 0]), len(LATENCY_EDGES_MS) - 1)
        width = len(LATENCY_EDGES_MS)
        histogram = np.bincount(rows * width + bins, minlength=size * width).reshape(size, width)

        def total(column: np.ndarray, rows=rows, size=size) -> np.ndarray:
            return np.bincount(rows, column, minlength=size).astype(float)

        tables[arm] = Rooms(
            room=np.array(names, dtype=object),
            first_at=np.array([first[name].first_at for name in names], dtype=float),
            stratum=np.array([stratum[first[name].ramp, first[name].harness] for name in names], dtype=np.int64),
            **sums,
            replies=total(np.ones(len(rows))),
            slow=total(data[:, 0] > config.slo_ms),
            tool_errors=total(data[:, 1]),
            violations=total(data[:, 2]),
            quality=total(data[:, 3]),
            judged=total(data[:, 4]),
            covariate=np.array([covariates.get(first[name].room, np.nan) for name in names], dtype=float),
            latency=np.cumsum(histogram, axis=1),
        )
    return tables


def _integrity(
    log: EventLog,
    exposures: Sequence[Exposure],
    outcomes: Sequence[Outcome],
    units: dict[str, _Unit],
    both: int,
    unattributed: int,
    state: RolloutState,
) -> Integrity:
    fallback = _fallback(state)
    misassigned: set[str] = set()
    checked: set[tuple[str, int, Arm]] = set()
    wrong = fallbacks = 0
    count: dict[Arm, int] = dict.fromkeys(ARMS, 0)
    last: dict[Arm, float | None] = dict.fromkeys(ARMS)
    harness: dict[str, dict[Arm, set[str]]] = defaultdict(lambda: {arm: set() for arm in ARMS})
    for event in exposures:
        count[event.arm] += 1
        last[event.arm] = event.at
        harness[event.harness_digest][event.arm].add(units[event.unit].cluster)
        if fallback(event):
            fallbacks += 1
        elif event.release_digest != (state.canary_release if event.arm is Arm.CANARY else state.champion_release):
            wrong += 1
        key = (event.unit, _ramp_index(state, event.at), event.arm)
        if key not in checked:
            checked.add(key)
            if assign(event.unit, state.salt, state.ramp[key[1]].share) is not event.arm:
                misassigned.add(event.unit)
    one_sided = max(
        (
            (len(arms[seen]), digest)
            for digest, arms in harness.items()
            for seen, other in (ARMS, ARMS[::-1])
            if not arms[other]
        ),
        default=(0, None),
        key=lambda pair: (pair[0], pair[1] or ""),
    )
    sources = {f"{arm} exposures": [e for e in exposures if e.arm is arm] for arm in ARMS} | {
        "outcomes": list(outcomes)
    }
    skew = max((_skew(events, state.now), name) for name, events in sources.items())
    return Integrity(
        received=log.received,
        quarantined=log.quarantined,
        reasons=dict(log.reasons),
        duplicates=log.duplicates,
        units={str(arm): sum(unit.arm is arm for unit in units.values()) for arm in ARMS},
        exposures={str(arm): count[arm] for arm in ARMS},
        in_both_arms=both,
        misassigned=len(misassigned),
        wrong_release=wrong,
        fallbacks=fallbacks,
        one_sided_rooms=one_sided[0],
        one_sided_digest=one_sided[1],
        last_exposure={str(arm): last[arm] for arm in ARMS},
        last_outcome=outcomes[-1].at if outcomes else None,
        silent_rooms={
            str(arm): _rooms_since(units, other, last[arm], state.started) for arm, other in (ARMS, ARMS[::-1])
        },
        skew_s=skew[0],
        skew_source=skew[1],
        unattributed=unattributed,
    )


def _rooms_since(units: dict[str, _Unit], arm: Arm, moment: float | None, started: float) -> int:
    """Rooms of an arm that began after `moment` (or since the start, if None)."""
    since = started if moment is None else moment
    return len({unit.cluster for unit in units.values() if unit.arm is arm and unit.first_at > since})


def _skew(events: Sequence[Exposure | Outcome], now: float) -> float:
    """How far a source's clock is off, at least, in seconds (0 when nothing shows it).

    Ahead: several events lie in the receiver's future. Behind: even the promptest of the newest events came late; a
    batch that is delivered late as a whole looks the same, and holds a rollout for the same good reason.
    """
    if not events:
        return 0.0
    newest = events[-LAG_WINDOW:]
    lags = sorted((event.received if event.received is not None else now) - event.at for event in newest)
    ahead = -lags[min(FUTURE_EVENTS, len(lags)) - 1]
    timed = [event.received - event.at for event in newest if event.received is not None]
    behind = min(timed) if timed else 0.0
    return float(max(ahead, behind, 0.0))


def _burst(exposures: Sequence[Exposure], flag: Callable[[Exposure], bool], window: int) -> Burst:
    canary = [event for event in exposures if event.arm is Arm.CANARY]
    control = [event for event in exposures if event.arm is Arm.CONTROL]
    flags = np.array([flag(event) for event in canary], dtype=int)
    if len(flags) < window:
        return Burst(int(flags.sum()), len(flags), 0.0, canary[-1].at if canary else None)
    sums = np.cumsum(np.concatenate([[0], flags]))
    windows = sums[window:] - sums[:-window]
    worst = int(np.argmax(windows))
    end = canary[worst + window - 1].at
    other = np.array([flag(event) for event in control], dtype=float)
    until = bisect_right([event.at for event in control], end)
    recent = other[max(0, until - window) : until]
    rate = max(float(other.mean()) if len(other) else 0.0, float(recent.mean()) if len(recent) else 0.0)
    return Burst(int(windows[worst]), window, rate, end)
