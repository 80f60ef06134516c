"""Faults injected into event streams: what `decide` says when the data is broken in each of the ways of
rollout-facts' fault table.

The faults that need live processes (1, 2, 10, 11) are injected there; 1 and 2 are here too as far as they show in
evidence.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from components.canary_deploy.assignment import Arm, assign
from components.canary_deploy.config import CanaryConfig
from components.canary_deploy.decision import Decision, Verdict, decide
from components.canary_deploy.events import EventLog, Exposure, Outcome
from components.canary_deploy.evidence import RampStep, RolloutState
from components.canary_deploy.joining import ARMS, build_evidence

ROOM_EVERY_S, ROOM_LASTS_S = 600, 1800
SILENCE_S = 7200
Events = list[Exposure | Outcome]


@dataclass(frozen=True)
class Stream:
    """A rollout's events in order of time, and the controller's state at their end."""

    events: Events
    state: RolloutState
    broken_lines: tuple[str, ...] = ()
    """Lines that arrive beside the events and are no valid events."""

    def decide(self, config: CanaryConfig) -> Decision:
        log = EventLog(self.state.rollout, config.currency)
        log.add_lines(event.model_dump_json() for event in self.events)
        log.add_lines(self.broken_lines)
        return decide(build_evidence(log, self.state, config), config)


def healthy_stream(seed: int, rooms: int = 160, viewers: int = 12, replies: int = 3) -> Stream:
    """Room sessions one after the other, two equal arms of one half each, nothing wrong: the verdict is `continue`."""
    rng = random.Random(seed)
    events: Events = []
    salt, end = f"drill-{seed}", rooms * ROOM_EVERY_S
    for number in range(rooms):
        room = f"room-{number}"
        arm = assign(room, salt, 0.5)
        start = number * ROOM_EVERY_S
        level = rng.lognormvariate(0, 0.3)
        for viewer in range(viewers):
            who = f"viewer-{number}-{viewer}"
            for reply in range(replies):
                at = start + 1 + rng.random() * ROOM_LASTS_S * 0.99
                if at >= end:
                    continue
                events.append(
                    Exposure(
                        id=f"exposure-{number}-{viewer}-{reply}",
                        room=room,
                        viewer=who,
                        rollout="drill",
                        unit=room,
                        arm=arm,
                        at=at,
                        release_digest="challenger" if arm is Arm.CANARY else "champion",
                        harness_digest="harness",
                        reply_id=f"reply-{number}-{viewer}-{reply}",
                        latency_ms=rng.lognormvariate(6.6, 0.4),
                        tool_errors=int(rng.random() < 0.02),
                        quality=min(1.0, max(0.0, rng.gauss(0.8, 0.2))),
                    )
                )
                for kind, chance in (("watch", 1.0), ("page_view", 0.3), ("order", 0.1 * level), ("refund", 0.004)):
                    if rng.random() < chance:
                        money = {"amount": f"{rng.lognormvariate(4.5, 0.5):.2f}", "currency": "CNY"}
                        extra = money if kind in ("order", "refund") else {}
                        data = {"event": kind, "id": f"{kind}-{number}-{viewer}-{reply}", "at": at + 1, "room": room}
                        events.append(Outcome.model_validate(data | {"viewer": who} | extra))
    events.sort(key=lambda event: event.at)
    state = RolloutState(
        rollout="drill",
        salt=salt,
        started=0,
        now=end + 5,
        ramp=(RampStep(at=0, share=0.5),),
        canary_release="challenger",
        champion_release="champion",
        canary_alias="challenger",
        champion_alias="champion",
        assigned=_assigned(events),
        routed=_routed(events),
    )
    return Stream(events, state)


def _routed(events: Events, since: float = 0.0, until: float = math.inf) -> dict[Arm, int]:
    return {
        arm: sum(isinstance(e, Exposure) and e.arm is arm and since <= e.at <= until for e in events) for arm in ARMS
    }


def _assigned(events: Events) -> dict[Arm, int]:
    return {arm: len({e.unit for e in events if isinstance(e, Exposure) and e.arm is arm}) for arm in ARMS}


def _with(stream: Stream, events: Events | None = None, broken: tuple[str, ...] = (), **state: object) -> Stream:
    changed = RolloutState.model_validate({**stream.state.model_dump(), **state})
    return Stream(stream.events if events is None else events, changed, broken)


def _outcome_feed_silent(stream: Stream) -> Stream:
    since = stream.state.now - SILENCE_S
    return _with(stream, [e for e in stream.events if isinstance(e, Exposure) or e.at < since])


def _counter_frozen(stream: Stream) -> Stream:
    return _with(stream, routed=_routed(stream.events, until=stream.state.now - SILENCE_S))


def _counter_reset(stream: Stream) -> Stream:
    return _with(stream, routed=_routed(stream.events, since=stream.state.now - SILENCE_S))


def _invalid(stream: Stream, every: int) -> Stream:
    """Latency NaN in one of `every` exposures (beside the valid ones, so that only the quarantine can notice)."""
    exposures = [e for e in stream.events if isinstance(e, Exposure)][::every]
    broken = [e.model_dump_json().replace(f'"latency_ms":{e.latency_ms}', '"latency_ms":NaN') for e in exposures]
    return _with(stream, broken=tuple(line.replace('"id":"', '"id":"nan-', 1) for line in broken))


def _late_and_duplicate(stream: Stream) -> Stream:
    """Orders come last, in random order, a fifth of them twice."""
    rng = random.Random(7)
    orders = [e for e in stream.events if e.event == "order"]
    rest = [e for e in stream.events if e.event != "order"]
    late = orders + orders[::5]
    rng.shuffle(late)
    return _with(stream, rest + late)


def _clock_ahead(stream: Stream) -> Stream:
    """The router instance of the canary's rooms believes it is ten minutes later."""

    def shifted(event: Exposure | Outcome) -> Exposure | Outcome:
        wrong = isinstance(event, Exposure) and event.arm is Arm.CANARY
        return event.model_copy(update={"at": event.at + 600 * wrong, "received": event.at})

    return _with(stream, [shifted(event) for event in stream.events])


