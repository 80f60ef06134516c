"""What each family of questions needs: the calls that find its facts, and the facts that an answer must state."""

from collections.abc import Callable
from typing import Any, NamedTuple

from components.avatar.harness.schema import CAPABILITY_ARGUMENTS, Capability, Family, Harness
from components.avatar.simulator.catalogue import attribute_key
from components.avatar.simulator.facts import Fact, FactKind, Lookup
from components.avatar.simulator.scenario import Question

C, F, K = Capability, Family, FactKind

LINK_FAMILIES = frozenset(
    {F.PRICE, F.STOCK, F.COUPON, F.PRICE_AFTER_COUPON, F.VARIANT, F.ATTRIBUTES, F.RETURN_POLICY, F.FLASH_SALE}
)
FACT_FAMILIES = LINK_FAMILIES | {F.SHIPPING, F.ON_AIR, F.COMPARE, F.ORDER_STATUS, F.SEARCH}
TALK_FAMILIES = frozenset({F.CHIT_CHAT, F.OUT_OF_SCOPE, F.FORBIDDEN_CLAIM, F.INJECTION})
SUPPORTED = FACT_FAMILIES | TALK_FAMILIES | {F.UNKNOWN_LINK, F.OUTAGE}  # families that verifier and oracle know

# Capabilities that can find a family's facts; one inner tuple a fact, alternatives in order of preference.
_NEEDED: dict[Family, tuple[tuple[Capability, ...], ...]] = {
    F.PRICE: ((C.PRICE_LOOKUP,),),
    F.STOCK: ((C.STOCK_LOOKUP,),),
    F.COUPON: ((C.COUPON_LOOKUP,),),
    F.PRICE_AFTER_COUPON: ((C.PRICE_LOOKUP,), (C.COUPON_LOOKUP,)),
    F.SHIPPING: ((C.SHIPPING_LOOKUP,),),
    F.RETURN_POLICY: ((C.RETURN_POLICY_LOOKUP, C.ATTRIBUTE_LOOKUP),),
    F.ATTRIBUTES: ((C.ATTRIBUTE_LOOKUP,),),
    F.FLASH_SALE: ((C.FLASH_SALE_LOOKUP, C.PRICE_LOOKUP),),
    F.ON_AIR: ((C.ON_AIR_LOOKUP,),),
    F.VARIANT: ((C.VARIANT_LOOKUP, C.STOCK_LOOKUP),),
    F.COMPARE: ((C.COMPARE_LOOKUP,),),
    F.ORDER_STATUS: ((C.ORDER_STATUS_LOOKUP,),),
    F.SEARCH: ((C.PRODUCT_SEARCH,),),
    F.UNKNOWN_LINK: ((C.PRICE_LOOKUP, C.STOCK_LOOKUP, C.COUPON_LOOKUP, C.RETURN_POLICY_LOOKUP, C.FLASH_SALE_LOOKUP),),
}


class Call(NamedTuple):
    """A call by meaning: capability and canonical arguments."""

    capability: Capability
    arguments: dict[str, Any]

    def same(self, capability: Capability, arguments: dict[str, Any]) -> bool:
        if capability != self.capability:
            return False
        return arguments == self.arguments or _normal(arguments) == _normal(self.arguments)


class Need(NamedTuple):
    """One fact to look up. `key` is its first choice of capability; `calls` the calls that the harness offers for it:
    the first is the one to make, any of them counts. Empty: the merchant has no tool for it.
    """

    key: Capability
    calls: tuple[Call, ...]


class Requirement(NamedTuple):
    """A fact that the answer must state: any of `facts`. `secondary`: desirable, its absence costs half of the
    effectiveness.
    """

    name: str
    key: Capability  # the need that finds it
    facts: tuple[Fact, ...]
    secondary: bool = False


def intent(question: Question) -> Family:
    """The family that the viewer's words ask for: an outage or an unknown link cannot be seen in them."""
    asked = question.slots.get("asks")
    if asked is not None and question.family in (F.OUTAGE, F.UNKNOWN_LINK):
        return Family(asked)
    return question.family or F.CHIT_CHAT


def needs_of(question: Question, harness: Harness) -> tuple[Need, ...]:
    """The lookups that `question` needs, in order."""
    family = F.UNKNOWN_LINK if question.family == F.UNKNOWN_LINK else intent(question)
    return tuple(
        [Need(options[0], _offered(options, question, family, harness)) for options in _NEEDED.get(family, ())]
    )


