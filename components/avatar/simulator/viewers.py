"""Simulated viewers of a room: they join, ask, listen, open product pages, order, ask for their money back, leave.

A viewer acts on *verified facts* of replies only: whether the reply was right, unhelpful, or stated something false.
Neither its text nor its latency moves a purchase, so quality is the only way for a model to sell more, and it can sell
only a little more: a viewer's chance to order moves within the bounds of `FACTORS`, so a perfect model lifts orders by
less than 10% over an always wrong one (tool-use-robustness: a larger lift would be a defect).

Common random numbers: every viewer draws each decision from an own stream of the room's seed, and answers only move
thresholds. Two simulations that differ in the answers alone can be compared viewer by viewer.

The numbers below are ours, chosen within that bound.
"""

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from components.avatar.harness.schema import Family
from components.avatar.simulator.catalogue import Product, money_text
from components.avatar.simulator.families import FACT_FAMILIES
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.sampling import Pool
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.stream import Stream, changes_until

FACTORS = {"right": 1.05, "unhelpful": 0.985, "wrong": 0.96}  # on the chance to order of a viewer who was answered
OVERHEARD = 0.5  # exponent on them for everyone else who hears the reply and looks at the same product
LEAVES_AFTER = {"right": 0.10, "unhelpful": 0.20, "wrong": 0.45}  # chance that the asker leaves at once
ASKS_ON = 0.25  # chance that an asker who stays asks another question
REFUND_AFTER_WRONG = 2.0  # factor on the refund rate of an order that a false price or stock claim led to


@dataclass(frozen=True)
class RoomSettings:
    """One live stream. Rates are a viewer's; `buyer_rate` may be swept from 0.005 to 0.10."""

    viewers: float = 200.0  # mean of a room
    viewers_cv: float = 0.3
    seconds: float = 1800.0
    ask_rate: float = 0.10
    page_view_rate: float = 0.25
    buyer_rate: float = 0.02  # mean viewer-to-buyer share (research: fewer than 2% buy, top sellers 8-12%)
    refund_rate: float = 0.05
    gift_rate: float = 0.01
    viewer_sd: float = 0.6  # of the log of a viewer's own inclination
    product_sd: float = 0.3
    room_sd: float = 0.2
    show_seconds: float = 300.0  # how long one product is on air


@dataclass(frozen=True)
class Ask:
    """A viewer's message: `scenario` has one question, the product on air, and the stream's changes up to now at second
    0.
    """

    room: str
    viewer: str
    at: float  # seconds of the events' clock
    scenario: Scenario


@dataclass(frozen=True)
class Heard:
    """What came back. The verifier's findings move the viewer; the rest goes into the exposure event as it is.

    `accuracy` None: the reply was not judged, and moves nobody.
    """

    accuracy: float | None
    false_claims: int = 0
    quality: float | None = None
    reply_id: str = ""
    rollout: str = "simulation"
    arm: str = "champion"
    unit: str = ""  # empty: the room
    release_digest: str = "none"
    harness_digest: str = "none"
    latency_ms: float = 0.0
    tool_errors: int = 0
    violations: int = 0


Overheard = tuple[float, int | None, str, float]  # (when, product, who asked, log of the factor)


@dataclass
class _Viewer:
    """State of one viewer. The random numbers are drawn up front: see "common random numbers"."""

    name: str
    joins: float
    leaves: float
    inclination: float
    draws: random.Random
    orders_below: float
    views_below: float
    refunds_below: float
    gifts_below: float
    decides: float
    effect: float = 0.0  # log of the factor from own questions
    misled: bool = False
    product: int | None = None  # of the last question


