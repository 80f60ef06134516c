"""What a reply is about: which words name a product, a variant or a city, which product a word belongs to, and which
dimension each number has.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import pairwise

from components.avatar.harness.schema import Family
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.scenario import Question
from components.avatar.simulator.stream import Stream
from components.evaluation.verifier_tokens import Quantity, Token, quantities, tokenize
from components.evaluation.verifier_words import (
    CARDINALS,
    CURRENCIES,
    JOINS,
    LINK_NOUNS,
    NEGATIONS,
    UNITS,
    VERBS,
)
from components.evaluation.verifier_world import Truth, attribute_nouns

F = Family
GAP = 2  # other words inside a phrase

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
            if not taken.intersection(range(q.start, q.end)) and not self._of_things(q, pairs)
        ]
        return [self._unit(index, found) for index in range(len(found))]

    def _of_things(self, q: Quantity, pairs: set[tuple[str, str]]) -> bool:
        """A number that is no figure of the shop: a part of a title ("twelve shades"), or a small one in words before
        things that the question does not ask to count ("three candidates")."""
        beside = [*self.words[q.start : q.start + 2], ""]
        after = [*self.words[q.end : q.end + 1], ""][0]
        if not pairs.isdisjoint({(beside[0], beside[1]), (beside[0], after.rstrip("s"))}):
            return True
        if self.family in (F.STOCK, F.VARIANT) or not (q.bare and q.worded and q.value < 13):
            return False
        titled = {title_word.rstrip("s") for p in self.catalogue.products for title_word in p.title.lower().split()}
        return len(after) > 3 and after.endswith("s") and after not in VERBS and after.rstrip("s") not in titled

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

    def city_of(self, at: int) -> str | None:
        """The city named in the same segment, else the question's."""
        here = [(abs(place - at), city) for place, city in self.cities if self.segments[place] == self.segments[at]]
        asked = self.question.slots.get("city")
        return min(here)[1] if here else (asked if isinstance(asked, str) else None)
