"""What a reply is about: which words name a product, a variant or a city, and which product, kind and truth each
quantity belongs to.

The method is the opposite of a grammar: every quantity is first compared with all that is true of its product in its
dimension (roles), then every cue word is given to the quantity nearest to it, and a quantity whose cue words name
another role than its value has is wrong ("79.90 with the code" where 79.90 is the flash price).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import pairwise

from components.avatar.harness.schema import Capability, Family
from components.avatar.simulator.capabilities import execute
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.scenario import Question
from components.avatar.simulator.stream import Stream
from components.evaluation.verifier_tokens import Quantity, Token, quantities, tokenize
from components.evaluation.verifier_words import (
    BOUNDS,
    CARDINALS,
    COUPON_WORDS,
    CURRENCIES,
    JOINS,
    LINK_NOUNS,
    MONEY_CUES,
    NEGATIONS,
    TIME_CUES,
    UNITS,
    VERBS,
    WITH_CODE,
    Cue,
)
from components.evaluation.verifier_world import Truth, attribute_nouns

F = Family
REACH = 9  # tokens between a cue word and its quantity
_CROSSING = 6  # what a comma or an "and" between them adds
GAP = 2  # other words inside a phrase

_DEFAULTS: Mapping[Family, tuple[str, ...]] = {  # roles that a quantity without cue words may have
    F.PRICE: ("list", "flash"),
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
_BARE: Mapping[Family, str] = {  # dimension of a number without unit where nothing beside it has one
    **dict.fromkeys((F.PRICE, F.COUPON, F.PRICE_AFTER_COUPON, F.COMPARE, F.FLASH_SALE), "money"),
    **dict.fromkeys((F.STOCK, F.VARIANT), "count"),
    **dict.fromkeys((F.SHIPPING, F.RETURN_POLICY), "hours"),
}


@dataclass(frozen=True)
class Mention:
    """Tokens that name a product. `title`: by words of its title, not by its number."""

    link: int
    start: int
    end: int
    title: bool
    denied: bool


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


class Reading:
    """One reply about one question at one moment of the stream."""

    def __init__(self, text: str, question: Question, family: Family, stream: Stream) -> None:
        self.question, self.family, self.stream = question, family, stream
        self.catalogue: Catalogue = stream.catalogue
        self.nouns = attribute_nouns(self.catalogue.products)
        self.tokens: list[Token] = tokenize(text)
        self.words = [token.text for token in self.tokens]
        self.codes = [at for at, token in enumerate(self.tokens) if self._is_code(at, token)]
        self.mentions = sorted([*self._links(), *self._titles()], key=lambda mention: mention.start)
        self.variants = list(self._variants())
        self.cities = [(at, city) for city in self.catalogue.cities for at in self.runs(city.lower().split())]
        self.quantities = self._quantities()
        cues = self._cues()
        self.claims = [self._claim(index, cues[index]) for index in range(len(self.quantities))]

    # Words and phrases

    @cached_property
    def segments(self) -> list[int]:
        """Number of the piece of a sentence that each token stands in: punctuation and words such as "and" divide."""
        found, joins = [], 0
        for at, token in enumerate(self.tokens):
            number = token.text == "and" and self._inside_number(at)
            joins += token.text in JOINS and not number
            found.append(token.part * 100 + joins)
        return found

    def runs(self, words: list[str]) -> list[int]:
        """Where `words` stand one after the other."""
        size = len(words)
        return [at for at in range(len(self.words) - size + 1) if self.words[at : at + size] == words]

    def phrase(self, phrase: str) -> Iterator[int]:
        """Where the words of `phrase` begin, in this order within one part and with at most GAP others between; never
        in a question."""
        wanted = phrase.split()
        for start, token in enumerate(self.tokens):
            if token.text != wanted[0] or token.asked:
                continue
            at = start
            for word in wanted[1:]:
                window = self.tokens[at + 1 : at + 2 + GAP]
                step = next((n for n, t in enumerate(window) if t.text == word and t.part == token.part), None)
                if step is None:
                    break
                at += step + 1
            else:
                yield start

    def says(self, phrases: Iterable[str]) -> list[int]:
        return sorted(at for phrase in phrases for at in self.phrase(phrase))

    def negations(self, segment: int, before: int | None = None) -> int:
        """Number of negating words in the segment (before a position)."""
        return sum(
            1
            for at, word in enumerate(self.words)
            if word in NEGATIONS and self.segments[at] == segment and (before is None or at < before)
        )

    def denied(self, at: int, reach: int = 3) -> bool:
        """Whether an odd number of negations stands at most `reach` tokens before `at` in its segment."""
        window = range(max(0, at - reach), at)
        count = sum(self.words[n] in NEGATIONS and self.segments[n] == self.segments[at] for n in window)
        return count % 2 == 1

    def subject(self, at: int) -> int | None:
        """The product that a word is about: named before it in its segment, or "for link 5" after it, or the one named
        last, or the question's."""
        segment = self.segments[at]
        before = [m for m in self.mentions if m.start <= at]
        here = [m for m in before if self.segments[m.start] == segment]
        if here:
            return here[-1].link
        after = [m for m in self.mentions if m.start > at and self.segments[m.start] == segment]
        if after and any(word in ("for", "of", "on") for word in self.words[at : after[0].start]):
            return after[0].link
        if before and self.tokens[before[-1].start].sentence == self.tokens[at].sentence:
            return before[-1].link
        return self.asked

    @property
    def asked(self) -> int | None:
        """The question's product, else the one on air."""
        return self.question.link_id if self.question.link_id is not None else self.stream.on_air

    @property
    def about_asked(self) -> bool:
        """The reply names no product, or the one that was asked about among others."""
        named = {mention.link for mention in self.mentions}
        return not named or self.question.link_id is None or self.question.link_id in named

    def truth(self, link: int | None) -> Truth | None:
        product = self.stream.product(link)
        return None if product is None else Truth(product, self.stream, self.nouns)

    # Names

    def _is_code(self, at: int, token: Token) -> bool:
        if token.text in self.catalogue.coupon_codes:
            return True
        if token.kind == "code":
            return token.raw.upper() == token.raw and len(token.raw) > 3
        return token.raw.isupper() and len(token.raw) > 3 and self.words[at - 1 : at] in (["code"], ["voucher"])

    def _links(self) -> Iterator[Mention]:
        asked = {self.question.link_id, *self.question.slots.get("link_ids", ())}
        for at, token in enumerate(self.tokens):
            number = int(token.text) if token.text.isdigit() and len(token.text) < 6 else CARDINALS.get(token.text)
            if number is None:
                continue
            before = self.words[at - 1] if at else ""
            after = self.words[at + 1] if at + 1 < len(self.words) else ""
            counted = after in UNITS and not (before in LINK_NOUNS and after in ("left", "available", "remaining"))
            if counted or after in CURRENCIES or before in CURRENCIES:
                continue
            named = before in LINK_NOUNS and (before != "no" or number in asked)
            if token.kind == "word" and not named:
                continue
            bare = number in asked and (after in VERBS or before in ("on", "for", "of", "no", "find", "about"))
            other = number in self.catalogue.by_link and after in VERBS and self.family == F.COMPARE
            shown = self.family == F.ON_AIR and number in self.catalogue.by_link
            if named or bare or other or shown:
                start = at - 1 if before in LINK_NOUNS and before != "no" else at
                yield Mention(number, start, at + 1, False, self.denied(at))

    def _titles(self) -> Iterator[Mention]:
        titles = {link: product.title.lower().split() for link, product in self.catalogue.by_link.items()}
        at = 0
        while at < len(self.words):
            best, owners = 1, set()
            for link, title in titles.items():
                for begin in range(len(title)):
                    size = 0
                    while title[begin + size : begin + size + 1] == self.words[at + size : at + size + 1] != []:
                        size += 1
                    if size > best:
                        best, owners = size, {link}
                    elif size == best:
                        owners.add(link)
            if best > 1 and len(owners) == 1:
                yield Mention(owners.pop(), at, at + best, True, self.denied(at))
            at += best

    def head_named(self, link: int) -> bool:
        """Whether the last word of the title stands in the reply, and no other title has all of the reply's words of
        this one."""
        titles = {other: product.title.lower().split() for other, product in self.catalogue.by_link.items()}
        mine = titles[link]
        if mine[-1] not in self.words or self.denied(self.words.index(mine[-1])):
            return False
        said = {word for word in mine if word in self.words}
        return all(other == link or not said <= set(title) for other, title in titles.items())

    def _variants(self) -> Iterator[tuple[int, int, str, int]]:
        """(start, end, value, link) of every named variant of the asked product, the longest first."""
        links = [self.asked, *(mention.link for mention in self.mentions)]
        taken: set[int] = set()
        for link in dict.fromkeys(links):
            truth = self.truth(link)
            for value in sorted(truth.variants if truth else (), key=len, reverse=True):
                parts = [token.text for token in tokenize(value)]
                plain = len(parts) > 1 or (len(value) > 2 and not value.isdigit())
                for at in self.runs(parts):
                    sized = self.words[at - 1 : at] and self.words[at - 1] in (
                        "in",
                        "size",
                        "for",
                        "sizes",
                        "and",
                        "eu",
                    )
                    if (plain or sized) and not taken.intersection(range(at, at + len(parts))):
                        taken.update(range(at, at + len(parts)))
                        yield at, at + len(parts), value, link  # type: ignore[misc]

    # Quantities

    def _inside_number(self, at: int) -> bool:
        before, after = self.words[at - 1 : at], self.words[at + 1 : at + 2]
        return (
            before in (["hundred"], ["thousand"]) and bool(after) and (after[0] in CARDINALS or after[0].endswith("ty"))
        )

    def _quantities(self) -> list[Quantity]:
        taken = {n for m in self.mentions if not m.title for n in range(m.start, m.end)}
        taken |= {n for start, end, _, _ in self.variants for n in range(start, end)} | set(self.codes)
        pairs = {pair for p in self.catalogue.products for pair in pairwise(p.title.lower().split())}
        found = [
            q
            for q in quantities(self.tokens, self.nouns)
            if not taken.intersection(range(q.start, q.end)) and tuple(self.words[q.start : q.start + 2]) not in pairs
        ]
        return [self._unit(index, found) for index in range(len(found))]

    def _unit(self, index: int, found: list[Quantity]) -> Quantity:
        """The quantity with its dimension: its own, else that of the nearest other one of its sentence, else the one
        that the family asks about (days where it is a time)."""
        quantity = found[index]
        if quantity.dimension is not None:
            return quantity
        sentence = self.tokens[quantity.start].sentence
        for other in [*found[:index][::-1], *found[index + 1 :]]:
            if other.dimension not in (None, "clock", "percent") and self.tokens[other.start].sentence == sentence:
                return replace(
                    quantity, dimension=other.dimension, factor=other.factor, value=quantity.value * other.factor
                )
        dimension = _BARE.get(self.family)
        factor = Decimal(24 if dimension == "hours" else 1)
        return replace(quantity, dimension=dimension, factor=factor, value=quantity.value * factor)

    def _cues(self) -> list[list[frozenset[str]]]:
        """Cue words by quantity: each goes to the nearest one on its side, of its dimension."""
        given: list[list[frozenset[str]]] = [[] for _ in self.quantities]
        for at, word in enumerate(self.words):
            if self.tokens[at].asked:
                continue
            for cue, dimensions in self._cue_at(at, word):
                best = min(
                    (
                        (distance, index)
                        for index, q in enumerate(self.quantities)
                        if q.dimension in dimensions and (distance := self._distance(at, q, cue[1])) is not None
                    ),
                    default=None,
                )
                if best is not None:
                    given[best[1]].append(cue[0])
        return given

    def _cue_at(self, at: int, word: str) -> Iterator[tuple[Cue, tuple[str | None, ...]]]:
        money, time = ("money", "percent"), ("hours", "months")
        following = self.words[at + 1 : at + 4]
        coded = any(n in self.codes for n in range(at + 1, at + 4)) or bool(COUPON_WORDS.intersection(following))
        coded = coded and not NEGATIONS.intersection(following)
        if word in ("with", "using", "after", "use", "apply") and coded:
            yield WITH_CODE, money
        elif word == "from" and any(q.start == at + 1 and q.dimension == "clock" for q in self.quantities):
            return
        elif word == "discount" and COUPON_WORDS.intersection(following[:1]):
            return
        elif word in MONEY_CUES and following[:1] != ["than"]:
            yield MONEY_CUES[word], money
        since = {"of", "after", "from", "upon"}.intersection(self.words[max(0, at - 2) : at])  # "7 days after delivery"
        if word in TIME_CUES and not since and not (word == "back" and following[:1] == ["in"]):
            yield TIME_CUES[word], time

    def _distance(self, at: int, quantity: Quantity, side: str) -> int | None:
        before = at < quantity.start
        if (side == "before" and not before) or (side == "after" and before):
            return None
        low, high = (at, quantity.start) if before else (quantity.end - 1, at)
        if self.tokens[low].sentence != self.tokens[high].sentence or quantity.start <= at < quantity.end:
            return None
        distance = high - low + _CROSSING * (self.segments[low] != self.segments[high])
        return distance if distance <= REACH else None

    def _claim(self, index: int, cued: list[frozenset[str]]) -> Claim:
        quantity = self.quantities[index]
        dimension = quantity.dimension
        link = self.subject(quantity.start)
        variant = self._variant_of(quantity) if dimension == "count" else None
        roles = self._true_of(quantity, dimension, link, variant)
        follows_to = quantity.start > 0 and self.words[quantity.start - 1] == "to"  # "up from 399 to 459": now 459
        if follows_to or not any("was" in cue for cue in cued):
            roles = roles - {"was"}
        if self._per_piece(quantity, link):
            roles = roles - {"list", "flash", "pays"}
        return Claim(
            quantity,
            link,
            roles,
            tuple(cued),
            self.denied(quantity.start),
            self._bound(quantity),
            self._tied(index),
            variant,
        )

    def _per_piece(self, quantity: Quantity, link: int | None) -> bool:
        """A price "a pair" or "each" of what is sold as a pack or a set."""
        after = self.words[quantity.end : quantity.end + 2]
        single = after[:1] in (["each"], ["apiece"]) or (len(after) == 2 and after[0] in ("a", "per"))
        product = self.stream.product(link)
        title = product.title.lower().split() if product is not None else []
        return single and not {"pack", "set"}.isdisjoint(title) and after[-1] not in title

    def _bound(self, quantity: Quantity) -> str | None:
        window = range(max(0, quantity.start - 2), quantity.start)
        return next(
            (
                self.words[n]
                for n in window
                if self.words[n] in BOUNDS and self.segments[n] == self.segments[quantity.start]
            ),
            None,
        )

    def _tied(self, index: int) -> bool:
        """A range of days or pieces ("4 to 6 days"), or one of alternatives ("89.90 or 98.90")."""
        quantity = self.quantities[index]
        for other in self.quantities[max(0, index - 1) : index + 2]:
            low, high = sorted((quantity, other), key=lambda q: q.start)
            if low is high or high.start - low.end != 1:
                continue
            word = self.words[low.end]
            if word == "or" or (word == "to" and quantity.dimension in ("hours", "months", "count")):
                return True
        return False

    def _variant_of(self, quantity: Quantity) -> str | None:
        """The variant that a count is of: named in the count's segment, right after it or before it."""
        segment = self.segments[quantity.start]
        here = [row for row in self.variants if self.segments[row[0]] == segment]
        after = [row for row in here if 0 <= row[0] - quantity.end <= 3]
        if after:
            return after[0][2]
        if here:
            return here[-1][2]
        part = self.tokens[quantity.start].sentence
        earlier = [row for row in self.variants if row[0] < quantity.start and self.tokens[row[0]].sentence == part]
        asked = self.question.slots.get("variant")
        if self.family == F.VARIANT and earlier:
            return earlier[-1][2]
        return asked.lower() if self.family == F.VARIANT and isinstance(asked, str) else None

    def city_of(self, at: int) -> str | None:
        """The city named in the same segment, else the question's."""
        here = [(abs(place - at), city) for place, city in self.cities if self.segments[place] == self.segments[at]]
        asked = self.question.slots.get("city")
        return min(here)[1] if here else (asked if isinstance(asked, str) else None)

    def _true_of(self, q: Quantity, dimension: str | None, link: int | None, variant: str | None) -> frozenset[str]:
        roles: set[str] = set()
        if self.family == F.COMPARE and dimension == "money" and q.value == self._difference():
            roles.add("difference")
        city = self.city_of(q.start)
        if dimension == "hours" and city is not None and q.value == self.days(city, link) * 24:
            roles.add("shipping")
        truth = self.truth(link)
        if truth is None:
            links = q.bare and q.value / q.factor in {link, *self.catalogue.by_link}
            return frozenset(roles | {"link"}) if links else frozenset(roles)
        if dimension == "money" and q.currency in (None, truth.product.price.currency):
            roles |= {role for role, values in truth.money.items() if q.value in values}
        elif dimension == "percent":
            roles |= {role for role, values in truth.percent.items() if q.value in values}
        elif dimension == "hours" and q.value and q.value == truth.product.return_days * 24:
            roles.add("returns")
        elif dimension == "months" and q.value and q.value == truth.product.warranty_months:
            roles.add("warranty")
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
        return execute(Capability.SHIPPING_LOOKUP, self.stream, arguments).get("days", -1)

    def _difference(self) -> Decimal | None:
        links = self.question.slots.get("link_ids", ())
        prices = [truth.price for link in links if (truth := self.truth(link)) is not None]
        return abs(prices[0] - prices[1]) if len(prices) == 2 else None


def _close(q: Quantity, dimension: str | None, measure: Quantity) -> bool:
    """Equal up to the rounding of a unit's factor (an hour in minutes)."""
    return dimension == measure.dimension and abs(q.value - measure.value) < Decimal("0.001")
