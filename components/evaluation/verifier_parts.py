"""What an answer of each family must say, and whether this one says it; and which of its quantities are false."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from components.avatar.harness.schema import Capability, Family
from components.evaluation.verifier_claims import Claim
from components.evaluation.verifier_names import Names
from components.evaluation.verifier_reading import Reading
from components.evaluation.verifier_statements import Statements

C, F = Capability, Family


@dataclass(frozen=True)
class Evidence:
    """All that was read out of one reply."""

    reading: Reading
    claims: list[Claim]
    statements: Statements
    names: Names


@dataclass(frozen=True)
class Part:
    """One thing that the answer must say, found by `lookup`; `said` whether it does."""

    name: str
    lookup: Capability
    said: bool
    secondary: bool = False
    known: bool = True  # the shop has it at all


def required_parts(e: Evidence) -> list[Part]:
    family, link = e.reading.family, e.reading.question.link_id
    if family not in _REQUIRED:
        return []
    if family == F.UNKNOWN_LINK or (link is not None and link not in e.reading.catalogue.by_link):
        lookup = C.PRICE_LOOKUP if family == F.UNKNOWN_LINK else _REQUIRED[family][0]
        return [Part("link does not exist", lookup, _about_asked(e) and e.names.denies_link(link))]
    parts = _REQUIRED[family][1](e)
    return parts if _about_asked(e) else [replace(part, said=False) for part in parts]


def _about_asked(e: Evidence) -> bool:
    """The reply names no product, or the one that was asked about, or gives a figure before it turns to another."""
    asked, named = e.reading.question.link_id, {mention.link for mention in e.reading.mentions}
    return not named or asked is None or asked in named or any(c.stated and c.link == asked for c in e.claims)


def _quantity(e: Evidence, roles: Iterable[str], link: int | None) -> bool:
    """Whether the reply states a value of this product in one of the roles, and not as something else."""
    wanted = frozenset(roles)
    return any(
        claim.stated
        and claim.dimension != "clock"
        and claim.link == link
        and claim.true_of & wanted
        and all(cue & claim.true_of for cue in claim.cued)
        for claim in e.claims
    )


def _price(e: Evidence) -> list[Part]:
    said = _quantity(e, ("list", "flash"), e.reading.question.link_id) and not e.names.mismatched
    return [Part("price", C.PRICE_LOOKUP, said)]


def _stock(e: Evidence) -> list[Part]:
    link = e.reading.question.link_id
    truth = e.reading.truth(link)
    asked = e.reading.question.slots.get("variant")
    said = _quantity(e, ("stock", "variant"), link)
    if truth is not None and not said:
        count = truth.variants.get(str(asked).lower(), truth.stock) if asked else truth.stock
        said = count == 0 and e.statements.sold_out(link)
    return [Part("stock", C.STOCK_LOOKUP, said)]


def _coupon(e: Evidence) -> list[Part]:
    link = e.reading.question.link_id
    truth = e.reading.truth(link)
    if truth is None or truth.coupon is None:
        return [Part("no coupon", C.COUPON_LOOKUP, e.statements.no_coupon)]
    code = truth.coupon.code.lower() in {e.reading.words[at] for at in e.reading.codes}
    value = _quantity(e, ("saved", "percent", "pays"), link)
    return [Part("code", C.COUPON_LOOKUP, code), Part("value", C.COUPON_LOOKUP, value, secondary=True)]


def _after_coupon(e: Evidence) -> list[Part]:
    link = e.reading.question.link_id
    truth = e.reading.truth(link)
    contrasted = any(claim.denied and "list" in claim.true_of and not denies_truth(claim, e) for claim in e.claims)
    price = _quantity(e, ("list",), link) or contrasted
    if truth is not None and truth.coupon is not None:
        pays = _quantity(e, ("pays",), link)
    else:
        pays = e.statements.no_coupon
    return [Part("price", C.PRICE_LOOKUP, price), Part("left to pay", C.COUPON_LOOKUP, pays)]


def _shipping(e: Evidence) -> list[Part]:
    city = e.reading.question.slots.get("city")
    said = any(
        claim.stated and "shipping" in claim.true_of and e.reading.city_of(claim.quantity.start) == city
        for claim in e.claims
        if all(cue & claim.true_of for cue in claim.cued)
    )
    return [Part("days", C.SHIPPING_LOOKUP, said)]


def _returns(e: Evidence) -> list[Part]:
    truth = e.reading.truth(e.reading.question.link_id)
    if truth is not None and truth.product.return_days == 0:
        return [Part("no returns", C.RETURN_POLICY_LOOKUP, e.statements.no_returns)]
    return [Part("days", C.RETURN_POLICY_LOOKUP, _quantity(e, ("returns",), e.reading.question.link_id))]


def _attribute(e: Evidence) -> list[Part]:
    return [Part("value", C.ATTRIBUTE_LOOKUP, e.statements.attribute_said, known=e.statements.attribute_known)]


def _flash(e: Evidence) -> list[Part]:
    link = e.reading.question.link_id
    truth = e.reading.truth(link)
    if truth is None or "flash" not in truth.money:
        return [Part("no flash sale", C.FLASH_SALE_LOOKUP, e.statements.no_flash)]
    return [
        Part("flash price", C.FLASH_SALE_LOOKUP, _quantity(e, ("flash",), link)),
        Part(
            "end",
            C.FLASH_SALE_LOOKUP,
            any(claim.dimension == "clock" and "flash" in claim.true_of for claim in e.claims),
            secondary=True,
        ),
    ]


def _variant(e: Evidence) -> list[Part]:
    truth = e.reading.truth(e.reading.question.link_id)
    asked = e.reading.question.slots.get("variant")
    known = truth.variants if truth is not None else {}
    if isinstance(asked, str):
        return [Part("variant", C.VARIANT_LOOKUP, e.names.variant_said(asked.lower()))]
    there = [value for value, stock in known.items() if stock]
    if not there:
        said = e.statements.sold_out(e.reading.question.link_id) if known else e.names.no_choice
        return [Part("no variant", C.VARIANT_LOOKUP, said)]
    return [Part(f"variant {value}", C.VARIANT_LOOKUP, value in e.names.offered) for value in there]


def _compare(e: Evidence) -> list[Part]:
    links = e.reading.question.slots.get("link_ids", ())
    return [Part(f"price of {link}", C.COMPARE_LOOKUP, link in e.names.compared) for link in links]


def _order(e: Evidence) -> list[Part]:
    return [Part("state", C.ORDER_STATUS_LOOKUP, e.names.order_said)]


def _search(e: Evidence) -> list[Part]:
    return [Part("result", C.PRODUCT_SEARCH, e.names.result_said)]


def _on_air(e: Evidence) -> list[Part]:
    return [Part("product", C.ON_AIR_LOOKUP, e.names.shown_said)]


_REQUIRED: dict[Family, tuple[Capability, Callable[[Evidence], list[Part]]]] = {
    F.PRICE: (C.PRICE_LOOKUP, _price),
    F.STOCK: (C.STOCK_LOOKUP, _stock),
    F.COUPON: (C.COUPON_LOOKUP, _coupon),
    F.PRICE_AFTER_COUPON: (C.PRICE_LOOKUP, _after_coupon),
    F.SHIPPING: (C.SHIPPING_LOOKUP, _shipping),
    F.RETURN_POLICY: (C.RETURN_POLICY_LOOKUP, _returns),
    F.ATTRIBUTES: (C.ATTRIBUTE_LOOKUP, _attribute),
    F.FLASH_SALE: (C.FLASH_SALE_LOOKUP, _flash),
    F.VARIANT: (C.VARIANT_LOOKUP, _variant),
    F.COMPARE: (C.COMPARE_LOOKUP, _compare),
    F.ORDER_STATUS: (C.ORDER_STATUS_LOOKUP, _order),
    F.SEARCH: (C.PRODUCT_SEARCH, _search),
    F.ON_AIR: (C.ON_AIR_LOOKUP, _on_air),
    F.UNKNOWN_LINK: (C.PRICE_LOOKUP, _price),
}


def false_quantities(e: Evidence) -> list[str]:
    false = []
    priced = {claim: link for link, claim in e.names.priced} if e.reading.family == F.COMPARE else {}
    for claim in e.claims:
        if _beside_the_shop(claim, e):
            continue
        if claim in priced and claim.stated:
            if not e.names.is_price(priced[claim], claim):
                false.append(" ".join(e.reading.words[claim.quantity.start : claim.quantity.end]))
            continue
        if claim.denied:
            wrong = denies_truth(claim, e)
        elif claim.bound is not None:
            wrong = not _bound_holds(claim, e)
        else:
            wrong = not claim.right(e.reading.family)
        if wrong:
            false.append(" ".join(e.reading.words[claim.quantity.start : claim.quantity.end]))
    return false


def _beside_the_shop(claim: Claim, e: Evidence) -> bool:
    """Numbers of small talk ("four hours of sleep") state nothing about the shop."""
    if e.reading.family == F.CHIT_CHAT and not e.reading.mentions:
        return claim.dimension not in ("money", "percent")
    return e.reading.family == F.UNKNOWN_LINK and "link" in claim.true_of


def denies_truth(claim: Claim, e: Evidence) -> bool:
    """ "not 199" is false where 199 is true, unless the sentence gives the right figure instead ("not 328 but 298")."""
    sentence = e.reading.tokens[claim.quantity.start].sentence
    instead = any(
        other.stated and other.dimension == claim.dimension and other.true_of
        for other in e.claims
        if other is not claim and e.reading.tokens[other.quantity.start].sentence == sentence
    )
    return claim.right(e.reading.family) and not instead


def _bound_holds(claim: Claim, e: Evidence) -> bool:
    """A minimum of a coupon, or an inequality with a price or count of the product."""
    if claim.true_of and all(roles & claim.true_of for roles in claim.cued):
        return True
    truth = e.reading.truth(claim.link)
    if truth is None or claim.dimension not in ("money", "count"):
        return False
    values = (
        truth.money["list"] | truth.money.get("flash", frozenset()) if claim.dimension == "money" else {truth.stock}
    )
    if claim.bound in ("under", "below", "most"):
        return any(value < claim.quantity.value for value in values)
    return any(value > claim.quantity.value for value in values)
