"""What is true of a product at the moment of a reply, as values by role: the other side of every comparison.

Read from catalogue and stream state, never from tool results or from another verifier's facts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property

from components.avatar.simulator.catalogue import Coupon, Product, attribute_key, seconds_of
from components.avatar.simulator.stream import Stream
from components.evaluation.verifier_tokens import Quantity, quantities, tokenize
from components.evaluation.verifier_words import UNITS

CENT = Decimal("0.01")
Values = Mapping[str, frozenset[Decimal]]


def attribute_nouns(products: Collection[Product]) -> frozenset[str]:
    """Last words of attribute values that begin with a number: "strips" of "10 strips"."""
    values = [value.lower().split() for product in products for value in product.attributes.values()]
    counted = {words[-1] for words in values if len(words) == 2 and words[0].isdigit() and words[1].isalpha()}
    return frozenset(counted - UNITS.keys())


@dataclass(frozen=True)
class Truth:
    """One product at one moment. Roles of money: list, was (an earlier list price), flash, later (a flash sale that has
    not begun), pays, saved, flash_saved, minimum."""

    product: Product
    stream: Stream
    nouns: frozenset[str]

    @property
    def price(self) -> Decimal:
        return self.stream.price(self.product)

    @property
    def stock(self) -> int:
        return self.stream.stock(self.product)

    @cached_property
    def coupon(self) -> Coupon | None:
        """The usable coupon that leaves the least to pay."""
        usable = self.usable
        return min(usable, key=lambda coupon: coupon.price_after(self.price)) if usable else None

    @cached_property
    def usable(self) -> list[Coupon]:
        now = self.stream.at_s
        return [
            coupon
            for coupon in self.product.coupons
            if coupon.minimum <= self.price and (coupon.ends is None or now < seconds_of(coupon.ends))
        ]

    @cached_property
    def money(self) -> Values:
        values: dict[str, set[Decimal]] = {"list": {self.price}}
        if self.product.price.amount != self.price:
            values["was"] = {self.product.price.amount}
        flash = self.stream.flash(self.product)
        if flash is not None:
            values["flash"], values["flash_saved"] = {flash[0]}, {self.price - flash[0]}
        elif (sale := self.product.flash_sale) is not None and self.stream.at_s < seconds_of(sale.starts):
            values["later"] = {sale.price}
        for coupon in self.usable:
            pays = coupon.price_after(self.price)
            values.setdefault("pays", set()).add(pays)
            values.setdefault("saved", set()).add(self.price - pays)
        for coupon in self.product.coupons:
            values.setdefault("minimum", set()).add(coupon.minimum)
        return {role: frozenset(_plain(value) for value in found) for role, found in values.items()}

    @cached_property
    def percent(self) -> Values:
        return {"percent": frozenset(_plain(c.value) for c in self.usable if c.kind == "percent")}

    @cached_property
    def times(self) -> Mapping[str, frozenset[str]]:
        """Times of day by role: flash (its end), later (begin and end of a coming sale), coupon, ended."""
        times: dict[str, set[str]] = {}
        flash = self.stream.flash(self.product)
        sale = self.product.flash_sale
        if flash is not None:
            times["flash"] = {flash[1]}
        elif sale is not None:
            begun = seconds_of(sale.starts) <= self.stream.at_s
            times["ended" if begun else "later"] = {sale.ends} if begun else {sale.starts, sale.ends}
        times["coupon"] = {coupon.ends for coupon in self.product.coupons if coupon.ends is not None}
        return {role: frozenset(found) for role, found in times.items()}

    @cached_property
    def attributes(self) -> dict[str, str]:
        return {attribute_key(name): value.lower() for name, value in self.product.attributes.items()}

    @cached_property
    def measures(self) -> list[Quantity]:
        """Quantities that stand in the product's attributes."""
        return [q for value in self.attributes.values() for q in quantities(tokenize(value), self.nouns)]

    @cached_property
    def variants(self) -> dict[str, int]:
        return {variant.value.lower(): variant.stock for variant in self.product.variants}


def _plain(value: Decimal) -> Decimal:
    return value.quantize(CENT, ROUND_HALF_UP)
