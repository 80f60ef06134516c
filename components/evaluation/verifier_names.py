"""What a reply states by naming: products, variants, the state of an order, which of two is cheaper.

`false` lists the statements that the stream does not bear out.
"""

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

from components.avatar.harness.schema import Capability, Family
from components.avatar.simulator.capabilities import execute
from components.evaluation.verifier_claims import Claim
from components.evaluation.verifier_reading import Reading
from components.evaluation.verifier_statements import Statements
from components.evaluation.verifier_words import (
    EXISTS,
    NEGATIONS,
    NO_CHOICE,
    NOT_SHOWN,
    ORDER_WORDS,
    OTHER_MATTERS,
    SOLD_OUT,
    YES,
)

F = Family
_NO_LINK = frozenset({("no", noun) for noun in ("link", "links", "item", "product", "number")})


class Names:
    """Statements of one reading that name something, each against the truth of its moment."""

    def __init__(self, reading: Reading, claims: list[Claim], statements: Statements) -> None:
        self.reading, self.claims, self.statements = reading, claims, statements
        self.link = reading.question.link_id
        self.truth = reading.truth(self.link)

    @cached_property
    def false(self) -> list[str]:
        checks = (
            self._false_names(),
            self._false_existence(),
            self._false_variants(),
            self._false_order(),
            self._false_comparison(),
        )
        return list(dict.fromkeys(text for check in checks for text in check))

    # Names

    @cached_property
    def named(self) -> list[int]:
        """Products that the reply names, by number or title, and does not deny."""
        tokens = self.reading.tokens
        return [m.link for m in self.reading.mentions if not m.denied and not tokens[m.start].asked]

    @cached_property
    def mismatched(self) -> bool:
        """A title beside another product's number, or only another product's name where one was asked about."""
        r = self.reading
        titles = [m for m in r.mentions if m.title and not m.denied]
        numbers = [m for m in r.mentions if not m.title and not m.denied]
        for title in titles:
            near = [n for n in numbers if 0 <= title.start - n.end <= 3 or 0 <= n.start - title.end <= 3]
            if near and all(number.link != title.link for number in near):
                return True
        return False

    def _false_names(self) -> Iterator[str]:
        r = self.reading
        if self.mismatched:
            yield "title and number of two products"
        if r.family == F.ON_AIR:
            if any(link != r.stream.on_air for link in self.named):
                yield "another product on air"
        elif r.family == F.SEARCH:
            found = self._results
            if any(link not in found for link in self.named):
                yield "a product that was not found"
        elif (
            r.family == F.UNKNOWN_LINK
            and any(not there for there, _, _ in self.statements.stock_statements())
            and not self.denies_link(self.link)
        ):
            yield "a product that does not exist"

    def denies_link(self, link: int | None) -> bool:
        """A segment that names the link, or speaks of finding or having one, is negated. "Sold out" is no denial, nor
        is "no price for link 77"."""
        r = self.reading
        for segment in dict.fromkeys(r.segments):
            words = [w for w, s in zip(r.words, r.segments, strict=True) if s == segment]
            if (
                segment in self.statements.refusals
                or not NEGATIONS.intersection(words)
                or OTHER_MATTERS.intersection(words)
            ):
                continue
            numbers = {word for word in words if word.isdigit()}
            if str(link) in numbers or (not numbers and EXISTS.intersection(words)):
                return True
            if not numbers and any(pair in _NO_LINK for pair in pairwise(words)):
                return True
        return bool(r.says(("unknown link", "unknown item", "not in stream", "not in list")))

    def _false_existence(self) -> Iterator[str]:
        """Says of a product that it does not exist, or that there are no links at all."""
        r = self.reading
        if r.family == F.UNKNOWN_LINK:
            return
        for at, pair in enumerate(pairwise(r.words)):
            following = r.words[at + 2] if at + 2 < len(r.words) else ""
            if pair in _NO_LINK and (not following.isdigit() or int(following) in r.catalogue.by_link):
                if following != "needed":
                    yield " ".join(pair)
        gone = r.says(("does not exist", "not one of ours", "not in our shop", "not have link", "not find link"))
        if gone and (r.truth(r.subject(gone[0])) is not None):
            yield "does not exist"

    @cached_property
    def _results(self) -> list[int]:
        query = str(self.reading.question.slots.get("query", ""))
        rows = execute(Capability.PRODUCT_SEARCH, self.reading.stream, {"query": query})["results"]
        return [row["link_id"] for row in rows]

    @cached_property
    def result_said(self) -> bool:
        if not self._results:
            return not NEGATIONS.isdisjoint(self.reading.words) and not self.named
        if self.named:
            return any(link in self._results for link in self.named) and not self.mismatched
        return any(self.reading.head_named(link) for link in self._results)

    @cached_property
    def shown_said(self) -> bool:
        shown = self.reading.stream.on_air
        if shown is None or shown not in self.reading.catalogue.by_link:
            return bool(self.reading.says(NOT_SHOWN))
        if self.named:
            return shown in self.named and not self.mismatched
        return self.reading.head_named(shown)

    # Variants

    @cached_property
    def offered(self) -> dict[str, bool]:
        """Named variant of the asked product -> whether the reply says that it is there; the last word counts."""
        r = self.reading
        states: dict[str, bool] = {}
        for start, end, value, link in r.variants:
            if link != r.asked:
                continue
            segment = r.segments[start]
            gone = [at for at in r.says(SOLD_OUT) if r.tokens[at].part == r.tokens[start].part and at >= start]
            later = [row for row in r.variants if row[0] > end and gone and row[0] < gone[0]]
            none = bool(gone) and not later and r.negations(r.segments[gone[0]], before=gone[0]) % 2 == 0
            zero = any(c.variant == value and c.quantity.value == 0 for c in self.claims if c.stated)
            states[value] = not (none or zero or r.negations(segment, before=start) % 2 == 1)
        return states

    def variant_said(self, asked: str) -> bool:
        r = self.reading
        if self.truth is None:
            return False
        stock = self.truth.variants.get(asked, 0)
        counted = any(c.stated and c.variant == asked and "variant" in c.true_of for c in self.claims)
        if asked in self.offered:
            wrong_count = any(
                c.stated and c.variant == asked and "variant" not in c.true_of
                for c in self.claims
                if c.dimension == "count"
            )
            return self.offered[asked] == (stock > 0) and not wrong_count
        stated = [there for there, link, _ in self.statements.stock_statements() if link == r.asked]
        yes = bool(YES.intersection(r.words))
        return counted or (bool(stated) and stated[-1] == (stock > 0)) or (yes and stock > 0)

    def _false_variants(self) -> Iterator[str]:
        if self.truth is None or self.reading.family not in (F.VARIANT, F.STOCK):
            return
        for value, there in self.offered.items():
            if value in self.truth.variants and there != (self.truth.variants[value] > 0):
                yield f"{value} {'there' if there else 'gone'}"

    @cached_property
    def no_choice(self) -> bool:
        return bool(self.reading.says(NO_CHOICE))

    # Orders, comparisons, gifts

    @cached_property
    def _states(self) -> set[str]:
        r = self.reading
        said: set[str] = set()
        for state, phrases in ORDER_WORDS.items():
            for at in r.says(phrases):
                if not r.denied(at, 4):
                    said.add(state)
        return said

    @cached_property
    def _state(self) -> str | None:
        order = self.reading.question.slots.get("order_id")
        if self.reading.family != F.ORDER_STATUS or not isinstance(order, str):
            return None
        return execute(Capability.ORDER_STATUS_LOOKUP, self.reading.stream, {"order_id": order})["status"]

    @property
    def order_said(self) -> bool:
        return self._state in self._states

    def _false_order(self) -> Iterator[str]:
        if self._state is None:
            return
        yield from sorted(self._states - {self._state})
        r = self.reading
        if any(r.denied(at, 4) for at in r.says(ORDER_WORDS[self._state])):
            yield f"not {self._state}"

    @cached_property
    def compared(self) -> set[int]:
        """Links of a comparison whose list price is stated for them. Prices beside no name follow the order in which
        the reply names the links, else the order of the question."""
        stated = [(self.reading.truth(link), link, claim) for link, claim in self.priced if claim.stated]
        return {link for truth, link, claim in stated if truth and claim.quantity.value in truth.money["list"]}

    @cached_property
    def priced(self) -> list[tuple[int, Claim]]:
        r = self.reading
        links = [link for link in r.question.slots.get("link_ids", ()) if isinstance(link, int)]
        prices = [c for c in self.claims if c.dimension == "money" and not any("difference" in cue for cue in c.cued)]
        owners: dict[int, int] = {}
        for index, claim in enumerate(prices):
            segment = r.segments[claim.quantity.start]
            here = [m for m in r.mentions if r.segments[m.start] == segment]
            before = [m for m in here if m.start < claim.quantity.start]
            chosen = before or [m for m in here if r.words[m.start - 1] in ("for", "of", "on")]
            if chosen:
                owners[index] = chosen[-1].link
        free = [link for link in dict.fromkeys([m.link for m in r.mentions] + links) if link in links]
        first = prices[0].quantity.start if prices else 0
        if len({m.link for m in r.mentions if m.start < first}) < 2:
            free = links
        free = [link for link in free if link not in owners.values()]
        for index in range(len(prices)):
            if index not in owners and free:
                owners[index] = free.pop(0)
        return [(owners[index], claim) for index, claim in enumerate(prices) if index in owners]

    def is_price(self, link: int, claim: Claim) -> bool:
        """A list price, or the flash price while it runs."""
        truth = self.reading.truth(link)
        return truth is not None and claim.quantity.value in truth.money["list"] | truth.money.get("flash", frozenset())

    def _false_comparison(self) -> Iterator[str]:
        r = self.reading
        for at, word in enumerate(r.words):
            cheap = word in ("cheaper", "less")
            if word not in ("cheaper", "dearer", "pricier") or r.tokens[at].asked:
                continue
            left, right = self._sides(at)
            if left is not None and right is not None and left != right:
                if ((left < right) == cheap) == r.denied(at):
                    yield word

    def _sides(self, at: int):
        """Prices left and right of a comparing word."""
        r = self.reading
        links = [link for link in r.question.slots.get("link_ids", ()) if isinstance(link, int)]
        before = [m.link for m in r.mentions if m.start < at]
        own = before[-1] if before else r.question.link_id
        left = r.truth(own)
        named = [m.link for m in r.mentions if m.start > at and "than" in r.words[at : m.start]]
        if named:
            other = r.truth(named[0])
        else:
            other = next((r.truth(link) for link in links if link != own), None) if own in links else None
        if left is not None and other is None and r.words[at + 1 : at + 2] == ["than"]:
            near = [c.quantity.value for c in self.claims if 0 < c.quantity.start - at < 5 and c.dimension == "money"]
            return left.price, near[0] if near else None
        return (left.price if left else None), (other.price if other else None)
