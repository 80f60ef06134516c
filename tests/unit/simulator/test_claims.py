"""The verifier reads typed claims out of free text: each case says what the text states."""

from decimal import Decimal

import pytest

from components.avatar.harness.schema import Family, Language
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.claims import extract
from components.avatar.simulator.facts import FactKind as K
from components.avatar.simulator.facts import TrueFacts
from components.avatar.simulator.stream import Stream
from components.avatar.simulator.verify import context_of, false_claims, false_text
from tests.unit.simulator.shop import ask

F = Family


@pytest.mark.parametrize(
    "text",
    [
        "¥129.00",
        "￥129",
        "129 yuan",
        "129.00 CNY",
        "It is 129 RMB.",
        "CNY 129.00",
        "cny129",
        "１２９元",
        "１２９．００ yuan",
        "only 129块",
        "That is 129.",
        "Link 3 is 129.00 CNY right now",
        "#3: 129",
    ],
)
def test_price_forms(text: str, catalogue: Catalogue) -> None:
    claims = extract(text, F.PRICE, catalogue)
    assert [claim.value for claim in claims.numbers] == [129]
    assert K.PRICE in claims.numbers[0].kinds


@pytest.mark.parametrize("text", ["¥1,299", "1,299.00 yuan", "1299 yuan", "1299.00"])
def test_thousands(text: str, catalogue: Catalogue) -> None:
    assert extract(text, F.PRICE, catalogue).numbers[0].value == Decimal(1299)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It costs 129 CNY and drops to 109 CNY with the coupon.", {K.PRICE: 129, K.PAYS: 109}),
        ("You pay 109 CNY instead of 129 CNY.", {K.PAYS: 109, K.PRICE: 129}),
        ("129 yuan, 109 yuan after coupon", {K.PRICE: 129, K.PAYS: 109}),
        ("129 CNY before and 109 CNY after the coupon", {K.PRICE: 129, K.PAYS: 109}),
        ("Save 20 CNY off 129 CNY with SAVE20", {K.COUPON_VALUE: 20, K.PRICE: 129}),
        ("Code SAVE20 takes 20 CNY off.", {K.COUPON_VALUE: 20}),
        ("Use SAVE20 for 20 yuan off orders over 100 yuan", {K.COUPON_VALUE: 20, K.COUPON_MINIMUM: 100}),
        ("a 20 yuan coupon", {K.COUPON_VALUE: 20}),
        ("The flash price is 99 CNY until 21:30", {K.FLASH_PRICE: 99}),
        ("99 CNY in the flash sale, normally 129 CNY", {K.FLASH_PRICE: 99, K.PRICE: 129}),
        ("35 left in stock, price 129 CNY", {K.STOCK: 35, K.PRICE: 129}),
        ("we still have 35 pieces", {K.STOCK: 35}),
        ("thirty pieces left", {K.STOCK: 30}),
        ("It reaches Beijing in 3 days and you can return it within 7 days", {K.SHIPPING_DAYS: 3, K.RETURN_DAYS: 7}),
        ("seven days to return it", {K.RETURN_DAYS: 7}),
        ("2 weeks for returns", {K.RETURN_DAYS: 14}),
        ("a warranty of 1 year", {K.WARRANTY_MONTHS: 12}),
        ("10% off with code TEN4U", {K.COUPON_PERCENT: 10}),
    ],
)
def test_kinds_by_nearby_words(text: str, expected: dict[K, int], catalogue: Catalogue) -> None:
    found = {claim.kinds[0]: claim.value for claim in extract(text, F.PRICE_AFTER_COUPON, catalogue).numbers}
    assert found == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Sorry, I can't check that right now.", {K.UNAVAILABLE}),
        ("I cannot look up the price", {K.UNAVAILABLE}),
        ("the system is down", {K.UNAVAILABLE}),
        ("Sorry, sold out!", {K.SOLD_OUT}),
        ("it is not in stock", {K.SOLD_OUT}),
        ("It isn't sold out", {K.IN_STOCK}),
        ("yes, in stock", {K.IN_STOCK}),
        ("There is no coupon for link 3", {K.NO_COUPON}),
        ("we don't have a discount code", {K.NO_COUPON}),
        ("no flash sale now", {K.NO_FLASH}),
        ("Link 3 is not on sale", {K.NO_FLASH}),
        ("We don't have link 99", {K.UNKNOWN_LINK}),
        ("there's no link 99", {K.UNKNOWN_LINK}),
        ("I can't find link 99", {K.UNKNOWN_LINK}),
        ("no returns on this one", {K.NO_RETURNS}),
        ("it has no warranty", {K.NO_WARRANTY}),
        ("I can't wait to show you", set()),
        ("no problem, link 3 is lovely", set()),
        ("There are no tricks here", set()),
    ],
)
def test_statements(text: str, says: set[K], catalogue: Catalogue) -> None:
    assert extract(text, F.CHIT_CHAT, catalogue).says == says


