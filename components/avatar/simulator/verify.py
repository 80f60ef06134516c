"""Judges the claims of a reply against facts: the true state (accuracy) or what the tools said (fact check hook)."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from components.avatar.harness.schema import Family
from components.avatar.harness.script import has_han
from components.avatar.simulator.catalogue import Catalogue, attribute_key
from components.avatar.simulator.claims import Claims, NumberClaim, whole_value
from components.avatar.simulator.facts import Fact, FactKind, Lookup
from components.avatar.simulator.families import Requirement, intent
from components.avatar.simulator.scenario import Question

K = FactKind

_NUMERIC = (
    *(K.PRICE, K.FLASH_PRICE, K.PAYS, K.COUPON_VALUE, K.COUPON_PERCENT, K.COUPON_MINIMUM),
    *(K.STOCK, K.SHIPPING_DAYS, K.RETURN_DAYS, K.WARRANTY_MONTHS),
)
_STATED = (K.SOLD_OUT, K.IN_STOCK, K.NO_COUPON, K.NO_FLASH, K.NO_RETURNS, K.NO_WARRANTY, K.NO_VARIANTS, K.UNKNOWN_LINK)
_NAMING = frozenset({Family.ON_AIR, Family.SEARCH})  # their answers name a product


class Context(NamedTuple):
    """What a reply is about: needed to give every claim its subject."""

    question: Question
    family: Family  # the intent of the question
    catalogue: Catalogue
    on_air: int | None = None

    @property
    def link(self) -> int | None:
        return self.question.link_id if self.question.link_id is not None else self.on_air

    @property
    def attribute(self) -> str | None:
        asked = self.question.slots.get("attribute")
        return attribute_key(asked) if isinstance(asked, str) and self.family == Family.ATTRIBUTES else None


def context_of(question: Question, catalogue: Catalogue, on_air: int | None) -> Context:
    return Context(question, intent(question), catalogue, on_air)


def false_claims(claims: Claims, context: Context, lookup: Lookup) -> list[str]:
    """The claims that `lookup` does not bear out, as they stand in the text."""
    wrong = [claim.text for claim in claims.numbers if not _number_holds(claim, claims, context, lookup)]
    link = context.link
    for clock in claims.clocks:
        if clock not in lookup(K.FLASH_ENDS, link) and clock not in context.question.text:
            wrong.append(clock)
    subjects = {link} if not claims.links or link in claims.links else claims.links
    if claims.codes:
        asked = context.question.text.lower()
        for code in sorted(claims.codes):
            if code not in asked and not any(code in lookup(K.COUPON_CODE, subject) for subject in subjects):
                wrong.append(code)
    for kind in _STATED if claims.says else ():
        if kind in claims.says and not _statement_holds(kind, subjects, claims, context, lookup):
            wrong.append(kind.value)
    return wrong


def false_text(claims: Claims, context: Context, lookup: Lookup) -> list[str]:
    """Facts without numbers that were asked for and stated wrongly: another state of the order, another product's value
    of the attribute (where the own value is not stated), another link or title than that on air or found.
    """
    if context.family in _NAMING:
        return _wrong_product(claims, context, lookup)
    if context.family == Family.ORDER_STATUS:
        order = str(context.question.slots.get("order_id", "")).upper()
        true = lookup(K.ORDER_STATUS, order)
        return [state for state in claims.grammar.order_states if state not in true and _in_state(claims, state)]
    name = context.attribute
    if name is None:
        return []
    true = lookup(K.ATTRIBUTE, (context.link, name))
    values = context.catalogue.attribute_values.get(name, frozenset())
    if any(_contains(claims.text, value, values) for value in true):
        return []
    question = context.question.text.lower()
    return sorted(value for value in values if value not in question and _contains(claims.text, value, values))


def _wrong_product(claims: Claims, context: Context, lookup: Lookup) -> list[str]:
    """The links that the reply names, where none of them is on air or found; else the titles, where none of them is
    that of a named link. The viewer's own numbers name nothing.
    """
    on_air = context.family == Family.ON_AIR
    query = None if on_air else str(context.question.slots.get("query", ""))
    true = lookup(K.ON_AIR if on_air else K.FOUND, query)
    named = {link for link in claims.links if str(link) not in context.question.text}
    if not named or not any(isinstance(value, int) for value in true):
        return []
    if claims.links.isdisjoint(true):
        return [f"link {link}" for link in sorted(named)]
    text, titles = claims.text, {}
    for title, links in context.catalogue.titles.items():
        if title in text:
            text = text.replace(title, " ")
            titles[title] = links
    return [] if any(not links.isdisjoint(claims.links) for links in titles.values()) else list(titles)


def satisfied(requirement: Requirement, claims: Claims, context: Context) -> bool:
    """Whether the reply states any of the facts that the requirement asks for."""
    for fact in requirement.facts:
        if _states(fact, claims, context):
            return True
    return False


def unsupported(claims: Claims, context: Context, lookup: Lookup) -> bool:
    """Whether the reply states a fact that no tool gave: in an outage that is made up, even if it is true."""
    if any(not _number_holds(claim, claims, context, lookup) for claim in claims.numbers):
        return True
    asked = context.question.text.lower()
    if any(code not in asked and code not in lookup(K.COUPON_CODE, context.link) for code in claims.codes):
        return True
    stated = [kind for kind in _STATED if kind in claims.says and kind not in (K.NO_COUPON, K.UNKNOWN_LINK)]
    if any(not lookup(kind, context.link) for kind in stated):
        return True
    return bool(false_text(claims, context, lookup))


def _number_holds(claim: NumberClaim, claims: Claims, context: Context, lookup: Lookup) -> bool:
    link = claim.link if claim.link is not None else context.link
    if claim.bare and claim.value == context.question.link_id:
        return True  # "25 is ..." names the link
    product = context.catalogue.by_link.get(link)  # type: ignore[arg-type]
    if claim.currency is not None and product is not None and claim.currency != product.price.currency:
        return False
    for kind in claim.kinds or _NUMERIC:
        if _value_holds(claim.value, kind, link, claims, context, lookup):
            return True
    # Repeating the viewer's own number states nothing.
    return not claim.kinds and _digits(claim.value) in context.question.text


def _value_holds(
    value: Decimal, kind: FactKind, link: int | None, claims: Claims, context: Context, lookup: Lookup
) -> bool:
    if kind == K.SHIPPING_DAYS:
        return any(value in lookup(kind, city) for city in _cities(claims, context))
    if value in lookup(kind, link):
        return True
    if kind == K.STOCK:
        variant = context.question.slots.get("variant")
        return isinstance(variant, str) and value in lookup(kind, (link, variant.lower()))
    if kind == K.COUPON_VALUE:  # a percentage coupon may be stated as the amount that it saves
        return any(value == price - pays for price in lookup(K.PRICE, link) for pays in lookup(K.PAYS, link))
    return False


def _cities(claims: Claims, context: Context) -> set[str]:
    named = {city.lower() for city in context.catalogue.cities if _contains(claims.text, city.lower())}
    asked = context.question.slots.get("city")
    return named or ({asked.lower()} if isinstance(asked, str) else set())


def _statement_holds(kind: FactKind, subjects: Iterable[Any], claims: Claims, context: Context, lookup: Lookup) -> bool:
    asked = context.question.slots.get("variant")
    if kind in (K.IN_STOCK, K.SOLD_OUT) and isinstance(asked, str):
        stocks = lookup(K.STOCK, (context.link, asked.lower()))
        if kind == K.IN_STOCK:
            return any(stock > 0 for stock in stocks or lookup(K.STOCK, context.link))
        if stocks:
            return any(stock == 0 for stock in stocks)
    return any(lookup(kind, subject) for subject in subjects)


def _states(fact: Fact, claims: Claims, context: Context) -> bool:
    kind, subject, value = fact
    about = subject[0] if isinstance(subject, tuple) else subject
    if isinstance(about, int) and claims.links and about not in claims.links:
        return False  # said of another product
    if kind == K.ON_AIR:
        if value is None:
            return not claims.links and claims.grammar.nothing_shown.search(claims.text) is not None
        return value in claims.links if isinstance(value, int) else value in claims.text
    if value is True:
        return kind in claims.says
    if kind == K.COUPON_CODE:
        return value in claims.codes
    if kind == K.FLASH_ENDS:
        return value in claims.clocks
    if kind == K.FOUND:
        return value in claims.links if isinstance(value, int) else value in claims.text
    if kind == K.ORDER_STATUS:
        return _in_state(claims, value)
    if kind == K.ATTRIBUTE and value == claims.grammar.none_value:
        said = [phrase.format(attribute=subject[1]) for phrase in claims.grammar.no_attribute]
        return any(_contains(claims.text, phrase) for phrase in (value, *said))
    if kind == K.ATTRIBUTE:
        return _contains(claims.text, value, context.catalogue.attribute_values.get(subject[1], ()))
    if kind == K.VARIANT:
        product = context.catalogue.by_link.get(about)
        return _contains(claims.text, value, [v.value.lower() for v in product.variants] if product else ())
    link = about if isinstance(about, int) else context.link
    return any(
        claim.value == value
        and (not claim.kinds or kind in claim.kinds)
        and (claim.link if claim.link is not None else context.link) == link
        for claim in claims.numbers
    )


def _in_state(claims: Claims, state: str) -> bool:
    return any(_contains(claims.text, words) for words in claims.grammar.order_states[state])


def _contains(text: str, value: str, others: Iterable[str] = ()) -> bool:
    """`value` stands in `text` as whole words; both lower case. "150 ml" and "150ml" are the same.

    `others` are values that might have been said instead. Without blanks between words a value is not stated where it
    is a part of one of them ("花香" in "兰花香").
    """
    if has_han(value):
        for other in sorted((o for o in others if value in o and o != value), key=len, reverse=True):
            text = text.replace(other, " ")
    return whole_value(value).search(text) is not None


def _digits(value: Decimal) -> str:
    return str(int(value)) if value == value.to_integral_value() else f"{value:f}"
