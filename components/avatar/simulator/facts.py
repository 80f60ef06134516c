"""Typed facts, and the two places they come from: tool results of an episode, and the true state of the stream."""

from collections.abc import Callable, Collection, Iterable
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple

from components.avatar.harness.schema import Capability
from components.avatar.simulator.capabilities import execute
from components.avatar.simulator.catalogue import attribute_key
from components.avatar.simulator.stream import Stream


class FactKind(StrEnum):
    """The subject of a kind is the link, unless said otherwise."""

    PRICE = "price"
    FLASH_PRICE = "flash_price"
    FLASH_ENDS = "flash_ends"  # value: time of day
    NO_FLASH = "no_flash"
    PAYS = "pays"  # to pay with the coupon
    COUPON_VALUE = "coupon_value"
    COUPON_PERCENT = "coupon_percent"
    COUPON_MINIMUM = "coupon_minimum"
    COUPON_CODE = "coupon_code"  # value: lower case
    NO_COUPON = "no_coupon"
    STOCK = "stock"  # subject: link, or (link, variant)
    SOLD_OUT = "sold_out"
    IN_STOCK = "in_stock"
    SHIPPING_DAYS = "shipping_days"  # subject: city in lower case
    RETURN_DAYS = "return_days"
    NO_RETURNS = "no_returns"
    WARRANTY_MONTHS = "warranty_months"
    NO_WARRANTY = "no_warranty"
    ATTRIBUTE = "attribute"  # subject: (link, attribute)
    VARIANT = "variant"  # value: a variant in stock, lower case
    NO_VARIANTS = "no_variants"
    ORDER_STATUS = "order_status"  # subject: order id in upper case
    FOUND = "found"  # subject: query; value: link or title in lower case
    NOTHING_FOUND = "nothing_found"
    ON_AIR = "on_air"  # subject: None; value: link, title in lower case, or None when nothing is shown
    TITLE = "title"
    UNKNOWN_LINK = "unknown_link"
    UNAVAILABLE = "unavailable"  # "I can't check that now"; never a fact of a result


class Fact(NamedTuple):
    kind: FactKind
    subject: Any
    value: Any


Lookup = Callable[[FactKind, Any], Collection[Any]]
"""(kind, subject) -> the values that are known for it; empty when nothing is known."""

K = FactKind

# The capability whose result decides a kind of which the subject is a link. A price says whether a flash sale runs.
_SOURCE: dict[FactKind, Capability] = {
    K.PRICE: Capability.PRICE_LOOKUP,
    K.TITLE: Capability.PRICE_LOOKUP,
    K.UNKNOWN_LINK: Capability.PRICE_LOOKUP,
    K.FLASH_PRICE: Capability.PRICE_LOOKUP,
    K.FLASH_ENDS: Capability.PRICE_LOOKUP,
    K.NO_FLASH: Capability.PRICE_LOOKUP,
    K.PAYS: Capability.COUPON_LOOKUP,
    K.COUPON_VALUE: Capability.COUPON_LOOKUP,
    K.COUPON_PERCENT: Capability.COUPON_LOOKUP,
    K.COUPON_MINIMUM: Capability.COUPON_LOOKUP,
    K.COUPON_CODE: Capability.COUPON_LOOKUP,
    K.NO_COUPON: Capability.COUPON_LOOKUP,
    K.STOCK: Capability.STOCK_LOOKUP,
    K.SOLD_OUT: Capability.STOCK_LOOKUP,
    K.IN_STOCK: Capability.STOCK_LOOKUP,
    K.VARIANT: Capability.VARIANT_LOOKUP,
    K.NO_VARIANTS: Capability.VARIANT_LOOKUP,
    K.RETURN_DAYS: Capability.RETURN_POLICY_LOOKUP,
    K.NO_RETURNS: Capability.RETURN_POLICY_LOOKUP,
}


# Lookups of a link that state facts of their own kinds only, so that nothing else depends on who made them.
_SHARED = frozenset(
    {Capability.PRICE_LOOKUP, Capability.COUPON_LOOKUP, Capability.STOCK_LOOKUP, Capability.RETURN_POLICY_LOOKUP}
)