def simulate_room(
    room: str,
    seed: int,
    answer: Callable[[Ask], Heard],
    merchant: Merchant,
    *,
    settings: RoomSettings = RoomSettings(),
    pool: Pool | None = None,
    starts_at: float = 0.0,
) -> list[dict[str, Any]]:
    """One live stream: calls `answer` for every viewer message in order of time, then lets the viewers act.

    Args:
        seed: with `room` it decides viewers, products on air and questions. Equal for two arms, it pairs them.
        pool: questions and products; default the test split. Pass one to draw many rooms from.
        starts_at: of the stream, in seconds of the events' clock.

    Returns exposure and outcome events (DESIGN, "Events") in order of time.
    """
    pool = pool or Pool(merchant, "test")
    rng = random.Random(f"{room}/{seed}")
    shows = _shows(pool, settings, rng)
    appeal = {product.link_id: _mean_one(rng, settings.product_sd) for product in merchant.catalogue.products}
    viewers = _audience(settings, room, seed, rng)
    families = [family for family in pool.families() if family != Family.OUTAGE]
    events: list[dict[str, Any]] = []
    overheard: list[Overheard] = []

    queue = [
        (viewer.joins + viewer.draws.uniform(5, 120), index)
        for index, viewer in enumerate(viewers)
        if viewer.draws.random() < settings.ask_rate
    ]
    heapq.heapify(queue)
    asked = 0
    while queue:
        at, index = heapq.heappop(queue)
        viewer = viewers[index]
        if at >= viewer.leaves or at >= settings.seconds:
            continue
        ask = _ask(viewer, room, at, starts_at, asked, merchant, pool, shows, families, settings)
        asked += 1
        heard = answer(ask)
        events.append(_exposure(ask, heard))
        verdict = _verdict(heard)
        question = ask.scenario.questions[0]
        viewer.product = question.link_id if question.link_id in merchant.catalogue.by_link else ask.scenario.on_air
        draw_leave, draw_more, pause = viewer.draws.random(), viewer.draws.random(), viewer.draws.uniform(40, 240)
        if verdict is None:
            continue
        if question.family in FACT_FAMILIES or verdict != "right":  # a kind word sells nothing, a false one does harm
            viewer.effect += math.log(FACTORS[verdict])
            overheard.append((at, viewer.product, viewer.name, OVERHEARD * math.log(FACTORS[verdict])))
        viewer.misled |= verdict == "wrong"
        if draw_leave < LEAVES_AFTER[verdict]:
            viewer.leaves = min(viewer.leaves, at + 20)
        elif draw_more < ASKS_ON:
            heapq.heappush(queue, (at + pause, index))
    for viewer in viewers:
        events.extend(_acts(viewer, room, starts_at, settings, merchant, shows, appeal, overheard))
    return sorted(events, key=lambda event: (event["at"], event["id"]))


def _audience(settings: RoomSettings, room: str, seed: int, rng: random.Random) -> list[_Viewer]:
    count = max(1, round(settings.viewers * _mean_one(rng, settings.viewers_cv)))
    mood = _mean_one(rng, settings.room_sd)
    viewers = []
    for index in range(count):
        draws = random.Random(f"{room}/{seed}/{index}")
        joins = draws.uniform(0, settings.seconds * 0.9)
        leaves = min(settings.seconds, joins + draws.expovariate(1 / 400))
        viewers.append(
            _Viewer(
                name=f"{room}-v{index:04d}",
                joins=joins,
                leaves=leaves,
                inclination=mood * _mean_one(draws, settings.viewer_sd),
                draws=draws,
                orders_below=draws.random(),
                views_below=draws.random(),
                refunds_below=draws.random(),
                gifts_below=draws.random(),
                decides=draws.random(),
            )
        )
    return viewers


def _shows(pool: Pool, settings: RoomSettings, rng: random.Random) -> list[int]:
    """Links on air, one for every `show_seconds`."""
    return [rng.choice(pool.products).link_id for _ in range(math.ceil(settings.seconds / settings.show_seconds))]


