"""Simulated viewers: right base rate, pairing by common random numbers, and only a small effect of quality."""

import dataclasses
import json
from collections import Counter
from pathlib import Path

import pytest

from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import Pool
from components.avatar.simulator.viewers import Ask, Heard, RoomSettings, simulate_room
from components.canary_deploy.events import EventLog


@pytest.fixture(scope="module")
def merchant() -> Merchant:
    return load_merchant(Path(__file__).parents[3] / "infra/harnesses/lumi-beauty")


RIGHT, UNHELPFUL, WRONG = Heard(1.0, quality=1.0), Heard(0.0, quality=0.0), Heard(0.0, false_claims=1, quality=0.0)


def counts(heard: Heard, merchant: Merchant, rooms: int, **settings: float) -> Counter:
    pool, found = Pool(merchant, "test"), Counter()
    for room in range(rooms):
        for event in simulate_room(
            f"r{room}", 5, lambda ask: heard, merchant, pool=pool, settings=RoomSettings(**settings)
        ):
            found[event["event"]] += 1
    return found


def test_two_percent_of_the_viewers_buy(merchant: Merchant) -> None:
    found = counts(Heard(None), merchant, 100)
    assert found["order"] / found["watch"] == pytest.approx(0.02, rel=0.15)


@pytest.mark.parametrize("ask_rate", [0.1, 1.0])
def test_lift_by_quality_alone_is_small(ask_rate: float, merchant: Merchant) -> None:
    right, wrong = (counts(h, merchant, 60, ask_rate=ask_rate, buyer_rate=0.1) for h in (RIGHT, WRONG))
    lift = (right["order"] / right["watch"]) / (wrong["order"] / wrong["watch"]) - 1
    assert 0 < lift < 0.10
    if ask_rate == 1.0:  # else too few orders follow an own question to show it
        assert right["refund"] / right["order"] < wrong["refund"] / wrong["order"]
    assert right["exposure"] > wrong["exposure"]  # misled viewers leave before they ask again


def test_arms_share_their_random_numbers(merchant: Merchant) -> None:
    """Better answers never lose an order: every difference between the arms is caused by the answers."""
    settings = RoomSettings(ask_rate=0.5, buyer_rate=0.1)
    for room in range(5):
        orders = [
            {
                e["viewer"]
                for e in simulate_room(f"r{room}", 1, lambda ask, h=h: h, merchant, settings=settings)
                if e["event"] == "order"
            }
            for h in (WRONG, RIGHT)
        ]
        assert orders[0] <= orders[1]


def test_same_seed_same_room(merchant: Merchant) -> None:
    first, second = (simulate_room("r", 1, lambda ask: RIGHT, merchant) for _ in range(2))
    assert first == second != simulate_room("r", 2, lambda ask: RIGHT, merchant)


def test_neither_latency_nor_text_moves_viewers(merchant: Merchant) -> None:
    slow = dataclasses.replace(RIGHT, latency_ms=60_000.0, tool_errors=3)
    plain, late = (
        [e for e in simulate_room("r", 1, lambda ask, h=h: h, merchant) if e["event"] != "exposure"]
        for h in (RIGHT, slow)
    )
    assert plain == late


def test_asks_come_in_order_of_time_with_one_question_each(merchant: Merchant) -> None:
    asks: list[Ask] = []

    def answer(ask: Ask) -> Heard:
        asks.append(ask)
        return RIGHT

    simulate_room("r", 1, answer, merchant, settings=RoomSettings(ask_rate=0.5), starts_at=1000.0)
    assert [a.at for a in asks] == sorted(a.at for a in asks) and asks[0].at >= 1000
    assert all(len(a.scenario.questions) == 1 and a.scenario.on_air is not None for a in asks)
    assert len({a.scenario.id for a in asks}) == len(asks)


def test_the_canary_accepts_every_event(merchant: Merchant) -> None:
    heard = dataclasses.replace(RIGHT, rollout="ro", arm="canary", release_digest="abc", harness_digest="def")
    log = EventLog("ro")
    events = simulate_room("r", 1, lambda ask: heard, merchant, settings=RoomSettings(buyer_rate=0.1))
    assert log.add_lines(json.dumps(event) for event in events) == len(events) and not log.quarantined
