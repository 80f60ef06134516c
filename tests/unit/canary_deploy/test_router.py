"""The router against arms that are only a transport: stickiness, fallback, the event log, kill, promotion, read-back,
restart."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from components.canary_deploy.assignment import Arm, assign
from components.canary_deploy.config import Unit
from components.canary_deploy.events import EventLog
from components.canary_deploy.router import EVENTS_FILE, Router, RouterSettings, create_app
from components.canary_deploy.traffic import Conflict, Phase, Refused, Traffic, TrafficChange, change
from components.canary_deploy.wire import TurnReply

SALT = "salt"
SETTINGS = {"rollout": "r1", "salt": SALT, "champion": "http://champion", "canary": "http://canary"}


def reply(release: str, **fields: object) -> dict:
    answer = TurnReply(
        reply=f"from {release}",
        stop="done",
        release_digest=release,
        harness_digest="h1",
        tool_errors=0,
        violations=0,
        quality=1.0,
        accuracy=1.0,
        false_claims=0,
        service_ms=700.0,
    )
    return answer.model_copy(update=fields).model_dump(mode="json")


class Arms:
    """Both arms behind one transport. `fail[host]`: what that arm does instead of answering."""

    def __init__(self) -> None:
        self.fail: dict[str, Callable[[], httpx.Response]] = {}
        self.asked: list[str] = []
        self.extra: dict[str, object] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        if request.url.path == "/healthz":
            return httpx.Response(503 if host in self.fail else 200, json={"ready": host not in self.fail})
        self.asked.append(host)
        if host in self.fail:
            return self.fail[host]()
        return httpx.Response(200, json=reply(host, **self.extra))


def unreachable() -> httpx.Response:
    raise httpx.ConnectError("refused")


@pytest.fixture
def arms() -> Arms:
    return Arms()


def open_router(arms: Arms, state: Path, **settings: object) -> TestClient:
    client = httpx.AsyncClient(transport=httpx.MockTransport(arms))
    configured = RouterSettings.model_validate({**SETTINGS, "state": state, **settings})
    return TestClient(create_app(Router(configured, client)))


def set_share(client: TestClient, share: float, phase: Phase = Phase.RAMP) -> httpx.Response:
    version = client.get("/traffic").json()["traffic"]["version"]
    return client.put("/traffic", json={"version": version, "phase": phase, "share": share})


def ask(client: TestClient, session: str, viewer: str = "v", **fields: object) -> httpx.Response:
    turn = {"session": session, "room": f"room-{session}", "viewer": viewer, "message": "how much is link 3", **fields}
    return client.post("/turns", json=turn)


def session_in(arm: Arm, ramp: float, start: int = 0) -> str:
    return next(f"s{n}" for n in range(start, 10_000) if assign(f"s{n}", SALT, ramp) is arm)


def test_every_turn_goes_to_the_arm_of_its_hash(arms: Arms, tmp_path: Path) -> None:
    with open_router(arms, tmp_path) as client:
        assert set_share(client, 0.3).status_code == 200
        for number in range(60):
            answer = ask(client, f"s{number}").json()
            expected = assign(f"s{number}", SALT, 0.3)
            assert answer["arm"] == expected
            assert answer["answer"]["release_digest"] == ("canary" if expected is Arm.CANARY else "champion")
        counted = client.get("/traffic").json()
    assert sum(counted["assigned"].values()) == 60 and counted["routed"] == counted["assigned"]


def test_a_running_session_keeps_its_arm_when_the_ramp_grows(arms: Arms, tmp_path: Path) -> None:
    late = next(
        s
        for s in (f"s{n}" for n in range(1000))
        if assign(s, SALT, 0.05) is Arm.OUTSIDE and assign(s, SALT, 0.5) is Arm.CANARY
    )
    with open_router(arms, tmp_path) as client:
        set_share(client, 0.05)
        assert ask(client, late).json()["arm"] == Arm.OUTSIDE
        set_share(client, 0.5)
        assert ask(client, late).json()["arm"] == Arm.OUTSIDE
        assert ask(client, session_in(Arm.CANARY, 0.5, start=500)).json()["arm"] == Arm.CANARY


def test_viewers_of_one_room_are_split_when_they_are_the_unit(arms: Arms, tmp_path: Path) -> None:
    with open_router(arms, tmp_path, unit=Unit.VIEWER_IN_ROOM) as client:
        set_share(client, 0.5)
        seen = {ask(client, "s1", viewer=f"v{n}").json()["arm"] for n in range(40)}
    assert seen == {Arm.CANARY, Arm.CONTROL}


@pytest.mark.parametrize(
    "failure",
    [
        unreachable,
        lambda: httpx.Response(500, text="boom"),
        lambda: httpx.Response(503, json={"detail": "not ready"}),
        lambda: httpx.Response(200, text="<html>"),
        lambda: httpx.Response(200, json={"reply": "half an answer"}),
    ],
)
def test_the_champion_answers_for_a_failing_canary_and_the_unit_stays_in_its_arm(
    arms: Arms, tmp_path: Path, failure: Callable[[], httpx.Response]
) -> None:
    arms.fail["canary"] = failure
    with open_router(arms, tmp_path) as client:
        set_share(client, 0.5)
        answer = ask(client, session_in(Arm.CANARY, 0.5)).json()
        assert client.get("/traffic").json()["fallbacks"] == 1
    assert arms.asked == ["canary", "champion"]
    assert (answer["arm"], answer["fallback"], answer["answer"]["release_digest"]) == (Arm.CANARY, True, "champion")
    log = EventLog("r1")
    log.read(tmp_path / EVENTS_FILE)
    (exposure,) = log.exposures.values()
    assert (exposure.arm, exposure.release_digest) == (Arm.CANARY, "champion")


def test_no_answer_at_all_is_an_error_and_no_exposure(arms: Arms, tmp_path: Path) -> None:
    arms.fail = {"canary": unreachable, "champion": unreachable}
    with open_router(arms, tmp_path) as client:
        set_share(client, 0.5)
        assert ask(client, session_in(Arm.CANARY, 0.5)).status_code == 503
        assert client.get("/traffic").json()["failures"] == 1
        assert client.get("/healthz").status_code == 503
    assert (tmp_path / EVENTS_FILE).read_bytes() == b""


def test_exposures_and_outcomes_are_events_that_the_decision_can_read(arms: Arms, tmp_path: Path) -> None:
    with open_router(arms, tmp_path, simulated_clock=True) as client:
        set_share(client, 0.5)
        assert ask(client, "s1").status_code == 422  # no moment under a simulated clock
        shown = ask(client, "s1", at=100.0).json()
        lines = [
            {"event": "page_view", "id": "p1", "room": "room-s1", "viewer": "v", "at": 101},
            {
                "event": "order",
                "id": "o1",
                "room": "room-s1",
                "viewer": "v",
                "at": 105,
                "amount": "9.90",
                "currency": "CNY",
            },
            {"event": "exposure", "id": "forged", "room": "room-s1", "viewer": "v", "at": 105},
        ]
        body = "\n".join([*map(json.dumps, lines), "{broken"])
        assert client.post("/events", content=body).json() == {"stored": 3, "refused": 1}
    log = EventLog("r1")
    log.read(tmp_path / EVENTS_FILE)
    (exposure,) = log.exposures.values()
    assert (exposure.at, exposure.reply_id, exposure.received) == (100.0, shown["reply_id"], None)
    assert set(log.outcomes) == {"p1", "o1"} and log.quarantined == 1


def test_wall_clock_events_say_when_they_were_received(arms: Arms, tmp_path: Path) -> None:
    with open_router(arms, tmp_path) as client:
        ask(client, "s1", at=5.0)  # a client's own clock does not count
        client.post(
            "/events", content=json.dumps({"event": "watch", "id": "w", "room": "room-s1", "viewer": "v", "at": 5})
        )
    exposure, outcome = map(json.loads, (tmp_path / EVENTS_FILE).read_text().splitlines())
    assert exposure["at"] == exposure["received"] > 1e9
    assert outcome["received"] > 1e9


def test_latency_of_a_reused_reply_counts_its_generation(arms: Arms, tmp_path: Path) -> None:
    with open_router(arms, tmp_path) as client:
        fresh = ask(client, "s1").json()["latency_ms"]
        arms.extra = {"reused": True}
        assert ask(client, "s1").json()["latency_ms"] > 700 > fresh


def test_kill_moves_running_sessions_to_the_champion_at_once(arms: Arms, tmp_path: Path) -> None:
    session = session_in(Arm.CANARY, 0.5)
    with open_router(arms, tmp_path) as client:
        set_share(client, 0.5)
        assert ask(client, session).json()["answer"]["release_digest"] == "canary"
        assert set_share(client, 0.5, Phase.ROLLED_BACK).status_code == 200
        killed = ask(client, session).json()
        new = ask(client, session_in(Arm.CANARY, 0.5, start=900)).json()
        assert set_share(client, 0.5, Phase.RAMP).status_code == 422
        assert client.get("/traffic").json()["traffic"]["phase"] == Phase.ROLLED_BACK
    assert (killed["answer"]["release_digest"], killed["arm"]) == ("champion", Arm.CANARY)
    assert (new["answer"]["release_digest"], new["arm"]) == ("champion", Arm.OUTSIDE)


def test_promotion_serves_new_sessions_by_the_canary_and_lets_running_ones_end(arms: Arms, tmp_path: Path) -> None:
    control = session_in(Arm.CONTROL, 0.5)
    with open_router(arms, tmp_path) as client:
        set_share(client, 0.5)
        ask(client, control)
        set_share(client, 0.5, Phase.PROMOTED)
        assert ask(client, control).json()["answer"]["release_digest"] == "champion"
        new = [ask(client, f"new{n}").json() for n in range(10)]
    assert {(n["answer"]["release_digest"], n["arm"]) for n in new} == {("canary", Arm.OUTSIDE)}


def test_a_stale_write_conflicts_and_the_split_reads_back(arms: Arms, tmp_path: Path) -> None:
    with open_router(arms, tmp_path) as client:
        first = client.get("/traffic").json()["traffic"]
        assert client.put("/traffic", json={**first, "share": 0.05}).status_code == 200
        assert client.put("/traffic", json={**first, "share": 0.2}).status_code == 409
        assert client.get("/traffic").json()["traffic"] == {"version": 2, "phase": "ramp", "share": 0.05}


@pytest.mark.parametrize(
    ("now", "wanted", "refusal"),
    [
        (Traffic(version=2, share=0.2), TrafficChange(version=1, phase=Phase.RAMP, share=0.5), Conflict),
        (Traffic(version=2, share=0.2), TrafficChange(version=2, phase=Phase.RAMP, share=0.05), Refused),
        (
            Traffic(version=2, phase=Phase.ROLLED_BACK, share=0.2),
            TrafficChange(version=2, phase=Phase.PROMOTED, share=0.5),
            Refused,
        ),
    ],
)
def test_changes_that_would_move_viewers_are_refused(
    now: Traffic, wanted: TrafficChange, refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        change(now, wanted)


def test_a_restarted_router_goes_on_where_it_was(arms: Arms, tmp_path: Path) -> None:
    late = next(
        s
        for s in (f"s{n}" for n in range(1000))
        if assign(s, SALT, 0.05) is Arm.OUTSIDE and assign(s, SALT, 0.5) is Arm.CANARY
    )
    with open_router(arms, tmp_path) as client:
        set_share(client, 0.05)
        ask(client, late)
        set_share(client, 0.5)
        ask(client, session_in(Arm.CANARY, 0.5))
        before = client.get("/traffic").json()
    with open(tmp_path / EVENTS_FILE, "ab") as events:
        events.write(b'{"event": "exposure", "id": "to')  # the crash came in the middle of a line
    with open_router(arms, tmp_path) as client:
        assert client.get("/traffic").json() == before
        assert ask(client, late).json()["arm"] == Arm.OUTSIDE
    log = EventLog("r1")
    log.read(tmp_path / EVENTS_FILE)
    assert len(log.exposures) == 3 and log.quarantined == 0


def test_metrics_are_prometheus_text(arms: Arms, tmp_path: Path) -> None:
    with open_router(arms, tmp_path) as client:
        set_share(client, 0.5)
        ask(client, session_in(Arm.CANARY, 0.5))
        text = client.get("/metrics").text
    assert 'router_turns_total{arm="canary",fallback="false"} 1\n' in text
    assert 'router_latency_seconds_bucket{arm="canary",le="+Inf"} 1\n' in text
    assert 'router_share{phase="ramp"} 0.5\n' in text
