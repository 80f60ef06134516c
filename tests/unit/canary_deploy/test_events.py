"""Events: what is accepted, what is quarantined with which reason, and the join."""

import json
import random
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.avatar.errors import InputError
from components.canary_deploy.assignment import Arm, assign
from components.canary_deploy.config import CanaryConfig, Unit
from components.canary_deploy.drill import healthy_stream
from components.canary_deploy.events import EventLog, Exposure, Outcome, write_events
from components.canary_deploy.evidence import Evidence, RampStep, RolloutState
from components.canary_deploy.joining import build_evidence

CONFIG = CanaryConfig()
SALT = "salt"
CANARY_ROOMS = [f"r{n}" for n in range(60) if assign(f"r{n}", SALT, 0.5) is Arm.CANARY]
CONTROL_ROOMS = [f"r{n}" for n in range(60) if assign(f"r{n}", SALT, 0.5) is Arm.CONTROL]


def exposure(**changes) -> dict:
    base = {
        "event": "exposure", "id": "e1", "rollout": "ro", "unit": CANARY_ROOMS[0], "room": CANARY_ROOMS[0],
        "viewer": "v1", "arm": "canary", "at": 100.0, "release_digest": "new", "harness_digest": "h", "reply_id": "p1",
        "latency_ms": 500.0, "tool_errors": 0, "violations": 0, "quality": 0.9,
    }  # fmt: skip
    return {**base, **changes}


def order(**changes) -> dict:
    base = {
        "event": "order",
        "id": "o1",
        "room": CANARY_ROOMS[0],
        "viewer": "v1",
        "at": 110.0,
        "amount": "129.00",
        "currency": "CNY",
    }
    return {**base, **changes}


def state(**changes) -> RolloutState:
    base = {
        "rollout": "ro", "salt": SALT, "started": 0, "now": 1000, "ramp": (RampStep(at=0, share=0.5),),
        "canary_release": "new", "champion_release": "old",
    }  # fmt: skip
    return RolloutState.model_validate({**base, **changes})


def log_of(*events: dict) -> EventLog:
    log = EventLog("ro")
    log.add_lines(json.dumps(event) for event in events)
    return log


def evidence_of(*events: dict, config: CanaryConfig = CONFIG, **changes) -> Evidence:
    return build_evidence(log_of(*events), state(**changes), config)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "event: json_invalid"),
        (b"\xff\xfe", "event: json_invalid"),
        ("[]", "event: dict_type"),
        (json.dumps({"event": "shrug"}), "event: union_tag_invalid"),
        (json.dumps(exposure(latency_ms=float("nan"))), "latency_ms: finite_number"),
        (json.dumps(exposure(latency_ms=-1)), "latency_ms: greater_than_equal"),
        (json.dumps(exposure(quality=1.2)), "quality: less_than_equal"),
        (json.dumps(exposure(arm="both")), "arm: enum"),
        (json.dumps(exposure(at="yesterday")), "at: value_error"),
        (json.dumps(exposure(at="2026-01-01T00:00:00")), "at: value_error"),
        (json.dumps(order(amount=None)), "amount: missing"),
        (json.dumps(order(amount="-1")), "amount: greater_than_equal"),
        (json.dumps(order(currency="USD")), "currency: another one than the rollout's"),
        (json.dumps({k: v for k, v in order().items() if k != "viewer"}), "viewer: missing"),
    ],
)
def test_a_broken_event_is_quarantined_with_its_reason(line, reason):
    log = EventLog("ro")
    assert not log.add_line(line)
    assert log.quarantined == log.received == 1
    assert list(log.reasons) == [reason]
    assert log.samples[0].reason in log.reasons


def test_duplicates_are_dropped_and_a_reused_id_is_quarantined():
    log = log_of(exposure(), exposure(), exposure(received=150.0), exposure(viewer="other"))
    assert (len(log.exposures), log.duplicates, log.quarantined) == (1, 2, 1)
    assert log.reasons == {"id: used by another event": 1}


def test_exposures_of_other_rollouts_are_foreign_not_broken():
    log = log_of(exposure(rollout="last week's"))
    assert (log.foreign, log.quarantined, len(log.exposures)) == (1, 0, 0)


def test_times_may_be_iso_and_money_stays_decimal():
    log = log_of(order(at="2026-01-02T00:00:00+08:00", amount="0.10"))
    event = log.outcomes["o1"]
    assert event.at == 1767283200.0
    assert event.amount == Decimal("0.10")


