"""Draws scenarios from a merchant's logs, with training and test sets that share neither questions nor products.

A question's text is a template: where it names its link once ("#7", "link 7"), it may ask for another product of the
same split, and where it names its city, for another city. So a few hundred questions give many thousand distinct
scenarios.
"""

import hashlib
import random
import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from components.avatar.harness.schema import Family, Harness
from components.avatar.simulator.catalogue import Catalogue, Product, attribute_key
from components.avatar.simulator.families import FACT_FAMILIES, LINK_FAMILIES, SUPPORTED, needs_of
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.scenario import FaultKind, Question, Scenario, StreamEvent, ToolFault
from components.avatar.simulator.typing_slips import mistyped
from components.avatar.simulator.variation import varied_products

T = TypeVar("T")

Split = Literal["train", "test"]

TEST_SHARE = 0.3  # of products and of each family's questions
TRANSIENT = (FaultKind.TIMEOUT, FaultKind.MALFORMED)
OUTAGES = (
    (FaultKind.OUTAGE, 99),
    (FaultKind.PERMISSION_DENIED, 99),
    (FaultKind.TIMEOUT, 99),
)


def sample_scenarios(
    merchant: Merchant,
    n: int,
    seed: int,
    split: Split,
    families: Sequence[Family] | None = None,
    *,
    fault_rate: float = 0.0,
    varied_share: float = 0.0,
    mistyped_share: float = 0.0,
    questions_per_episode: int = 1,
    events: Sequence[StreamEvent] = (),
    prefix: str = "",
) -> list[Scenario]:
    """`n` scenarios, families in equal shares (as far as the split has questions for them), order and contents from
    `seed`.

    Args:
        families: default all that the merchant has questions and tools for. A family without a tool may be asked for:
            the right answer then is that it cannot be checked.
        fault_rate: share of scenarios with one transient fault of a needed tool. `outage` scenarios have their own,
            lasting fault.
        varied_share: share of scenarios whose products have facts of their own (variation.py), not the catalogue's.
        mistyped_share: share of questions with a slip of the keyboard (typing_slips.py).
        questions_per_episode: viewer messages of one scenario, each of a family of its own.
        events: given to every scenario.
        prefix: of the scenarios' ids, default `<merchant>-<split>-<seed>`.

    Raises ValueError when the split has no question of a family that was asked for.
    """
    pool = Pool(merchant, split)
    wanted = list(families) if families is not None else pool.families()
    empty = [family for family in wanted if family not in pool.drawable()]
    if empty or not wanted:
        raise ValueError(
            f"{merchant.name} has no {split} questions of {[family.value for family in empty] or 'any family'}"
        )
    rng = random.Random(f"{merchant.name}/{split}/{seed}")
    order = [
        family
        for _ in range(n * questions_per_episode // len(wanted) + 1)
        for family in rng.sample(wanted, len(wanted))
    ]
    scenarios = []
    for number in range(n):
        chosen = order[number * questions_per_episode : (number + 1) * questions_per_episode]
        on_air = rng.choice(pool.products).link_id
        questions, faults = [], []
        for family in chosen:
            question, question_faults = pool.draw(family, rng)
            questions.append(question)
            faults.extend(question_faults)
        if not faults and rng.random() < fault_rate:
            faults.extend(_transient(rng.choice(questions), merchant.harness, rng))
        scenario_seed = rng.randrange(2**31)
        slips = random.Random(f"slips:{scenario_seed}")
        questions = [_typed(question, mistyped_share, slips) for question in questions]
        scenarios.append(
            Scenario(
                id=f"{prefix or f'{merchant.name}-{split}-{seed}'}-{number:05d}",
                seed=scenario_seed,
                merchant=merchant.name,
                questions=tuple(questions),
                faults=tuple(faults),
                events=tuple(events),
                on_air=on_air,
                products=pool.varied(questions, on_air, varied_share, random.Random(f"facts:{scenario_seed}")),
            )
        )
    return scenarios


class Pool:
    """The questions and products of one split."""

    def __init__(self, merchant: Merchant, split: Split) -> None:
        self.catalogue: Catalogue = merchant.catalogue
        self.harness: Harness = merchant.harness
        self.products = part(
            merchant.catalogue.products, split, lambda product: f"{merchant.name}/product/{product.link_id}"
        )
        by_family: dict[Family, list[Question]] = {}
        for question in merchant.questions:
            if question.family is not None:
                by_family.setdefault(question.family, []).append(question)
        self.questions = {
            family: [q for q in part(rows, split, lambda q: f"{merchant.name}/question/{q.id}") if self._usable(q)]
            for family, rows in by_family.items()
        }
        self._askable = [
            family
            for family, rows in self.questions.items()
            if family in FACT_FAMILIES and any(need.calls for q in rows[:1] for need in needs_of(q, self.harness))
        ]

    def families(self) -> list[Family]:
        """Families that the split has questions and the merchant tools for, in the schema's order."""
        return [f for f in self.drawable() if f not in FACT_FAMILIES or f in self._askable]

    def drawable(self) -> list[Family]:
        """Also those that no tool answers. `outage` is made of the questions of any family with a tool."""
        return [
            family
            for family in Family
            if (family in SUPPORTED and self.questions.get(family)) or (family == Family.OUTAGE and self._askable)
        ]

    def draw(self, family: Family, rng: random.Random) -> tuple[Question, list[ToolFault]]:
        """A question of `family` with new slots, and the lasting fault that an outage needs."""
        if family != Family.OUTAGE:
            return self._fresh(rng.choice(self.questions[family]), rng), []
        asked = rng.choice(self._askable)
        question = self._fresh(rng.choice(self.questions[asked]), rng)
        slots = {**question.slots, "asks": asked.value}
        question = question.model_copy(update={"family": Family.OUTAGE, "slots": slots})
        capability = rng.choice([need.calls[0].capability for need in needs_of(question, self.harness) if need.calls])
        kind, times = rng.choice(OUTAGES)
        return question, [ToolFault(capability=capability, kind=kind, times=times)]

    def varied(
        self, questions: Sequence[Question], on_air: int, share: float, rng: random.Random
    ) -> tuple[Product, ...]:
        """Fresh facts for the products of `questions` and the one on air, in `share` of the cases; else none. A search
        asks about the whole catalogue, which stays as it is."""
        if rng.random() >= share or any(question.family == Family.SEARCH for question in questions):
            return ()
        links = [on_air]
        for question in questions:
            links += [question.link_id, *question.slots.get("link_ids", ())]
        return varied_products(self.catalogue, links, self.products, rng)

    def _usable(self, question: Question) -> bool:
        """Asks about a product of this split, or can be made to."""
        if question.family == Family.COMPARE:
            return len(self.products) > 1 and _pair_pattern(question) is not None
        return not self._names_product(question) or bool(self._targets(question))

    def _names_product(self, question: Question) -> bool:
        """Whether the question is about one product of the catalogue, small talk about it included: such a product
        belongs to one split."""
        return question.family in LINK_FAMILIES or question.link_id in self.catalogue.by_link

    def _targets(self, question: Question) -> list[Product]:
        products = [p for p in self.products if _fits(p, question)]
        if _link_pattern(question) is not None and "variant" not in question.slots:
            return products
        return [p for p in products if p.link_id == question.link_id]

    def _fresh(self, question: Question, rng: random.Random) -> Question:
        text, slots, link = question.text, dict(question.slots), question.link_id
        pattern = _link_pattern(question)
        pair = _pair_pattern(question)
        if question.family == Family.COMPARE and pair is not None:
            first, second = (product.link_id for product in rng.sample(self.products, 2))
            new = {str(old): str(link) for old, link in zip(slots["link_ids"], (first, second), strict=True)}
            text = pair.sub(lambda match: new[match[0]], text)
            slots["link_ids"] = [first, second]
        if question.family == Family.UNKNOWN_LINK and pattern is not None:
            links = [q.link_id for q in self.questions[Family.UNKNOWN_LINK] if q.link_id is not None]
            link = rng.choice(links)
            text = pattern.sub(str(link), text)
        elif question.family != Family.COMPARE and self._names_product(question):
            link = rng.choice(self._targets(question)).link_id
            if pattern is not None:
                text = pattern.sub(str(link), text)
        city = slots.get("city")
        if isinstance(city, str) and text.count(city) == 1 and self.catalogue.cities:
            slots["city"] = rng.choice(self.catalogue.cities)
            text = text.replace(city, slots["city"])
        return question.model_copy(update={"text": text, "slots": slots, "link_id": link})


def part(rows: Sequence[T], split: Split, key: Callable[[T], str]) -> list[T]:
    """The rows of `rows` that belong to `split`: the `TEST_SHARE` of them with the smallest hash is the test set, at
    least one row.

    By rank, not by threshold: a family of few questions still has both.
    """
    ranked = sorted(rows, key=lambda row: hashlib.sha256(key(row).encode()).digest())
    cut = max(1, round(len(ranked) * TEST_SHARE)) if ranked else 0
    chosen = ranked[:cut] if split == "test" else ranked[cut:]
    keep = {key(row) for row in chosen}
    return [row for row in rows if key(row) in keep]


def _typed(question: Question, share: float, rng: random.Random) -> Question:
    if rng.random() >= share:
        return question
    return question.model_copy(update={"text": mistyped(question.text, rng, map(str, question.slots.values()))})


def _transient(question: Question, harness: Harness, rng: random.Random) -> list[ToolFault]:
    capabilities = [need.calls[0].capability for need in needs_of(question, harness) if need.calls]
    if not capabilities:
        return []
    return [ToolFault(capability=rng.choice(capabilities), kind=rng.choice(TRANSIENT), times=1)]


def _fits(product: Product, question: Question) -> bool:
    attribute, variant = question.slots.get("attribute"), question.slots.get("variant")
    if isinstance(variant, str) and variant.lower() not in {v.value.lower() for v in product.variants}:
        return False
    if question.family == Family.VARIANT and not any(v.stock for v in product.variants):
        return False
    if question.family != Family.ATTRIBUTES or not isinstance(attribute, str):
        return True
    known = {attribute_key(name) for name in product.attributes} | {"warranty", "warranty months", "return days"}
    return attribute_key(attribute) in known


def _link_pattern(question: Question) -> re.Pattern[str] | None:
    """Finds the link's number in the text, if it stands there exactly once."""
    if question.link_id is None:
        return None
    pattern = re.compile(rf"(?<!\d){question.link_id}(?!\d)")
    return pattern if len(pattern.findall(question.text)) == 1 else None


def _pair_pattern(question: Question) -> re.Pattern[str] | None:
    """Finds the two compared links' numbers in the text, if each stands there exactly once."""
    links = question.slots.get("link_ids")
    if question.family != Family.COMPARE or not isinstance(links, list) or len(set(links)) != 2:
        return None
    pattern = re.compile(rf"(?<!\d)(?:{links[0]}|{links[1]})(?!\d)")
    return pattern if sorted(pattern.findall(question.text)) == sorted(map(str, links)) else None