def requirements_of(question: Question, lookup: Lookup) -> list[Requirement]:
    """The facts that an answer must state, given the facts that `lookup` knows (the truth, or what tools said)."""
    family = F.UNKNOWN_LINK if question.family == F.UNKNOWN_LINK else intent(question)
    link = question.link_id
    if family in _REQUIRED:
        if link is not None and lookup(K.UNKNOWN_LINK, link):
            key = _NEEDED[family][0][0]
            return [Requirement("unknown_link", key, (Fact(K.UNKNOWN_LINK, link, True),))]
        return _REQUIRED[family](question, lookup)
    return []


def _offered(options: tuple[Capability, ...], question: Question, family: Family, harness: Harness) -> tuple[Call, ...]:
    """The calls that the harness offers for one fact: for an unknown link any is right, elsewhere only the first, since
    two tools for one fact would let an agent shop around.
    """
    calls = []
    for capability in options:
        call = _call(capability, question, family, harness)
        if call is not None:
            calls.append(call)
            if family != F.UNKNOWN_LINK:
                break
    return tuple(calls)


def _call(capability: Capability, question: Question, family: Family, harness: Harness) -> Call | None:
    """The call that finds this fact with the first tool bound to `capability`, or None when the harness offers none."""
    tools = harness.tools_for(capability)
    if not tools:
        return None
    if family == F.VARIANT and capability == C.STOCK_LOOKUP and "variant" not in question.slots:
        return None  # a count tells nothing of the choices
    bound = harness.bindings[tools[0].name].arguments.values()
    wanted: dict[str, Any] = {}
    for name, (_, required) in CAPABILITY_ARGUMENTS[capability].items():
        value = _argument(name, question, family)
        if value is not None and name in bound:
            wanted[name] = value
        elif required or (name == "variant" and family == F.VARIANT):
            return None
    return Call(capability, wanted)


def _argument(name: str, question: Question, family: Family) -> Any:
    if name == "link_id":
        return question.link_id
    if name == "attribute":
        return "return_days" if family == F.RETURN_POLICY else question.slots.get("attribute")
    return question.slots.get(name)


def _normal(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in arguments.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(str, value))  # the order of compared links means nothing
    return attribute_key(value) if isinstance(value, str) else value


def _facts(lookup: Lookup, kind: FactKind, subject: Any) -> tuple[Fact, ...]:
    return tuple([Fact(kind, subject, value) for value in lookup(kind, subject)])


def _first(*groups: tuple[Fact, ...]) -> tuple[Fact, ...]:
    return next((group for group in groups if group), ())


def _price(question: Question, lookup: Lookup) -> list[Requirement]:
    link = question.link_id
    return [Requirement("price", C.PRICE_LOOKUP, _facts(lookup, K.PRICE, link) + _facts(lookup, K.FLASH_PRICE, link))]


def _stock(question: Question, lookup: Lookup) -> list[Requirement]:
    variant = question.slots.get("variant")
    subject = (question.link_id, variant.lower()) if isinstance(variant, str) else question.link_id
    facts = _facts(lookup, K.STOCK, subject) or _facts(lookup, K.STOCK, question.link_id)
    sold_out = _facts(lookup, K.SOLD_OUT, question.link_id) if all(fact.value == 0 for fact in facts) else ()
    return [Requirement("stock", C.STOCK_LOOKUP, facts + sold_out)]


def _coupon(question: Question, lookup: Lookup) -> list[Requirement]:
    link = question.link_id
    code = _facts(lookup, K.COUPON_CODE, link)
    if not code:
        return [Requirement("no_coupon", C.COUPON_LOOKUP, _facts(lookup, K.NO_COUPON, link))]
    value = _facts(lookup, K.COUPON_VALUE, link) + _facts(lookup, K.COUPON_PERCENT, link) + _facts(lookup, K.PAYS, link)
    return [
        Requirement("coupon_code", C.COUPON_LOOKUP, code),
        Requirement("coupon_value", C.COUPON_LOOKUP, value, secondary=True),
    ]


def _after_coupon(question: Question, lookup: Lookup) -> list[Requirement]:
    link = question.link_id
    pays = _first(_facts(lookup, K.PAYS, link), _facts(lookup, K.NO_COUPON, link))
    return [
        Requirement("price", C.PRICE_LOOKUP, _facts(lookup, K.PRICE, link)),
        Requirement("pays", C.COUPON_LOOKUP, pays),
    ]


def _shipping(question: Question, lookup: Lookup) -> list[Requirement]:
    city = str(question.slots.get("city", "")).lower()
    return [Requirement("shipping_days", C.SHIPPING_LOOKUP, _facts(lookup, K.SHIPPING_DAYS, city))]


