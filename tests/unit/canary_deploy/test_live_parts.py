"""Small parts of a live rollout: deck of questions, durable event log, traffic client, the merchant's edit."""

import asyncio
import os
import random
from pathlib import Path

import httpx
import pytest

from components.avatar.errors import SystemFault
from components.avatar.harness.files import load_harness
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import Pool
from components.canary_deploy.assignment import Arm
from components.canary_deploy.deck import Deck
from components.canary_deploy.event_writer import EventWriter
from components.canary_deploy.live_merchant import edit, open_live_folder
from components.canary_deploy.traffic import Phase
from components.canary_deploy.traffic_client import CONFLICTS, TrafficClient

SHIPPED = Path(__file__).parents[3] / "infra" / "harnesses" / "lumi-beauty"


@pytest.fixture(scope="module")
def merchant() -> Merchant:
    return load_merchant(SHIPPED)


def test_a_deck_draws_only_its_own_questions_of_the_test_split(merchant: Merchant) -> None:
    deck, rng = Deck(merchant, 20, seed=3, seconds=1800), random.Random(0)
    drawn = [deck.draw(rng.choice(deck.families()), rng)[0] for _ in range(1000)]
    assert {question.id for question in drawn} == set(deck.contexts) and len(deck.contexts) == 20
    assert all(deck.contexts[question.id].question == question for question in drawn)
    links = {product.link_id for product in Pool(merchant, "train").products}
    assert not {q.link_id for q in drawn} & links


def test_a_deck_depends_on_its_seed_alone(merchant: Merchant) -> None:
    first, same, other = (Deck(merchant, 12, seed=seed, seconds=1800).contexts for seed in (1, 1, 2))
    assert first == same != other


def test_a_question_is_asked_under_the_stream_of_its_moment(merchant: Merchant) -> None:
    contexts = list(Deck(merchant, 12, seed=1, seconds=1800).contexts.values())
    assert not contexts[0].events or all(event.at_s == 0 for event in contexts[0].events)
    assert len(contexts[-1].events) > len(contexts[0].events)
    assert {event.kind for event in contexts[-1].events} <= {"price", "stock", "flash_sale"}


def test_concurrent_writers_are_all_on_disk_in_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (syncs.append(handle), fsync(handle)))

    async def write() -> None:
        writer = EventWriter(tmp_path / "events.jsonl")
        await asyncio.gather(*(writer.write([b"%d-a" % n, b"%d-b" % n]) for n in range(200)))
        writer.close()

    asyncio.run(write())
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines()
    assert lines == [b"%d-%s" % (n, part) for n in range(200) for part in (b"a", b"b")]
    assert 1 <= len(syncs) < 50


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (b"whole\n", b"whole\n"),
        (b"whole\ntorn", b"whole\n"),
        (b"torn", b""),
        (b"w\n" + b"t" * 200_000, b"w\n"),
    ],
)
def test_a_torn_last_line_is_cut_off(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(before)
    EventWriter(path).close()
    assert path.read_bytes() == after


def test_a_full_disk_reaches_every_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def write() -> list[object]:
        writer = EventWriter(tmp_path / "events.jsonl")
        monkeypatch.setattr(writer, "_sync", full)
        return await asyncio.gather(writer.write([b"a"]), writer.write([b"b"]), return_exceptions=True)

    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    assert [type(outcome) for outcome in asyncio.run(write())] == [OSError, OSError]


class FakeRouter:
    """GET and PUT /traffic; `others` writes of somebody else come between our read and our write."""

    def __init__(self, others: int = 0, forgets: bool = False) -> None:
        self.traffic = {"version": 1, "phase": "ramp", "share": 0.0}
        self.others, self.forgets, self.writes = others, forgets, 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PUT":
            self.writes += 1
            if self.others:
                self.others -= 1
                return httpx.Response(409, json={"detail": "version"})
            if not self.forgets:
                self.traffic = {**httpx.Response(200, content=request.content).json(), "version": 2}
        counters = dict.fromkeys(map(str, Arm), 0)
        state = {"rollout": "r", "salt": "s", "unit": "room_session", "assigned": counters, "routed": counters}
        return httpx.Response(200, json={**state, "traffic": self.traffic, "fallbacks": 0, "failures": 0})

    def client(self) -> TrafficClient:
        return TrafficClient(httpx.Client(transport=httpx.MockTransport(self)), "http://router")


def test_a_conflict_is_read_again_and_written_again() -> None:
    router = FakeRouter(others=2)
    state = router.client().set(Phase.RAMP, 0.2)
    assert (state.traffic.share, router.writes) == (0.2, 3)


def test_a_split_that_is_already_so_is_not_written() -> None:
    router = FakeRouter()
    router.client().set(Phase.RAMP, 0.0)
    assert router.writes == 0


@pytest.mark.parametrize(
    ("router", "reason"),
    [(FakeRouter(others=CONFLICTS), "changed by others"), (FakeRouter(forgets=True), "read back")],
)
def test_a_split_that_cannot_be_had_is_a_fault(router: FakeRouter, reason: str) -> None:
    with pytest.raises(SystemFault, match=reason):
        router.client().set(Phase.PROMOTED, 0.5)


def test_the_merchants_edits_change_the_harness_once_and_stay_valid(tmp_path: Path, merchant: Merchant) -> None:
    live = open_live_folder(SHIPPED, tmp_path / "live")
    assert live.harness.digest == merchant.harness.digest
    assert edit(SHIPPED, tmp_path / "live") == load_harness(tmp_path / "live").digest != live.harness.digest
    edited = load_merchant(tmp_path / "live").harness
    assert edited.tool("stock_left") and not edited.tool("shelf_count") and not edited.tool("coupon_finder")
    assert edited.limits.reply_words == 24