def test_written_events_read_back(tmp_path):
    events = [Exposure.model_validate(exposure()), Outcome.model_validate(order())]
    write_events(tmp_path / "events.jsonl", events)
    log = EventLog("ro")
    assert log.read(tmp_path / "events.jsonl") == 2
    assert list(log.exposures.values()) + list(log.outcomes.values()) == events
    with pytest.raises(InputError, match="a readable JSONL file"):
        log.read(tmp_path / "absent.jsonl")


def test_outcomes_go_to_the_arm_of_their_room():
    evidence = evidence_of(
        exposure(),
        exposure(id="e2", viewer="v2", latency_ms=2500, tool_errors=2, quality=None),
        exposure(id="e3", unit=CONTROL_ROOMS[0], room=CONTROL_ROOMS[0], arm="control", release_digest="old"),
        order(),
        order(id="o2", viewer="silent buyer", amount="71.00"),
        order(id="o3", room=CONTROL_ROOMS[0], amount="10"),
        {"event": "watch", "id": "w1", "room": CANARY_ROOMS[0], "viewer": "listener", "at": 105},
        {"event": "page_view", "id": "p1", "room": CANARY_ROOMS[0], "viewer": "v1", "at": 106},
        {"event": "refund", "id": "x1", "room": CANARY_ROOMS[0], "viewer": "v1", "at": 500},
        order(id="o4", at=99.0),
        order(id="o5", room="a room outside"),
    )
    canary, control = evidence.canary, evidence.control
    assert canary.gmv.tolist() == [200.0] and control.gmv.tolist() == [10.0]
    assert canary.viewers.tolist() == [3.0]  # v1, v2 and the listener
    assert (canary.orders[0], canary.page_views[0], canary.refunds[0]) == (2, 1, 1)
    assert (canary.replies[0], canary.slow[0], canary.tool_errors[0], canary.judged[0]) == (2, 1, 1, 1)
    assert canary.latency[0, -1] == 2
    assert evidence.integrity.unattributed == 2  # before the first exposure, and outside


def test_sessions_of_one_room_are_told_apart_by_time():
    room = "studio"
    sessions = {
        arm: next(f"s{n}" for n in range(99) if assign(f"s{n}", SALT, 0.5) is arm) for arm in (Arm.CANARY, Arm.CONTROL)
    }
    evidence = evidence_of(
        exposure(unit=sessions[Arm.CANARY], room=room, at=100),
        exposure(id="e2", unit=sessions[Arm.CONTROL], room=room, at=500, arm="control", release_digest="old"),
        order(room=room, at=499, amount="1"),
        order(id="o2", room=room, at=501, amount="2", viewer="v2"),
        {"event": "refund", "id": "x1", "room": room, "viewer": "v1", "at": 900},  # v1 bought in the first session
    )
    assert evidence.canary.gmv.tolist() == [1.0] and evidence.control.gmv.tolist() == [2.0]
    assert evidence.canary.refunds.tolist() == [1.0] and evidence.control.refunds.tolist() == [0.0]


def test_outcomes_after_the_attribution_window_are_not_the_avatars():
    config = CanaryConfig(attribution_s=60)
    assert evidence_of(exposure(), order(at=159), config=config).canary.gmv.tolist() == [129.0]
    assert evidence_of(exposure(), order(at=161), config=config).canary.gmv.tolist() == [0.0]


def test_viewers_as_units_share_the_rows_of_their_rooms():
    units = {
        arm: [f"v{n}" for n in range(99) if assign(f"v{n}", SALT, 0.5) is arm] for arm in (Arm.CANARY, Arm.CONTROL)
    }
    b, a = units[Arm.CANARY][0], units[Arm.CONTROL][0]
    evidence = evidence_of(
        exposure(unit=b, viewer=b, room="one"),
        exposure(id="e2", unit=a, viewer=a, room="one", arm="control", release_digest="old"),
        exposure(id="e3", unit=units[Arm.CANARY][1], viewer=units[Arm.CANARY][1], room="two", at=120),
        order(room="one", viewer=a, amount="5"),
        order(id="o2", room="two", viewer=units[Arm.CANARY][1], amount="7", at=130),
        order(id="o3", room="one", viewer="unexposed", amount="100"),
        config=CanaryConfig(unit=Unit.VIEWER_IN_ROOM),
    )
    assert evidence.canary.room.tolist() == evidence.control.room.tolist() == ["one", "two"]
    assert evidence.canary.viewers.tolist() == [1, 1] and evidence.control.viewers.tolist() == [1, 0]
    assert evidence.canary.gmv.tolist() == [0, 7] and evidence.control.gmv.tolist() == [5, 0]


