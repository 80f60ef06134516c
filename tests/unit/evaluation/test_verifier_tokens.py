"""Quantities are read by value and dimension, however they are written."""

from decimal import Decimal

import pytest

from components.evaluation.verifier_tokens import quantities, tokenize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("¥1,299.00", [("money", "1299")]),
        ("98.6 yuan", [("money", "98.6")]),
        ("２２.８０ yuan", [("money", "22.80")]),
        ("rmb129", [("money", "129")]),
        ("four thousand nine hundred and ninety-nine yuan", [("money", "4999")]),
        ("ninety-eight point six yuan", [("money", "98.6")]),
        ("eighty-eight yuan eighty", [("money", "88.8")]),
        ("three hundred seventy-six forty", [("money", "376.4")]),
        ("10% off, ten percent off", [("percent", "10"), ("percent", "10")]),
        ("two weeks", [("hours", "336")]),
        ("a week", [("hours", "168")]),
        ("48 hours", [("hours", "48")]),
        ("tomorrow", [("hours", "24")]),
        ("2-3 days", [(None, "2"), ("hours", "72")]),
        ("three working days", [("hours", "72")]),
        ("six years", [("months", "72")]),
        ("2.4 kW or 2400 W", [("w", "2400"), ("w", "2400")]),
        ("half a centimetre", [("mm", "5")]),
        ("150ml", [("ml", "150")]),
        ("a dozen left", [("count", "12")]),
        ("0️⃣ left", [("count", "0")]),
        ("one of the two", []),
        ("that one is a good one", []),
        ("no price", []),
        ("code DUST120 works", []),
    ],
)
def test_quantities(text: str, expected: list[tuple[str | None, str]]) -> None:
    found = [(q.dimension, q.value) for q in quantities(tokenize(text))]
    assert found == [(dimension, Decimal(value)) for dimension, value in expected]


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("until 21:30", {"21:30"}),
        ("until 9:30 pm", {"21:30"}),
        ("until 9:30 am", {"09:30"}),
        ("till 21.30", {"21:30"}),
        ("until half past nine tonight", {"21:30"}),
        ("until a quarter to ten in the evening", {"21:45"}),
        ("till ten in the evening", {"22:00"}),
        ("till 10", {"10:00", "22:00"}),
        ("ends at 10 o'clock", {"10:00", "22:00"}),
        ("until 12 am", {"00:00"}),
    ],
)
def test_times_of_day(text: str, times: set[str]) -> None:
    (clock,) = [q for q in quantities(tokenize(text)) if q.dimension == "clock"]
    assert clock.times == times


def test_a_price_after_until_is_no_time() -> None:
    assert [q.dimension for q in quantities(tokenize("on sale until 30 yuan"))] == ["money"]


def test_sentences_that_ask_are_marked() -> None:
    tokens = tokenize("Sold out? No, 3 left.")
    assert [token.text for token in tokens if token.asked] == ["sold", "out", "?"]
