"""What a reply states of a product without numbers: sold out, no coupon, no returns, an attribute, a gift.

`false` lists the statements that the stream does not bear out.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cached_property

from components.avatar.harness.schema import Family
from components.avatar.simulator.catalogue import attribute_key
from components.evaluation.verifier_claims import Claim
from components.evaluation.verifier_reading import Reading
from components.evaluation.verifier_tokens import quantities, tokenize
from components.evaluation.verifier_words import (
    CANNOT,
    COUPON_WORDS,
    ENDED,
    FINAL_SALE,
    IN_STOCK,
    NEGATIONS,
    REFUSES,
    RESTOCK,
    RETURN_WORDS,
    SALE_WORDS,
    SOLD_OUT,
    UNUSABLE,
    WARRANTY_WORDS,
)
from components.evaluation.verifier_world import Truth

F = Family
_STOCKED = (F.STOCK, F.VARIANT, F.UNKNOWN_LINK)
_PLAIN_FREE = frozenset({"feel", "fragrance", "oil", "alcohol", "cruelty", "hands", "sugar", "scent", "perfume"})


class Statements:
    """Statements of one reading, each against the truth of its moment."""

    def __init__(self, reading: Reading, claims: list[Claim], marks: frozenset[str]) -> None:
        """`marks`: words that the harness asks for, such as the form of address."""
        self.reading, self.claims, self.marks = reading, claims, marks
        self.link = reading.question.link_id
        self.truth = reading.truth(self.link)
        self.refusals = {reading.segments[at] for at in reading.says(CANNOT)}

    @cached_property
    def false(self) -> list[str]:
        checks = (
            self._false_stock(),
            self._false_coupon(),
            self._false_flash(),
            self._false_returns(),
            self._false_attribute(),
            self._false_gifts(),
        )
        return list(dict.fromkeys(text for check in checks for text in check))

    def _denials(self, words: frozenset[str]) -> Iterator[int]:
        """Where a segment speaks of one of the words and negates it: an odd number of negations. Segments that decline,
        and questions, do not count."""
        r = self.reading
        for at, word in enumerate(r.words):
            if word not in words or r.tokens[at].asked or r.segments[at] in self.refusals:
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

    @cached_property
    def _none_of_it(self) -> bool:
        """ "None", or a "no" that stands alone at the beginning: nothing of what was asked about."""
        r = self.reading
        for at, word in enumerate(r.words[:3]):
            following = r.tokens[at + 1] if at + 1 < len(r.tokens) else None
            if word == "no" and (following is None or following.kind == "sign" or following.text in self.marks):
                return True
        return "none" in r.words

    # Stock

    def stock_statements(self) -> Iterator[tuple[bool, int | None, int]]:
        """(in stock, link, position)."""
        r = self.reading
        for phrases, there in ((SOLD_OUT, False), (IN_STOCK, True)):
            for at in r.says(phrases):
                if r.segments[at] in self.refusals or (there and r.words[at] == "is" and r.words[at + 1] != "there"):
                    continue
                flipped = r.negations(r.segments[at], before=at) % 2 == 1
                yield there != flipped, r.subject(at), at

    def sold_out(self, link: int | None) -> bool:
        none_of_it = any(
            claim.stated and claim.dimension == "count" and claim.quantity.value == 0 and claim.link == link
            for claim in self.claims
        )
        answered = self.reading.family == F.STOCK and "none" in self.reading.words and link == self.link
        return none_of_it or answered or any(not there and about == link for there, about, _ in self.stock_statements())

    def _false_stock(self) -> Iterator[str]:
        r = self.reading
        if r.family not in _STOCKED and not r.says(("sold out", "out of stock", "in stock")):
            return
        for there, link, at in self.stock_statements():
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
        answered = self.reading.family in (F.COUPON, F.PRICE_AFTER_COUPON) and self._none_of_it
        return self._denied(COUPON_WORDS) or answered or bool(self.reading.says(("nothing off",)))

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
        later = any("later" in claim.true_of and claim.dimension == "clock" for claim in self.claims)
        answered = r.family == F.FLASH_SALE and self._none_of_it
        return (
            ended or answered or self._denied(SALE_WORDS) or (later and bool(r.says(("not yet", "starts", "begins"))))
        )

    def _false_flash(self) -> Iterator[str]:
        r = self.reading
        runs = self.truth is not None and "flash" in self.truth.money
        if (self.no_flash and runs) or self._wrongly_denied(SALE_WORDS, lambda truth: "flash" in truth.money):
            yield "no flash sale"
        coming = {"from", "starts", "start", "begins", "yet", "later"}.intersection(r.words)
        for claim in self.claims:
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

    @property
    def attribute_known(self) -> bool:
        """Whether the product has the attribute that was asked for."""
        shop = ("warranty", "warranty months", "return days")
        return self.truth is not None and (self._wanted in shop or self._wanted in self.truth.attributes)

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
            return any(self._measured(claim, measures[0]) for claim in self.claims)
        return self._value_said(value)

    def _role_said(self, role: str) -> bool:
        return any(
            claim.stated and role in claim.true_of and all(cue & claim.true_of for cue in claim.cued)
            for claim in self.claims
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