@pytest.mark.parametrize(
    ("family", "text", "wrong"),
    [
        (F.PRICE, "It is 129 CNY", []),
        (F.PRICE, "It is 99 CNY", []),  # the flash price: one can buy at it
        (F.PRICE, "It is 109 CNY", ["109 cny"]),  # true after the coupon, but not as a price
        (F.PRICE, "It is $129", ["$129"]),
        (F.PRICE, "Link 7 is 129 CNY", ["129 cny"]),  # link 3's price said of link 7
        (F.PRICE, "Link 7 is 1,299 CNY", []),
        (F.PRICE, "129 CNY, only 34 left", ["34"]),
        (F.PRICE, "129 CNY, 35 left, sold out soon", ["sold_out"]),
        (F.PRICE, "3 is 129 CNY", []),  # names the link
        (F.COUPON, "Use SAVE20 for 20 CNY off", []),
        (F.COUPON, "Use SAVE30 for 20 CNY off", ["save30"]),
        (F.COUPON, "Use TEN4U for 20 CNY off", ["ten4u"]),  # another product's code
        (F.COUPON, "no coupon, sorry", ["no_coupon"]),
        (F.COUPON, "Save 20 CNY on orders over 100 CNY with SAVE20", []),
        (F.SHIPPING, "3 days to Beijing", []),
        (F.SHIPPING, "3 days to Harbin", ["3 days"]),
        (F.SHIPPING, "6 days to Harbin", []),
        (F.RETURN_POLICY, "You have 7 days to return it", []),
        (F.RETURN_POLICY, "You have 3 days to return it", ["3 days"]),  # days, but of shipping
        (F.FLASH_SALE, "99 CNY until 21:30", []),
        (F.FLASH_SALE, "99 CNY until 9:30 pm", []),
        (F.FLASH_SALE, "99 CNY until 22:00", ["22:00"]),
        (F.FLASH_SALE, "no flash sale", ["no_flash"]),
        (F.ATTRIBUTES, "The Rose Serum 30ml smells of rose", []),
        (F.CHIT_CHAT, "Call me at 555 today", ["555"]),
        (F.CHIT_CHAT, "Happy to see you", []),
    ],
)
def test_truth(family: Family, text: str, wrong: list[str], catalogue: Catalogue) -> None:
    question = ask(family, 3, city="Beijing", attribute="scent")
    context = context_of(question, catalogue, 7)
    truth = TrueFacts(Stream(catalogue), 3)
    assert false_claims(extract(text, family, catalogue), context, truth) == wrong


def test_percent_coupon_may_be_stated_as_what_it_saves(catalogue: Catalogue) -> None:
    context = context_of(ask(F.COUPON, 8), catalogue, None)
    truth = TrueFacts(Stream(catalogue), 8)
    assert false_claims(extract("TEN4U saves you 5 CNY", F.COUPON, catalogue), context, truth) == []
    assert false_claims(extract("TEN4U saves you 6 CNY", F.COUPON, catalogue), context, truth) == ["6 cny"]


def test_another_products_attribute_is_false(catalogue: Catalogue) -> None:
    context = context_of(ask(F.ATTRIBUTES, 3, attribute="Scent"), catalogue, None)
    truth = TrueFacts(Stream(catalogue), 3)
    assert false_text(extract("It smells of jasmine", F.ATTRIBUTES, catalogue), context, truth) == ["jasmine"]
    assert false_text(extract("It smells of rose", F.ATTRIBUTES, catalogue), context, truth) == []


def test_a_text_is_read_anew_for_another_question_language_or_attribute(catalogue: Catalogue) -> None:
    """Readings are remembered: of the same words, only in the same place."""
    text = "the 12 month pack, 3 left, 35 in all"

    def read(family: Family, values: frozenset[str] = frozenset(), language: Language = "en") -> list:
        return [(claim.value, claim.kinds) for claim in extract(text, family, catalogue, values, language).numbers]

    first = read(F.PRICE)
    assert first == [(12, (K.WARRANTY_MONTHS,)), (3, (K.STOCK,)), (35, (K.PRICE, K.FLASH_PRICE))]
    assert read(F.STOCK)[2] == (35, (K.STOCK,))
    assert read(F.PRICE, frozenset({"12 month pack"})) == first[1:]
    assert read(F.PRICE, language="zh")[0] != first[0]
    assert read(F.PRICE) == first
