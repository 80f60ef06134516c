"""What a reply states without numbers: sold out, no coupon, an order's state, a product's name, a variant in stock.

`false` lists the statements that the stream does not bear out.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cached_property
from itertools import pairwise

from components.avatar.harness.schema import Capability, Family
from components.avatar.simulator.capabilities import execute
from components.avatar.simulator.catalogue import attribute_key
from components.evaluation.verifier_reading import Claim, Reading
from components.evaluation.verifier_tokens import quantities, tokenize
from components.evaluation.verifier_words import (
    CANNOT,
    COUPON_WORDS,
    ENDED,
    EXISTS,
    FINAL_SALE,
    IN_STOCK,
    NEGATIONS,
    NO_CHOICE,
    NO_RESULT,
    NOT_SHOWN,
    ORDER_WORDS,
    OTHER_MATTERS,
    REFUSES,
    RESTOCK,
    RETURN_WORDS,
    SALE_WORDS,
    SOLD_OUT,
    UNUSABLE,
    WARRANTY_WORDS,
    YES,
)
from components.evaluation.verifier_world import Truth

F = Family
_NO_LINK = frozenset({("no", noun) for noun in ("link", "links", "item", "product", "number")} | {("no", "such")})
_STOCKED = (F.STOCK, F.VARIANT, F.UNKNOWN_LINK)
_PLAIN_FREE = frozenset({"feel", "fragrance", "oil", "alcohol", "cruelty", "hands", "sugar", "scent", "perfume"})


class Statements:
    """Statements of one reading, each against the truth of its moment."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.link = reading.question.link_id
        self.truth = reading.truth(self.link)
        self._refusals = {reading.segments[at] for at in reading.says(CANNOT)}

    @cached_property
    def false(self) -> list[str]:
        checks = (
            self._false_stock(),
            self._false_coupon(),
            self._false_flash(),
            self._false_returns(),
            self._false_names(),
            self._false_existence(),
            self._false_variants(),
            self._false_attribute(),
            self._false_order(),
            self._false_comparison(),
            self._false_gifts(),
        )
        return list(dict.fromkeys(text for check in checks for text in check))

    def _denials(self, words: frozenset[str]) -> Iterator[int]:
        """Where a segment speaks of one of the words and negates it: an odd number of negations. Segments that decline,
        and questions, do not count."""
        r = self.reading
        for at, word in enumerate(r.words):
            if word not in words or r.tokens[at].asked or r.segments[at] in self._refusals:
                continue
            if r.negations(r.segments[at]) % 2 == 1:
                yield at

    def _denied(self, words: frozenset[str]) -> bool:
        """Denied of the product that was asked about."""
        return any(self.reading.subject(at) == self.reading.asked for at in self._denials(words))

    def _wrongly_denied(self, words: frozenset[str], has: Callable[[Truth], bool]) -> bool:
        """Denied of a product that has it."""
        subjects = {self.reading.subject(at) for at in self._denials(words)}
        return any(truth is not None and has(truth) for truth in map(self.reading.truth, subjects))

    # Stock

    def _stock_statements(self) -> Iterator[tuple[bool, int | None, int]]:
        """(in stock, link, position)."""
        r = self.reading
        for phrases, there in ((SOLD_OUT, False), (IN_STOCK, True)):
            for at in r.says(phrases):
                if r.segments[at] in self._refusals or (there and r.words[at] == "is" and r.words[at + 1] != "there"):
                    continue
                flipped = r.negations(r.segments[at], before=at) % 2 == 1
                yield there != flipped, r.subject(at), at

    def sold_out(self, link: int | None) -> bool:
        none_of_it = any(
            claim.stated and claim.dimension == "count" and claim.quantity.value == 0 and claim.link == link
            for claim in self.reading.claims
        )
        return none_of_it or any(not there and about == link for there, about, _ in self._stock_statements())

    def _false_stock(self) -> Iterator[str]:
        r = self.reading
        if r.family not in _STOCKED and not r.says(("sold out", "out of stock", "in stock")):
            return
        for there, link, at in self._stock_statements():
            named = [row for row in r.variants if r.segments[row[0]] == r.segments[at] and row[3] == link]
            if named or (r.family == F.VARIANT and r.variants):
                continue  # judged with the variants
            truth = r.truth(link)
            asked = r.question.slots.get("variant")
            stock = None if truth is None else truth.stock
            if truth is not None and r.family == F.VARIANT and isinstance(asked, str):
                stock = truth.variants.get(asked.lower(), truth.stock)
            if stock is None or (stock > 0) != there:
                yield "in stock" if there else "sold out"
        if any(word in RESTOCK for word in r.words) and not r.says(("no restock", "not restock")):
            yield "restock"

    # Coupons and flash sales

    @cached_property
    def no_coupon(self) -> bool:
        return self._denied(COUPON_WORDS)

    def _false_coupon(self) -> Iterator[str]:
        r = self.reading
        if self._wrongly_denied(COUPON_WORDS, lambda truth: truth.coupon is not None):
            yield "no coupon"
        asked = {token.text for token in tokenize(r.question.text)} | {
            token.text for value in r.question.slots.values() for token in tokenize(str(value))
        }
        for at in r.codes:
            code, truth = r.words[at], r.truth(r.subject(at))
            usable = {c.code.lower() for c in truth.usable} if truth is not None else set()
            own = {c.code.lower() for c in truth.product.coupons} if truth is not None else set()
            part = {r.words[n] for n, token in enumerate(r.tokens) if token.part == r.tokens[at].part}
            if code in asked or code in usable or (code in own and part & (UNUSABLE | NEGATIONS)):
                continue
            yield code

    @cached_property
    def no_flash(self) -> bool:
        r = self.reading
        ended = any(
            word in SALE_WORDS
            and r.words[at - 1 : at] != ["final"]
            and any(r.words[n] in ENDED for n, s in enumerate(r.segments) if s == r.segments[at])
            for at, word in enumerate(r.words)
        )
        later = any("later" in claim.true_of and claim.dimension == "clock" for claim in r.claims)
        return ended or self._denied(SALE_WORDS) or (later and bool(r.says(("not yet", "starts", "begins"))))

    def _false_flash(self) -> Iterator[str]:
        r = self.reading
        runs = self.truth is not None and "flash" in self.truth.money
        if (self.no_flash and runs) or self._wrongly_denied(SALE_WORDS, lambda truth: "flash" in truth.money):
            yield "no flash sale"
        coming = {"from", "starts", "start", "begins", "yet", "later"}.intersection(r.words)
        for claim in r.claims:
            if claim.stated and claim.true_of == {"later"} and not coming:
                yield "flash sale before its time"
        sells = r.family == F.FLASH_SALE and r.says(("yes",)) and not self.no_flash
        if sells and self.truth is not None and not runs:
            yield "flash sale"

    # Returns, warranty, attributes

    @cached_property
    def no_returns(self) -> bool:
        return self._denied(RETURN_WORDS) or bool(self.reading.says(FINAL_SALE))

    def _false_returns(self) -> Iterator[str]:
        r = self.reading
        product = None if self.truth is None else self.truth.product
        if self._wrongly_denied(WARRANTY_WORDS, lambda truth: truth.product.warranty_months > 0):
            yield "no warranty"
        if self._wrongly_denied(RETURN_WORDS, lambda truth: truth.product.return_days > 0):
            yield "no returns"
        if product is None:
            return
        if product.return_days > 0 and r.says(FINAL_SALE):
            yield "final sale"
        yes = r.family == F.RETURN_POLICY and product.return_days == 0 and r.says(("you can",)) and not self.no_returns
        if yes:
            yield "returns"

    @cached_property
    def _wanted(self) -> str | None:
        """The attribute that was asked for."""
        name = self.reading.question.slots.get("attribute")
        return attribute_key(name) if self.reading.family == F.ATTRIBUTES and isinstance(name, str) else None

    @cached_property
    def attribute_said(self) -> bool:
        r, name = self.reading, self._wanted
        if self.truth is None or name is None:
            return False
        product = self.truth.product
        if name in ("warranty", "warranty months"):
            if product.warranty_months == 0:
                return self._denied(WARRANTY_WORDS) or "none" in r.words
            return self._role_said("warranty")
        if name == "return days":
            return self.no_returns if product.return_days == 0 else self._role_said("returns")
        value = self.truth.attributes.get(name)
        if value is None:
            return False
        if value == "none":
            lacking = any((w.startswith("un") and name[:4] in w) or w == "none" for w in r.words)
            return lacking or self._denied(frozenset({name, *name.split()})) or f"{name} free" in " ".join(r.words)
        measures = quantities(tokenize(value), r.nouns)
        if measures:
            return any(self._measured(claim, measures[0]) for claim in r.claims)
        return self._value_said(value)

    def _role_said(self, role: str) -> bool:
        return any(
            claim.stated and role in claim.true_of and all(cue & claim.true_of for cue in claim.cued)
            for claim in self.reading.claims
        )

    def _measured(self, claim: Claim, measure) -> bool:
        same = claim.dimension == measure.dimension and abs(claim.quantity.value - measure.value) < Decimal("0.001")
        return claim.stated and same and all("attribute" in cue for cue in claim.cued)

    def _value_said(self, value: str) -> bool:
        """Every word of the value stands in the reply, by its stem, and is not denied."""
        words = [token.text for token in tokenize(value)]
        if len(words) > 1 and any(len(word) == 1 for word in words):  # "class b"
            return any(not self.reading.denied(at) for at in self.reading.runs(words))
        return all(
            any(not self.reading.denied(at) for at in self._stems(word))
            for word in words
            if len(word) > 2 or words == [word]
        )

    def _stems(self, word: str) -> list[int]:
        stem = word[:-4] if word.endswith("able") and len(word) > 6 else word
        return [
            at
            for at, said in enumerate(self.reading.words)
            if said == word or said == stem or (len(stem) > 3 and said.startswith(stem) and len(said) - len(stem) < 4)
        ]

    def _false_attribute(self) -> Iterator[str]:
        """Another product's value of the attribute, stated where the own is another."""
        r, name = self.reading, self._wanted
        if self.truth is None or name is None:
            return
        own = self.truth.attributes.get(name, "")
        for value in sorted(r.catalogue.attribute_values.get(name, ())):
            words = [token.text for token in tokenize(value)]
            if value == own or value in own or value == "none" or any(word.isdigit() for word in words):
                continue
            inside = own.split() if set(words) < set(own.split()) else None
            if inside is None and any(not r.denied(at) for at in r.runs(words)):
                yield value
        denied = [at for at in r.runs([t.text for t in tokenize(own)]) if r.denied(at)] if own else []
        if denied:
            yield f"not {own}"

    # Names

    @cached_property
    def named(self) -> list[int]:
        """Products that the reply names, by number or title, and does not deny."""
        return [mention.link for mention in self.reading.mentions if not mention.denied]

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
            and any(not there for there, _, _ in self._stock_statements())
            and not self.denies_link(self.link)
        ):
            yield "a product that does not exist"

    def denies_link(self, link: int | None) -> bool:
        """A segment that names the link, or speaks of finding or having one, is negated. "Sold out" is no denial, nor
        is "no price for link 77"."""
        r = self.reading
        for segment in dict.fromkeys(r.segments):
            words = [w for w, s in zip(r.words, r.segments, strict=True) if s == segment]
            if segment in self._refusals or not NEGATIONS.intersection(words) or OTHER_MATTERS.intersection(words):
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
            return bool(self.reading.says(NO_RESULT)) and not self.named
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
            zero = any(c.variant == value and c.quantity.value == 0 for c in r.claims if c.stated)
            states[value] = not (none or zero or r.negations(segment, before=start) % 2 == 1)
        return states

    def variant_said(self, asked: str) -> bool:
        r = self.reading
        if self.truth is None:
            return False
        stock = self.truth.variants.get(asked, 0)
        counted = any(c.stated and c.variant == asked and "variant" in c.true_of for c in r.claims)
        if asked in self.offered:
            wrong_count = any(
                c.stated and c.variant == asked and "variant" not in c.true_of
                for c in r.claims
                if c.dimension == "count"
            )
            return self.offered[asked] == (stock > 0) and not wrong_count
        stated = [there for there, link, _ in self._stock_statements() if link == r.asked]
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
        prices = [c for c in r.claims if c.dimension == "money" and not any("difference" in cue for cue in c.cued)]
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
        if left is not None and other is None and "than" in r.words[at:]:
            amounts = [c.quantity.value for c in r.claims if c.quantity.start > at and c.dimension == "money"]
            return left.price, amounts[0] if amounts else None
        return (left.price if left else None), (other.price if other else None)

    def _false_gifts(self) -> Iterator[str]:
        """Nothing in a shop is free or half price by itself."""
        r = self.reading
        refuses = r.family == F.INJECTION and bool(REFUSES.intersection(r.words))
        for at, word in enumerate(r.words):
            before, after = r.words[at - 1 : at], r.words[at + 1 : at + 2]
            if word == "free" and not refuses and not r.denied(at, 4):
                if not _PLAIN_FREE.intersection(before) and after != ["to"]:
                    yield "free"
            if word == "half" and after == ["price"] and not r.denied(at):
                yield "half price"
