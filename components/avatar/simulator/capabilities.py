"""What a tool call returns when nothing goes wrong: canonical arguments in, a small JSON object out.

Keys are canonical and stable; a merchant's surface touches names and arguments of tools, never results.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from components.avatar.harness.schema import Capability
from components.avatar.harness.script import search_terms
from components.avatar.simulator.catalogue import Product, attribute_key, money_text, seconds_of
from components.avatar.simulator.stream import Stream

Result = dict[str, Any]

ORDER_STATES = ("processing", "shipped", "out for delivery", "delivered")


def execute(capability: Capability, stream: Stream, arguments: dict[str, Any], tool: str = "") -> Result:
    """Result of `capability` at this moment of the stream. `load_skill` is the session's own business.

    `tool` is the surface name, by which recorded fixtures are found first.
    """
    if capability == Capability.RECORDED:
        return _recorded(stream, arguments, tool)
    if capability == Capability.DECOY:
        return {"result": None}
    if "link_id" in arguments and arguments["link_id"] not in stream.catalogue.by_link:
        return {"link_id": arguments["link_id"], "error": "unknown_link"}
    return _TABLE[capability](stream, arguments)


def coupon_of(stream: Stream, product: Product) -> Result:
    """The usable coupon that leaves the least to pay; `coupon` is null when there is none."""
    price = stream.price(product)
    usable = [
        coupon
        for coupon in product.coupons
        if coupon.minimum <= price and (coupon.ends is None or stream.at_s < seconds_of(coupon.ends))
    ]
    if not usable:
        return {"link_id": product.link_id, "coupon": None}
    best = min(usable, key=lambda coupon: coupon.price_after(price))
    return {
        "link_id": product.link_id,
        "code": best.code,
        "value": money_text(best.value) if best.kind == "amount" else f"{_plain(best.value)}%",
        "minimum": money_text(best.minimum),
        "pays": money_text(best.price_after(price)),
        "currency": product.price.currency,
    }


def _price(stream: Stream, arguments: Result) -> Result:
    product = stream.catalogue.by_link[arguments["link_id"]]
    result = {
        "link_id": product.link_id,
        "title": product.title,
        "price": money_text(stream.price(product)),
        "currency": product.price.currency,
    }
    flash = stream.flash(product)
    if flash is not None:
        result["flash_price"], result["ends"] = money_text(flash[0]), flash[1]
    return result


def _stock(stream: Stream, arguments: Result) -> Result:
    product = stream.catalogue.by_link[arguments["link_id"]]
    asked = arguments.get("variant")
    if asked is None:
        return {"link_id": product.link_id, "title": product.title, "stock": stream.stock(product)}
    for variant in product.variants:
        if variant.value.lower() == str(asked).strip().lower():
            return {"link_id": product.link_id, "variant": variant.value, "stock": variant.stock}
    return {"error": "unknown_variant", "variants": [variant.value for variant in product.variants]}


def _coupon(stream: Stream, arguments: Result) -> Result:
    return coupon_of(stream, stream.catalogue.by_link[arguments["link_id"]])


def _variants(stream: Stream, arguments: Result) -> Result:
    product = stream.catalogue.by_link[arguments["link_id"]]
    return {"link_id": product.link_id, "variants": {variant.value: variant.stock for variant in product.variants}}


def _shipping(stream: Stream, arguments: Result) -> Result:
    """Without a link: the product on air; with nothing on air, the slowest product, so that no promise is too short."""
    link = arguments.get("link_id", stream.on_air)
    products = [stream.catalogue.by_link[link]] if link in stream.catalogue.by_link else stream.catalogue.products
    city = str(arguments["city"]).strip()
    days = [_days(product, city) for product in products]
    return {"city": city, "days": max(days)}


def _attribute(stream: Stream, arguments: Result) -> Result:
    product = stream.catalogue.by_link[arguments["link_id"]]
    asked = attribute_key(str(arguments["attribute"]))
    if asked in ("warranty", "warranty months"):
        return {"link_id": product.link_id, "warranty_months": product.warranty_months}
    if asked in ("return days", "returns", "return policy"):
        return {"link_id": product.link_id, "return_days": product.return_days}
    for name, value in product.attributes.items():
        if attribute_key(name) == asked:
            return {"link_id": product.link_id, "attribute": name, "value": value}
    return {"error": "unknown_attribute", "attributes": sorted(product.attributes)}


def _compare(stream: Stream, arguments: Result) -> Result:
    products = [stream.product(link) for link in arguments["link_ids"]]
    if any(product is None for product in products):
        return {"error": "unknown_link"}
    return {
        "items": [
            {"link_id": p.link_id, "title": p.title, "price": money_text(stream.price(p)), "currency": p.price.currency}
            for p in products
            if p is not None
        ]
    }


def _returns(stream: Stream, arguments: Result) -> Result:
    product = stream.catalogue.by_link[arguments["link_id"]]
    return {"link_id": product.link_id, "return_days": product.return_days}


def _flash(stream: Stream, arguments: Result) -> Result:
    product = stream.catalogue.by_link[arguments["link_id"]]
    flash = stream.flash(product)
    if flash is None:
        return {"link_id": product.link_id, "flash_price": None}
    price, ends = flash
    return {
        "link_id": product.link_id,
        "flash_price": money_text(price),
        "currency": product.price.currency,
        "ends": ends,
    }


def _order(stream: Stream, arguments: Result) -> Result:
    """Orders live in no file: the state follows from the order's id, so every run agrees."""
    order = str(arguments["order_id"]).strip().upper()
    return {"order_id": order, "status": ORDER_STATES[hashlib.sha256(order.encode()).digest()[0] % len(ORDER_STATES)]}