def _returns(question: Question, lookup: Lookup) -> list[Requirement]:
    link = question.link_id
    facts = _first(_facts(lookup, K.NO_RETURNS, link), _facts(lookup, K.RETURN_DAYS, link))
    return [Requirement("return_days", C.RETURN_POLICY_LOOKUP, facts)]


def _attribute(question: Question, lookup: Lookup) -> list[Requirement]:
    link, asked = question.link_id, attribute_key(str(question.slots.get("attribute", "")))
    if asked in ("warranty", "warranty months"):
        facts = _first(_facts(lookup, K.NO_WARRANTY, link), _facts(lookup, K.WARRANTY_MONTHS, link))
    elif asked == "return days":
        facts = _first(_facts(lookup, K.NO_RETURNS, link), _facts(lookup, K.RETURN_DAYS, link))
    else:
        facts = _facts(lookup, K.ATTRIBUTE, (link, asked))
    return [Requirement("attribute", C.ATTRIBUTE_LOOKUP, facts)]


def _flash(question: Question, lookup: Lookup) -> list[Requirement]:
    link = question.link_id
    price = _facts(lookup, K.FLASH_PRICE, link)
    if not price:
        return [Requirement("no_flash", C.FLASH_SALE_LOOKUP, _facts(lookup, K.NO_FLASH, link))]
    return [
        Requirement("flash_price", C.FLASH_SALE_LOOKUP, price),
        Requirement("flash_ends", C.FLASH_SALE_LOOKUP, _facts(lookup, K.FLASH_ENDS, link), secondary=True),
    ]


def _variant(question: Question, lookup: Lookup) -> list[Requirement]:
    link, asked = question.link_id, question.slots.get("variant")
    if isinstance(asked, str):
        stock = _facts(lookup, K.STOCK, (link, asked.lower()))
        in_stock = (Fact(K.IN_STOCK, link, True),) if any(fact.value > 0 for fact in stock) else ()
        sold_out = (Fact(K.SOLD_OUT, link, True),) if stock and not in_stock else ()
        return [Requirement("variant", C.VARIANT_LOOKUP, stock + in_stock + sold_out)]
    values = sorted(lookup(K.VARIANT, link))
    if not values:
        none = _first(_facts(lookup, K.NO_VARIANTS, link), _facts(lookup, K.SOLD_OUT, link))
        return [Requirement("variant", C.VARIANT_LOOKUP, none)]
    return [Requirement(f"variant {value}", C.VARIANT_LOOKUP, (Fact(K.VARIANT, link, value),)) for value in values]


def _compare(question: Question, lookup: Lookup) -> list[Requirement]:
    return [
        Requirement(f"price of {link}", C.COMPARE_LOOKUP, _facts(lookup, K.PRICE, link))
        for link in question.slots.get("link_ids", ())
    ]


def _order(question: Question, lookup: Lookup) -> list[Requirement]:
    order = str(question.slots.get("order_id", "")).upper()
    return [Requirement("order_status", C.ORDER_STATUS_LOOKUP, _facts(lookup, K.ORDER_STATUS, order))]


def _search(question: Question, lookup: Lookup) -> list[Requirement]:
    query = str(question.slots.get("query", ""))
    found = _first(_facts(lookup, K.FOUND, query), _facts(lookup, K.NOTHING_FOUND, query))
    return [Requirement("found", C.PRODUCT_SEARCH, found)]


def _on_air(question: Question, lookup: Lookup) -> list[Requirement]:
    return [Requirement("on_air", C.ON_AIR_LOOKUP, _facts(lookup, K.ON_AIR, None))]


def _unknown(question: Question, lookup: Lookup) -> list[Requirement]:
    return [Requirement("unknown_link", C.PRICE_LOOKUP, (Fact(K.UNKNOWN_LINK, question.link_id, True),))]


_REQUIRED: dict[Family, Callable[[Question, Lookup], list[Requirement]]] = {
    F.PRICE: _price,
    F.STOCK: _stock,
    F.COUPON: _coupon,
    F.PRICE_AFTER_COUPON: _after_coupon,
    F.SHIPPING: _shipping,
    F.RETURN_POLICY: _returns,
    F.ATTRIBUTES: _attribute,
    F.FLASH_SALE: _flash,
    F.VARIANT: _variant,
    F.COMPARE: _compare,
    F.ORDER_STATUS: _order,
    F.SEARCH: _search,
    F.ON_AIR: _on_air,
    F.UNKNOWN_LINK: _unknown,
}