def _ask(
    viewer: _Viewer,
    room: str,
    at: float,
    starts_at: float,
    number: int,
    merchant: Merchant,
    pool: Pool,
    shows: list[int],
    families: list[Family],
    settings: RoomSettings,
) -> Ask:
    question, _ = pool.draw(viewer.draws.choice(families), viewer.draws)
    scenario = Scenario(
        id=f"{room}-{number:05d}",
        seed=viewer.draws.randrange(2**31),
        merchant=merchant.name,
        questions=(question,),
        events=changes_until(merchant.events, at),
        on_air=_on_air(shows, at, settings),
    )
    return Ask(room, viewer.name, starts_at + at, scenario)


def _on_air(shows: list[int], at: float, settings: RoomSettings) -> int:
    return shows[min(len(shows) - 1, int(at // settings.show_seconds))]


def _verdict(heard: Heard) -> str | None:
    if heard.accuracy is None:
        return None
    if heard.false_claims:
        return "wrong"
    return "right" if heard.accuracy == 1 else "unhelpful"


def _exposure(ask: Ask, heard: Heard) -> dict[str, Any]:
    reply = heard.reply_id or ask.scenario.id
    return {
        "event": "exposure",
        "id": f"{ask.scenario.id}-exposure",
        "rollout": heard.rollout,
        "unit": heard.unit or ask.room,
        "room": ask.room,
        "viewer": ask.viewer,
        "arm": heard.arm,
        "at": ask.at,
        "release_digest": heard.release_digest,
        "harness_digest": heard.harness_digest,
        "reply_id": reply,
        "latency_ms": heard.latency_ms,
        "tool_errors": heard.tool_errors,
        "violations": heard.violations,
        "quality": heard.quality,
    }


def _acts(
    viewer: _Viewer,
    room: str,
    starts_at: float,
    settings: RoomSettings,
    merchant: Merchant,
    shows: list[int],
    appeal: dict[int, float],
    overheard: list[Overheard],
) -> list[dict[str, Any]]:
    """Outcome events of one viewer."""
    at = viewer.joins + viewer.decides * max(0.0, viewer.leaves - viewer.joins)
    link = viewer.product if viewer.product is not None else _on_air(shows, at, settings)
    product = merchant.catalogue.by_link[link]
    around = sum(
        size
        for when, about, asker, size in overheard
        if about == link and asker != viewer.name and viewer.joins <= when <= viewer.leaves
    )
    factor = min(FACTORS["right"], max(FACTORS["wrong"], math.exp(viewer.effect + around)))
    chance = viewer.inclination * appeal[link] * factor
    stream = Stream(merchant.catalogue, merchant.events)
    stream.advance(at)

    def event(kind: str, when: float, **fields: Any) -> dict[str, Any]:
        name = f"{viewer.name}-{kind}"
        return {"event": kind, "id": name, "room": room, "viewer": viewer.name, "at": starts_at + when, **fields}

    out = [event("watch", viewer.leaves, units=round(viewer.leaves - viewer.joins))]
    orders = viewer.orders_below < settings.buyer_rate * chance and stream.stock(product) > 0
    if orders or viewer.views_below < settings.page_view_rate * chance:
        out.append(event("page_view", at, units=1))
    if orders:
        money = {"amount": money_text(_pays(stream, product)), "currency": product.price.currency}
        out.append(event("order", at + 5, units=1, **money))
        rate = settings.refund_rate * (REFUND_AFTER_WRONG if viewer.misled else 1.0)
        if viewer.refunds_below < rate:
            out.append(event("refund", at + 3600, units=1, **money))
    if viewer.gifts_below < settings.gift_rate:
        out.append(event("gift", at, units=1, amount="5.00", currency=product.price.currency))
    return out


def _pays(stream: Stream, product: Product) -> Decimal:
    flash = stream.flash(product)
    return stream.price(product) if flash is None else min(flash[0], stream.price(product))


def _mean_one(rng: random.Random, sd: float) -> float:
    """A log-normal factor with mean 1; `sd` is that of its logarithm."""
    return math.exp(rng.gauss(0.0, sd) - sd * sd / 2)