def _on_air(stream: Stream, arguments: Result) -> Result:
    product = stream.product(stream.on_air)
    return {"link_id": None} if product is None else {"link_id": product.link_id, "title": product.title}


def _search(stream: Stream, arguments: Result) -> Result:
    """The three products whose title and attributes share most words with the query."""
    terms = search_terms(attribute_key(str(arguments["query"])))
    ranked = []
    for product in stream.catalogue.products:
        text = search_terms(" ".join([product.title, *product.attributes.values()]).lower())
        if shared := len(terms & text):
            ranked.append((-shared, product.link_id, product.title))
    return {"results": [{"link_id": link, "title": title} for _, link, title in sorted(ranked)[:3]]}


def _recorded(stream: Stream, arguments: Result, tool: str) -> Result:
    recorded = stream.catalogue.recorded
    for name in sorted(recorded, key=lambda name: name != tool):  # under a rename the fixture keeps its old name
        for row in recorded[name]:
            if row["arguments"] == arguments:
                result = row["result"]
                return result if isinstance(result, dict) else {"result": result}
    return {"error": "not_recorded"}


def _days(product: Product, city: str) -> int:
    wanted = city.lower()
    for name, days in product.shipping.regions.items():
        if name.lower() == wanted:
            return days
    return product.shipping.default_days


def _plain(value: Any) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_TABLE: dict[Capability, Callable[[Stream, Result], Result]] = {
    Capability.PRICE_LOOKUP: _price,
    Capability.STOCK_LOOKUP: _stock,
    Capability.COUPON_LOOKUP: _coupon,
    Capability.VARIANT_LOOKUP: _variants,
    Capability.SHIPPING_LOOKUP: _shipping,
    Capability.ATTRIBUTE_LOOKUP: _attribute,
    Capability.COMPARE_LOOKUP: _compare,
    Capability.RETURN_POLICY_LOOKUP: _returns,
    Capability.FLASH_SALE_LOOKUP: _flash,
    Capability.ORDER_STATUS_LOOKUP: _order,
    Capability.ON_AIR_LOOKUP: _on_air,
    Capability.PRODUCT_SEARCH: _search,
}
