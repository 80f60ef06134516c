"""What each quantity of a reply claims, and of which product: its true roles and what the words around it say it is.

The method is the opposite of a grammar: a quantity is first compared with all that is true of its product in its
dimension (roles), then every cue word is given to the quantity nearest to it, and a quantity whose cue words name
another role than its value has is wrong ("79.90 with the code" where 79.90 is the flash price).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from components.avatar.harness.schema import Capability, Family
from components.avatar.simulator.capabilities import execute
from components.evaluation.verifier_reading import Reading
from components.evaluation.verifier_tokens import Quantity
from components.evaluation.verifier_words import BOUNDS, COUPON_WORDS, MONEY_CUES, NEGATIONS, TIME_CUES, WITH_CODE, Cue

F = Family
REACH = 9  # tokens between a cue word and its quantity
_CROSSING = 6  # what a comma or an "and" between them adds

_DEFAULTS: Mapping[Family, tuple[str, ...]] = {  # roles that a quantity without cue words may have
    F.PRICE: ("list", "flash", "later"),
    F.STOCK: ("stock", "list", "flash", "variant"),
    F.COUPON: ("saved", "pays", "percent", "list"),
    F.PRICE_AFTER_COUPON: ("list", "saved", "pays", "percent"),
    F.SHIPPING: ("shipping", "list", "flash"),
    F.RETURN_POLICY: ("returns", "list", "flash"),
    F.ATTRIBUTES: ("attribute", "warranty", "returns", "list", "flash"),
    F.FLASH_SALE: ("flash", "later"),
    F.VARIANT: ("variant", "stock", "list", "flash"),
    F.COMPARE: ("list", "flash", "difference"),
}
_ANYWHERE = ("list", "flash", "shipping", "returns", "attribute")


@dataclass(frozen=True)
class Claim:
    """A quantity with its subject. `true_of`: roles in which its value is true; `cued`: what its cue words say it is,
    one set a cue; `tied`: one of a range or of alternatives."""

    quantity: Quantity
    link: int | None
    true_of: frozenset[str]
    cued: tuple[frozenset[str], ...]
    denied: bool
    bound: str | None
    tied: bool
    variant: str | None

    @property
    def dimension(self) -> str | None:
        return self.quantity.dimension

    @property
    def stated(self) -> bool:
        return not self.denied and self.bound is None and not self.tied

    def right(self, family: Family) -> bool:
        """Whether the value is true in a role that the words allow."""
        if any(not roles & self.true_of for roles in self.cued):
            return False
        if self.cued:
            return bool(self.true_of)
        default = _DEFAULTS.get(family, _ANYWHERE)
        if not (self.quantity.bare or self.dimension in ("money", "hours")):
            return bool(self.true_of)  # its unit says what it is: "24 kilos", "18 left", "2 years"
        return bool(self.true_of.intersection(default))


def read_claims(reading: Reading) -> list[Claim]:
    """One claim a quantity, in order."""
    reader = _Reader(reading)
    cues = reader.cues()
    return [reader.claim(index, cues[index]) for index in range(len(reading.quantities))]


class _Reader:
    def __init__(self, reading: Reading) -> None:
        self.r = reading

    def cues(self) -> list[list[frozenset[str]]]:
        """Cue words by quantity: each goes to the nearest one on its side, of its dimension."""
        given: list[list[frozenset[str]]] = [[] for _ in self.r.quantities]
        for at, word in enumerate(self.r.words):
            if self.r.tokens[at].asked:
                continue
            for cue, dimensions in self._cue_at(at, word):
                best = min(
                    (
                        (distance, index)
                        for index, q in enumerate(self.r.quantities)
                        if q.dimension in dimensions and (distance := self._distance(at, q, cue[1])) is not None
                    ),
                    default=None,
                )
                if best is not None:
                    given[best[1]].append(cue[0])
        return given

    def _cue_at(self, at: int, word: str) -> Iterator[tuple[Cue, tuple[str | None, ...]]]:
        money, time = ("money", "percent"), ("hours", "months")
        following = self.r.words[at + 1 : at + 4]
        coded = any(n in self.r.codes for n in range(at + 1, at + 4)) or bool(COUPON_WORDS.intersection(following))
        coded = coded and not NEGATIONS.intersection(following)
        if word in ("with", "using", "after", "use", "apply") and coded:
            yield WITH_CODE, money
        elif word == "from" and any(q.start == at + 1 and q.dimension == "clock" for q in self.r.quantities):
            return
        elif word == "over" and self.r.words[at - 1 : at] in (["hand"], ["hands"]):
            return
        elif word == "takes" and any(
            self.r.words[q.end : q.end + 1] == ["to"] for q in self.r.quantities if q.start == at + 1
        ):
            return  # "takes 612.50 to 552.50"
        elif word == "discount" and COUPON_WORDS.intersection(following[:1]):
            return
        elif word in MONEY_CUES and following[:1] != ["than"]:
            yield MONEY_CUES[word], money
        since = {"of", "after", "from", "upon"}.intersection(
            self.r.words[max(0, at - 2) : at]
        )  # "7 days after delivery"
        if word in TIME_CUES and not since and not (word == "back" and following[:1] == ["in"]):
            yield TIME_CUES[word], time

    def _distance(self, at: int, quantity: Quantity, side: str) -> int | None:
        before = at < quantity.start
        if (side == "before" and not before) or (side == "after" and before):
            return None
        low, high = (at, quantity.start) if before else (quantity.end - 1, at)
        if self.r.tokens[low].sentence != self.r.tokens[high].sentence or quantity.start <= at < quantity.end:
            return None
        distance = high - low + _CROSSING * (self.r.segments[low] != self.r.segments[high])
        return distance if distance <= REACH else None

    def claim(self, index: int, cued: list[frozenset[str]]) -> Claim:
        quantity = self.r.quantities[index]
        dimension = quantity.dimension
        link = self.r.subject(quantity.start)
        variant = self._variant_of(quantity) if dimension == "count" else None
        roles = self._true_of(quantity, dimension, link, variant)
        follows_to = quantity.start > 0 and self.r.words[quantity.start - 1] == "to"  # "up from 399 to 459": now 459
        if follows_to or not any("was" in cue for cue in cued):
            roles = roles - {"was"}
        if self._per_piece(quantity, link):
            roles = roles - {"list", "flash", "pays"}
        return Claim(
            quantity,
            link,
            roles,
            tuple(cued),
            self.r.denied(quantity.start),
            self._bound(quantity),
            self._tied(index),
            variant,
        )

    def _per_piece(self, quantity: Quantity, link: int | None) -> bool:
        """A price "a pair" or "each" of what is sold as a pack or a set."""
        after = self.r.words[quantity.end : quantity.end + 2]
        single = after[:1] in (["each"], ["apiece"]) or (len(after) == 2 and after[0] in ("a", "per"))
        product = self.r.stream.product(link)
        title = product.title.lower().split() if product is not None else []
        return single and not {"pack", "set"}.isdisjoint(title) and after[-1] not in title

    def _bound(self, quantity: Quantity) -> str | None:
        words, segments = self.r.words, self.r.segments
        for at in range(max(0, quantity.start - 2), quantity.start):
            handed = at > 0 and words[at - 1] in ("hand", "hands")  # "hand over 178.92"
            if words[at] in BOUNDS and segments[at] == segments[quantity.start] and not handed:
                return words[at]
        return None

    def _tied(self, index: int) -> bool:
        """A range of days or pieces ("4 to 6 days"), or one of alternatives ("89.90 or 98.90")."""
        quantity = self.r.quantities[index]
        for other in self.r.quantities[max(0, index - 1) : index + 2]:
            low, high = sorted((quantity, other), key=lambda q: q.start)
            if low is high or high.start - low.end != 1:
                continue
            word = self.r.words[low.end]
            if word == "or" or (word == "to" and quantity.dimension in ("hours", "months", "count")):
                return True
        return False

    def _variant_of(self, quantity: Quantity) -> str | None:
        """The variant that a count is of: named in the count's segment, right after it or before it."""
        segment = self.r.segments[quantity.start]
        here = [row for row in self.r.variants if self.r.segments[row[0]] == segment]
        after = [row for row in here if 0 <= row[0] - quantity.end <= 3]
        if after:
            return after[0][2]
        if here:
            return here[-1][2]
        part = self.r.tokens[quantity.start].sentence
        earlier = [row for row in self.r.variants if row[0] < quantity.start and self.r.tokens[row[0]].sentence == part]
        asked = self.r.question.slots.get("variant")
        if self.r.family == F.VARIANT and earlier:
            return earlier[-1][2]
        return asked.lower() if self.r.family == F.VARIANT and isinstance(asked, str) else None

    def _true_of(self, q: Quantity, dimension: str | None, link: int | None, variant: str | None) -> frozenset[str]:
        roles: set[str] = set()
        if self.r.family == F.COMPARE and dimension == "money" and q.value == self._difference():
            roles.add("difference")
        city = self.r.city_of(q.start)
        if dimension == "hours" and city is not None and q.value == self.days(city, link) * 24:
            roles.add("shipping")
        truth = self.r.truth(link)
        if truth is None:
            links = q.bare and q.value / q.factor in {link, *self.r.catalogue.by_link}
            return frozenset(roles | {"link"}) if links else frozenset(roles)
        if dimension == "money" and q.currency in (None, truth.product.price.currency):
            roles |= {role for role, values in truth.money.items() if q.value in values}
        elif dimension == "percent":
            roles |= {role for role, values in truth.percent.items() if q.value in values}
        elif dimension == "hours" and q.value and q.value == truth.product.return_days * 24:
            roles.add("returns")
        elif dimension == "months" and q.value:
            if q.value == truth.product.warranty_months:
                roles.add("warranty")
            if q.value * 30 == truth.product.return_days:  # "a month" of thirty days
                roles.add("returns")
        elif dimension == "count":
            known = truth.variants.get(variant) if variant is not None else None
            if q.value == (truth.stock if known is None else known):
                roles.add("stock" if known is None else "variant")
        elif dimension == "clock":
            roles |= {role for role, times in truth.times.items() if times & q.times}
        if any(_close(q, dimension, measure) for measure in truth.measures):
            roles.add("attribute")
        return frozenset(roles)

    def days(self, city: str, link: int | None) -> int:
        """Days of delivery; the shop's own lookup is the truth here, its default days included."""
        arguments = {"city": city} if link is None else {"city": city, "link_id": link}
        return execute(Capability.SHIPPING_LOOKUP, self.r.stream, arguments).get("days", -1)

    def _difference(self) -> Decimal | None:
        links = self.r.question.slots.get("link_ids", ())
        prices = [truth.price for link in links if (truth := self.r.truth(link)) is not None]
        return abs(prices[0] - prices[1]) if len(prices) == 2 else None


def _close(q: Quantity, dimension: str | None, measure: Quantity) -> bool:
    """Equal up to the rounding of a unit's factor (an hour in minutes)."""
    return dimension == measure.dimension and abs(q.value - measure.value) < Decimal("0.001")
