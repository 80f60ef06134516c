"""Right answers in words that the oracle would not choose, and wrong ones that look alike: both are judged."""

import pytest

from components.avatar.harness.schema import Family
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.oracle import next_action, realise
from components.avatar.simulator.session import Session
from tests.unit.simulator.shop import ask, make_harness, scenario

F = Family
CASES = [
    (
        ask(F.PRICE),
        [
            "Link 3 is now only 129.00 CNY!",
            "it's only 129.00 today, lovely",
            "Only 129!",
            "129.00 CNY, and 99.00 in the flash sale until 21:30",
            "Link 3's price is 129.00 CNY",
            "You can have it for ¥129",
            "Rose Serum 30ml is 129.00 CNY",
        ],
        ["Only 128!", "It's 109.00 CNY", "130 yuan", "It is 35 CNY", "It has a good price", ""],
    ),
    (
        ask(F.PRICE_AFTER_COUPON),
        [
            "With SAVE20 the price is 109.00 CNY instead of 129.00",
            "From 129 to 109 CNY with coupon",
            "Coupon price: 109, list price 129",
            "After the coupon it's 109 (was 129)",
            "129.00 CNY, 109.00 CNY after SAVE20",
            "It's 129 CNY and with SAVE20 you get it at 109 CNY",
            "129 minus 20 is 109 CNY",
            "Price 129.00 CNY. Final price 109.00 CNY.",
        ],
        ["With SAVE20 the price is 129.00 instead of 109.00", "It is 109 CNY", "129 CNY, you pay 119 CNY", "129 CNY"],
    ),
    (
        ask(F.COUPON),
        [
            "Use SAVE20 for 20 CNY",
            "SAVE20 gives 20 off",
            "Code SAVE20, 20.00 CNY discount",
            "Yes! SAVE20 takes 20 yuan off orders over 100",
            "Apply SAVE20 and save ¥20",
            "with code SAVE20 you pay 109.00 CNY",
        ],
        ["Use SAVE20 for 30 CNY off", "use TEN4U for 20 off", "No coupon for link 3", "20 CNY off", "SAVE20 on link 8"],
    ),
    (
        ask(F.COUPON, 9),
        ["Link 9 has no coupon", "no codes for that one", "We don't have a voucher for it"],
        ["use SOAP5"],
    ),
    (
        ask(F.STOCK),
        ["35 in stock", "There are 35 units", "Only 35!", "35 bottles left", "We have 35 of link 3 left"],
        ["34 left", "sold out", "in stock, plenty", "35 CNY"],
    ),
    (
        ask(F.STOCK, 9),
        ["Link 9 is gone", "0 left", "It's sold out, sorry", "out of stock right now"],
        ["in stock", "5 left"],
    ),
    (
        ask(F.SHIPPING, city="Beijing"),
        ["Beijing: 3 days", "3-day delivery to Beijing", "arrives in three days", "within 3 working days"],
        ["3 weeks", "It takes 2 days to Beijing", "2-3 days", "6 days to Harbin", "3 CNY"],
    ),
    (
        ask(F.RETURN_POLICY),
        [
            "You can return it within 7 days of delivery",
            "7-day returns",
            "return within 7 days after it arrives",
            "1 week",
        ],
        ["14 days", "no returns", "7 days to reach you"],
    ),
    (
        ask(F.ATTRIBUTES, attribute="volume"),
        ["It is 30ml", "30 ml", "the bottle holds 30 ml"],
        ["It is 50 ml", "It is big"],
    ),
    (ask(F.ATTRIBUTES, 7, attribute="scent"), ["none", "It has no scent"], ["rose", "It is nice"]),
    (
        ask(F.FLASH_SALE),
        ["99 CNY until 21:30", "flash price 99.00 till 9:30 pm", "On flash sale for 99 CNY, ends 21:30"],
        ["99 CNY until 23:00", "no flash sale", "129 CNY until 21:30"],
    ),
    (ask(F.FLASH_SALE, 7), ["Link 7 isn't on flash sale", "no deal on that one"], ["1299 flash price"]),
    (
        ask(F.UNKNOWN_LINK, 77),
        ["Link 77 doesn't exist", "We don't carry 77", "I couldn't find link 77", "That link isn't in the stream"],
        ["link 77 is 99 CNY", "sold out", "Sure, have a look"],
    ),
    (
        ask(F.ON_AIR, None, "what is this?"),
        ["That is link 7", "number 7!", "the Lamp", "It's 7", "Link 7, our Lamp", "Link 7, the Lamp, next to the Mask"],
        ["link 3", "something nice", "Link 3, the Lamp", "This is #8, our Lamp!", "Link 7, the Rose Serum 30ml"],
    ),
    (
        ask(F.SEARCH, None, "anything with rose", query="rose"),
        ["Try link 3, the Rose Serum 30ml", "the Rose Serum 30ml", "#3 has it", "Link 3, or maybe link 7"],
        ["Try link 7, the Rose Serum 30ml", "Number 9, Rose Serum 30ml", "Link 3, the Lamp", "link 8"],
    ),
    (
        ask(F.SEARCH, None, "soap or mask", query="soap mask"),
        ["Link 8, the Mask", "the Soap", "Link 9, the Soap, and link 8, the Mask", "Link 8, the Mask, or the Soap"],
        ["Link 8, the Soap", "Link 9, our Mask", "Link 3, the Soap"],
    ),
    (
        ask(F.ORDER_STATUS, None, "where is A1042", order_id="A1042"),
        [],
        ["A1042 is lost", "It comes tomorrow"],
    ),
]
TABLE = [(q, text, 1.0) for q, good, _ in CASES for text in good] + [
    (q, text, 0.0) for q, _, bad in CASES for text in bad
]


@pytest.mark.parametrize(("question", "text", "accuracy"), TABLE)
def test_paraphrase(question, text: str, accuracy: float, catalogue: Catalogue) -> None:
    session = Session(make_harness(hooks=()), catalogue, scenario(question))
    session.begin()
    while (realised := realise(session, next_action(session)))[0] == "call":
        session.call(realised[1], realised[2])
    session.reply(text)
    reply = session.replies[0]
    assert reply.accuracy == accuracy, (reply.false_claims, reply.missing_facts)