def facts_of(capability: Capability, arguments: dict[str, Any], result: dict[str, Any]) -> Iterable[Fact]:
    """The facts that a result states, whichever tool it came from."""
    link = result.get("link_id", arguments.get("link_id"))
    if result.get("error") == "unknown_link":
        yield Fact(K.UNKNOWN_LINK, link, True)
        return
    if capability == Capability.ON_AIR_LOOKUP:
        yield Fact(K.ON_AIR, None, link)
        if link is not None:
            yield Fact(K.ON_AIR, None, result["title"].lower())
        return
    if "price" in result:
        yield Fact(K.PRICE, link, Decimal(result["price"]))
        yield Fact(K.TITLE, link, result["title"].lower())
    if result.get("flash_price") is not None:
        yield Fact(K.FLASH_PRICE, link, Decimal(result["flash_price"]))
        yield Fact(K.FLASH_ENDS, link, result["ends"])
    elif capability in (Capability.FLASH_SALE_LOOKUP, Capability.PRICE_LOOKUP) and "error" not in result:
        yield Fact(K.NO_FLASH, link, True)
    if "code" in result:
        yield Fact(K.COUPON_CODE, link, result["code"].lower())
        value = result["value"]
        kind = K.COUPON_PERCENT if value.endswith("%") else K.COUPON_VALUE
        yield Fact(kind, link, Decimal(value.rstrip("%")))
        yield Fact(K.COUPON_MINIMUM, link, Decimal(result["minimum"]))
        yield Fact(K.PAYS, link, Decimal(result["pays"]))
    elif "coupon" in result:
        yield Fact(K.NO_COUPON, link, True)
    if "stock" in result:
        subject = (link, result["variant"].lower()) if "variant" in result else link
        yield Fact(K.STOCK, subject, Decimal(result["stock"]))
        yield Fact(K.IN_STOCK if result["stock"] else K.SOLD_OUT, link, True)
    if "days" in result:
        yield Fact(K.SHIPPING_DAYS, result["city"].lower(), Decimal(result["days"]))
    if "return_days" in result:
        yield Fact(K.RETURN_DAYS, link, Decimal(result["return_days"]))
        if not result["return_days"]:
            yield Fact(K.NO_RETURNS, link, True)
    if "warranty_months" in result:
        yield Fact(K.WARRANTY_MONTHS, link, Decimal(result["warranty_months"]))
        if not result["warranty_months"]:
            yield Fact(K.NO_WARRANTY, link, True)
    if isinstance(result.get("variants"), dict):
        for value, stock in result["variants"].items():
            yield Fact(K.STOCK, (link, value.lower()), Decimal(stock))
            if stock:
                yield Fact(K.VARIANT, link, value.lower())
        if not any(result["variants"].values()):
            yield Fact(K.SOLD_OUT if result["variants"] else K.NO_VARIANTS, link, True)
    for item in result.get("items", ()):
        yield Fact(K.PRICE, item["link_id"], Decimal(item["price"]))
        yield Fact(K.TITLE, item["link_id"], item["title"].lower())
    if "status" in result:
        yield Fact(K.ORDER_STATUS, result["order_id"], result["status"])
    if "results" in result:
        query = str(arguments.get("query"))
        for item in result["results"]:
            yield Fact(K.FOUND, query, item["link_id"])
            yield Fact(K.FOUND, query, item["title"].lower())
        if not result["results"]:
            yield Fact(K.NOTHING_FOUND, query, True)
    if "attribute" in result:
        yield Fact(K.ATTRIBUTE, (link, attribute_key(result["attribute"])), result["value"].lower())


class ResultFacts:
    """What the tool results of an episode have said so far; callable as a `Lookup`."""

    def __init__(self) -> None:
        self._known: dict[tuple[FactKind, Any], set[Any]] = {}

    def add(self, facts: Iterable[Fact]) -> None:
        for kind, subject, value in facts:
            self._known.setdefault((kind, subject), set()).add(value)

    def __call__(self, kind: FactKind, subject: Any) -> Collection[Any]:
        return self._known.get((kind, subject), ())


class TrueFacts:
    """The true state of the stream as a `Lookup`: runs the lookups themselves, so truth and results cannot drift apart.

    `shipping_link` is the link that a city's days are about (the question's); None = the product on air.
    """

    def __init__(self, stream: Stream, shipping_link: int | None) -> None:
        self._stream = stream
        self._shipping_link = shipping_link
        self._known: dict[tuple[FactKind, Any], set[Any]] = {}
        self._asked: set[tuple[FactKind, Any]] = set()
        self._seen: set[tuple[Capability, Any]] = set()

    def __call__(self, kind: FactKind, subject: Any) -> Collection[Any]:
        asked = (kind, subject)
        if asked not in self._asked:
            self._asked.add(asked)
            self._look_up(kind, subject)
        return self._known.get(asked, ())

    def add(self, capability: Capability, arguments: dict[str, Any], facts: Iterable[Fact]) -> None:
        """The facts of a lookup that an agent made without a fault: the same one need not be made again."""
        link = arguments.get("link_id")
        if capability not in _SHARED or len(arguments) != 1 or (capability, link) in self._seen:
            return
        self._seen.add((capability, link))
        for kind, subject, value in facts:
            self._known.setdefault((kind, subject), set()).add(value)

    def _look_up(self, kind: FactKind, subject: Any) -> None:
        for capability, arguments in self._sources(kind, subject):
            key = (capability, subject)
            if key not in self._seen:
                self._seen.add(key)
                for fact in facts_of(capability, arguments, execute(capability, self._stream, arguments)):
                    self._known.setdefault((fact.kind, fact.subject), set()).add(fact.value)

    def _sources(self, kind: FactKind, subject: Any) -> list[tuple[Capability, dict[str, Any]]]:
        capability = _SOURCE.get(kind)
        if capability is not None and not isinstance(subject, tuple):
            return [] if subject is None else [(capability, {"link_id": subject})]
        if kind == K.ON_AIR:
            return [(Capability.ON_AIR_LOOKUP, {})]
        if kind == K.ORDER_STATUS:
            return [(Capability.ORDER_STATUS_LOOKUP, {"order_id": subject})]
        if kind in (K.FOUND, K.NOTHING_FOUND):
            return [(Capability.PRODUCT_SEARCH, {"query": subject})]
        if kind == K.SHIPPING_DAYS:
            arguments = (
                {"city": subject} if self._shipping_link is None else {"city": subject, "link_id": self._shipping_link}
            )
            return [(Capability.SHIPPING_LOOKUP, arguments)]
        if kind == K.STOCK:
            return [(Capability.STOCK_LOOKUP, {"link_id": subject[0], "variant": subject[1]})]
        if kind == K.ATTRIBUTE:
            return [(Capability.ATTRIBUTE_LOOKUP, {"link_id": subject[0], "attribute": subject[1]})]
        if kind in (K.WARRANTY_MONTHS, K.NO_WARRANTY):
            return [(Capability.ATTRIBUTE_LOOKUP, {"link_id": subject, "attribute": "warranty"})]
        return []