def _clock_behind(stream: Stream) -> Stream:
    """Outcomes are received at once, but their source believes it is ten minutes earlier."""

    def shifted(event: Exposure | Outcome) -> Exposure | Outcome:
        behind = 0 if isinstance(event, Exposure) else min(600, event.at)
        return event.model_copy(update={"at": event.at - behind, "received": event.at})

    return _with(stream, [shifted(event) for event in stream.events])


def _exposures_dropped(stream: Stream) -> Stream:
    rng = random.Random(9)
    kept = [e for e in stream.events if not (isinstance(e, Exposure) and e.arm is Arm.CANARY and rng.random() < 0.1)]
    return _with(stream, kept)


def _canary_silent(stream: Stream) -> Stream:
    """The canary stops replying for half of the rollout; its replies are not routed either."""
    since = stream.state.now / 2
    kept = [e for e in stream.events if not (isinstance(e, Exposure) and e.arm is Arm.CANARY and e.at > since)]
    return _with(stream, kept, routed=_routed(kept), assigned=_assigned(kept))


def _both_silent(stream: Stream) -> Stream:
    since = stream.state.now - SILENCE_S
    kept = [e for e in stream.events if e.at < since]
    return _with(stream, kept, routed=_routed(kept), assigned=_assigned(kept))


@dataclass(frozen=True)
class Fault:
    """`number` is that of rollout-facts' table."""

    number: int
    name: str
    inject: Callable[[Stream], Stream]
    expected: Verdict


FAULTS = (
    Fault(1, "canary_crashed", lambda s: _with(s, crashes={Arm.CANARY: 1}), Verdict.ROLLBACK),
    Fault(1, "canary_silent", _canary_silent, Verdict.ROLLBACK),
    Fault(2, "both_arms_silent", _both_silent, Verdict.HOLD),
    Fault(3, "outcome_feed_silent", _outcome_feed_silent, Verdict.HOLD),
    Fault(4, "counter_frozen", _counter_frozen, Verdict.HOLD),
    Fault(5, "counter_reset", _counter_reset, Verdict.HOLD),
    Fault(5, "counter_recomputed", lambda s: _with(s, routed=_routed(s.events)), Verdict.CONTINUE),
    Fault(6, "invalid_events", lambda s: _invalid(s, every=100), Verdict.HOLD),
    Fault(6, "few_invalid_events", lambda s: _invalid(s, every=2500), Verdict.CONTINUE),
    Fault(7, "late_and_duplicate_orders", _late_and_duplicate, Verdict.CONTINUE),
    Fault(8, "clock_ahead", _clock_ahead, Verdict.HOLD),
    Fault(8, "clock_behind", _clock_behind, Verdict.HOLD),
    Fault(9, "exposures_dropped", _exposures_dropped, Verdict.HOLD),
    Fault(12, "alias_moved", lambda s: _with(s, champion_alias="somebody-elses"), Verdict.HOLD),
)


def run_drill(seed: int = 0, config: CanaryConfig | None = None) -> dict[str, dict]:
    """Every fault's expected and actual verdict, with the reason; `no_fault` first."""
    config = config or CanaryConfig()
    stream = healthy_stream(seed)
    results = {"no_fault": _row(0, Verdict.CONTINUE, stream.decide(config))}
    for fault in FAULTS:
        results[fault.name] = _row(fault.number, fault.expected, fault.inject(stream).decide(config))
    return results


def _row(number: int, expected: Verdict, decision: Decision) -> dict:
    return {"number": number, "expected": str(expected), "verdict": str(decision.verdict), "why": decision.why}


def events_to_detect(seed: int, error_share: float, limit: int = 60, config: CanaryConfig | None = None) -> int:
    """Canary replies from the beginning of a tool-error burst to `rollback` (limit + 1: not within `limit`)."""
    config = config or CanaryConfig()
    rng = random.Random(seed)
    stream = healthy_stream(seed, rooms=60)
    last = next(e for e in reversed(stream.events) if isinstance(e, Exposure) and e.arm is Arm.CANARY)
    log = EventLog(stream.state.rollout, config.currency)
    for event in stream.events:
        log.add(event)
    for count in range(1, limit + 1):
        faulty = int(rng.random() < error_share)
        log.add(last.model_copy(update={"id": f"burst-{count}", "at": stream.state.now, "tool_errors": faulty}))
        routed = {**stream.state.routed, Arm.CANARY: stream.state.routed[Arm.CANARY] + count}
        state = stream.state.model_copy(update={"routed": routed})
        if decide(build_evidence(log, state, config), config).verdict is Verdict.ROLLBACK:
            return count
    return limit + 1