def test_integrity_counts():
    b, a = CANARY_ROOMS, CONTROL_ROOMS
    control = {"arm": "control", "release_digest": "old"}
    found = evidence_of(
        exposure(),
        exposure(id="e2", release_digest="old"),  # the champion answered for the canary
        exposure(id="e3", unit=a[0], room=a[0], **control),
        exposure(id="e4", unit=a[1], room=a[1], arm="control", release_digest="new"),  # wrong release
        exposure(id="e5", unit=b[1], room=b[1], **control),  # its hash says canary
        exposure(id="e6", unit=a[2], room=a[2], harness_digest="h2", at=300, **control),
        exposure(id="e7", unit=a[0], room=a[0]),  # seen in both arms
        exposure(id="e8", unit="x", room="x", arm="outside", release_digest="old"),
    ).integrity
    assert (found.fallbacks, found.wrong_release, found.misassigned, found.in_both_arms) == (1, 1, 2, 1)
    assert (found.one_sided_rooms, found.one_sided_digest) == (1, "h2")
    assert found.exposures == {"canary": 3, "control": 4}
    assert found.silent_rooms["canary"] == 1 and found.last_exposure == {"canary": 100.0, "control": 300.0}


@pytest.mark.parametrize(
    ("lags", "skew"),
    [([0.1, 2, 5], 0.1), ([400, 600, 800], 400), ([-400, -400, -500], 400), ([-900, 1, 2], 1), ([None] * 3, 0)],
)
def test_clock_skew_needs_more_than_one_odd_event(lags, skew):
    events = [
        exposure(id=f"e{n}", received=None if lag is None else 1000 + lag, at=1000.0) for n, lag in enumerate(lags)
    ]
    if lags[0] == -900:  # with one event from the future of three, the promptest of the others counts
        events += [exposure(id=f"f{n}", at=1000.0, received=1001.0) for n in range(5)]
        assert evidence_of(*events, now=1001).integrity.skew_s == pytest.approx(0.0, abs=1)
        return
    assert evidence_of(*events, now=1001).integrity.skew_s == pytest.approx(skew)


def test_a_burst_is_the_worst_window_and_the_controls_rate_at_that_time():
    events = [exposure(id=f"b{n}", at=100.0 + n, tool_errors=int(40 <= n < 52)) for n in range(100)]
    events += [
        exposure(id=f"a{n}", at=100.5 + n, unit=CONTROL_ROOMS[0], room=CONTROL_ROOMS[0], arm="control",
                 release_digest="old", tool_errors=int(45 <= n < 50))
        for n in range(100)
    ]  # fmt: skip
    burst = evidence_of(*events).bursts["tool_errors"]
    assert (burst.count, burst.window) == (12, 20)
    assert burst.control_rate == pytest.approx(0.25)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_the_order_of_arrival_does_not_matter(seed: int):
    rng = random.Random(seed)
    stream = healthy_stream(1, rooms=20)
    shuffled = list(stream.events)
    rng.shuffle(shuffled)
    repeated = shuffled + shuffled[:50]
    digests = set()
    for events in (stream.events, shuffled):
        log = EventLog("drill")
        for event in events:
            log.add(event)
        digests.add(build_evidence(log, stream.state, CONFIG).digest())
    assert len(digests) == 1
    log = EventLog("drill")
    for event in repeated:
        log.add(event)
    evidence = build_evidence(log, stream.state, CONFIG)
    assert log.duplicates == 50 and evidence.canary.gmv.sum() == pytest.approx(
        sum(
            float(e.amount)
            for e in stream.events
            if e.event == "order" and assign(e.room, stream.state.salt, 0.5) is Arm.CANARY
        )
    )


def test_evidence_survives_json_bit_by_bit():
    stream = healthy_stream(2, rooms=30)
    log = EventLog("drill")
    for event in stream.events:
        log.add(event)
    evidence = build_evidence(log, stream.state, CONFIG, {stream.events[0].room: 1.25})
    again = Evidence.from_json(json.loads(json.dumps(evidence.to_json())))
    assert again.digest() == evidence.digest()
    assert again.canary.latency.tolist() == evidence.canary.latency.tolist()


def test_no_events_at_all_is_evidence_too():
    evidence = evidence_of()
    assert evidence.rooms == 0 and len(evidence.canary) == 0
    assert evidence.integrity.last_outcome is None
