"""Reads a reply as a sequence of tokens and quantities: numbers in digits or words with their units, and times of day.

Nothing here knows what a number means; a quantity carries its dimension (money, hours, months, g, ml, ..., count, or
none), its value in that dimension's own unit, and where it stands.
"""

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, replace
from decimal import Decimal

from components.evaluation.verifier_words import CARDINALS, CURRENCIES, SCALES, TENS, UNITS

_TOKEN = re.compile(
    r"(?P<code>[A-Za-z]+\d+[A-Za-z0-9]*)|(?P<clock>\d{1,2}:\d{2}(?!\d))"
    r"|(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)|(?P<word>[^\W\d_]+(?:'[^\W\d_]+)?)|(?P<sign>[^\s\w])"
)
_SHORT = {"can't": "can not", "cannot": "can not", "won't": "will not", "shan't": "will not"}
_DAYS = ((["the", "day", "after", "tomorrow"], 2), (["tomorrow"], 1), (["next", "day"], 1), (["overnight"], 1))
_ENDING = frozenset(
    "ends end ending stops stop shuts shut closes close closing over finishes starts start begins runs until".split()
)
_STOPS = frozenset(".!?\n")
_BREAKS = frozenset(",;:()")


@dataclass(frozen=True)
class Token:
    text: str  # lower case
    raw: str
    kind: str  # code, clock, number, word, sign
    part: int  # pieces of sentences, divided by punctuation
    sentence: int
    asked: bool = False  # stands in a sentence that ends with a question mark: states nothing


@dataclass(frozen=True)
class Quantity:
    """`start` and `end` are token positions (end exclusive). `dimension` is None where no unit says it; `factor` is how
    many of the dimension's own unit the unit as written is."""

    value: Decimal
    dimension: str | None
    start: int
    end: int
    currency: str | None = None
    times: frozenset[str] = frozenset()  # of a time of day: every "HH:MM" that it may mean
    worded: bool = False
    factor: Decimal = Decimal(1)
    bare: bool = False  # no unit stands beside it


def tokenize(text: str) -> list[Token]:
    """Full-width and key-cap digits are digits, "can't" is "can not", a hyphen between words is a blank and between
    digits the word "to"; signs that are not punctuation stay as they are."""
    plain = unicodedata.normalize("NFKC", text.replace("\ufe0f", "").replace("\u20e3", ""))
    plain = plain.replace("’", "'").replace("‘", "'")
    plain = re.sub(r'"?\blink_id"?\s*:', "link ", plain)
    plain = re.sub(r"(?<=\d)\s?[-–—]\s?(?=\d)", " to ", plain)
    plain = re.sub(r"(?<=\w)-(?=\w)", " ", plain)
    plain = re.sub(r"\b(rmb|cny|usd|eur|gbp)(?=\d)", r"\1 ", plain, flags=re.IGNORECASE)
    plain = re.sub(r"\b([ap])\.m\.?", r"\1m", plain, flags=re.IGNORECASE)
    rows: list[tuple[str, str, str]] = []
    for match in _TOKEN.finditer(plain):
        kind = match.lastgroup or "sign"
        low = match[0].lower()
        if kind == "word" and (low in _SHORT or low.endswith("n't")):
            rows += [(word, word, "word") for word in _SHORT.get(low, f"{low[:-3]} not").split()]
        elif kind == "word" and low.endswith("'s"):
            rows.append((low[:-2], match[0][:-2], "word"))
        else:
            rows.append((low, match[0], kind))
    return _placed(rows)


def _placed(rows: list[tuple[str, str, str]]) -> list[Token]:
    tokens: list[Token] = []
    part = sentence = 0
    for text, raw, kind in rows:
        tokens.append(Token(text, raw, kind, part, sentence))
        if kind == "sign" and text in _STOPS:
            if text == "?":
                tokens = [replace(t, asked=True) if t.sentence == sentence else t for t in tokens]
            part, sentence = part + 1, sentence + 1
        elif kind == "sign" and text in _BREAKS:
            part += 1
    return tokens


def quantities(tokens: list[Token], nouns: Collection[str] = ()) -> list[Quantity]:
    """All quantities in order. `nouns`: countable words that attribute values of the catalogue use as units."""
    found: list[Quantity] = []
    at = 0
    while at < len(tokens):
        quantity = _clock(tokens, at) or _number(tokens, at, nouns)
        if quantity is None:
            at += 1
            continue
        found.append(quantity)
        at = quantity.end
    return found


def _text(tokens: list[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""


def _number(tokens: list[Token], at: int, nouns: Collection[str]) -> Quantity | None:
    token = tokens[at]
    for phrase, days in _DAYS:
        if [t.text for t in tokens[at : at + len(phrase)]] == phrase:
            return Quantity(Decimal(24 * days), "hours", at, at + len(phrase))
    if token.kind == "number":
        return _with_unit(tokens, at, at + 1, Decimal(token.text.replace(",", "")), nouns, worded=False)
    if token.text in ("a", "an", "one", "half", "dozen", "couple") or token.text in CARDINALS or token.text in TENS:
        return _worded(tokens, at, nouns)
    return None


def _worded(tokens: list[Token], at: int, nouns: Collection[str]) -> Quantity | None:
    word, following = tokens[at].text, _text(tokens, at + 1)
    if word in ("a", "an"):
        if following == "dozen" and [t.text for t in tokens[at + 2 : at + 5]] == ["and", "a", "half"]:
            return _with_unit(tokens, at, at + 5, Decimal(18), nouns, worded=True)
        if following in ("dozen", "couple"):
            return _with_unit(tokens, at, at + 2, Decimal(12 if following == "dozen" else 2), nouns, worded=True)
        if following in SCALES:  # "a hundred and fifty"
            value, end = _spoken(tokens, at + 1, 1)
            return _with_unit(tokens, at, end, value, nouns, worded=True)
        if following in ("day", "week", "month", "year") and _text(tokens, at - 1) not in ("twice", "once"):
            return _with_unit(tokens, at, at + 1, Decimal(1), nouns, worded=True)
        return None
    if word == "half":
        step = 2 if following in ("a", "an") else 1
        unit = _text(tokens, at + step)
        return _with_unit(tokens, at, at + step, Decimal("0.5"), nouns, worded=True) if unit in UNITS else None
    if word in ("dozen", "couple"):
        return None
    value, end = _spoken(tokens, at)
    if _text(tokens, end) in ("dozen", "dozens"):
        return _with_unit(tokens, at, end + 1, value * 12, nouns, worded=True)
    if 0 < value < 10 and _text(tokens, end) in TENS:  # "three forty-nine": three hundred and forty-nine
        rest, end = _spoken(tokens, end)
        return _with_unit(tokens, at, end, value * 100 + rest, nouns, worded=True)
    if word == "one" and end == at + 1 and _text(tokens, end) not in UNITS and _text(tokens, end) not in nouns:
        return (
            None
            if _text(tokens, at - 1) not in ("link", "item", "number")
            else Quantity(value, None, at, end, bare=True)
        )
    if _text(tokens, at - 1) == "the" and _text(tokens, end) not in UNITS:
        return None  # "one of the two"
    return _with_unit(tokens, at, end, value, nouns, worded=True)


def _spoken(tokens: list[Token], at: int, first: int = 0) -> tuple[Decimal, int]:
    """A number in words from `at`: "four thousand nine hundred and ninety nine", "ninety eight point six". `first`
    stands before it ("a" hundred)."""
    total, current, last = 0, first, "unit" if first else ""
    start = at
    while at < len(tokens):
        word = tokens[at].text
        if word in CARDINALS and (last in ("", "tens", "scale") or (CARDINALS[word] > 9 and last == "scale")):
            if last == "tens" and CARDINALS[word] > 9:
                break
            current, last = current + CARDINALS[word], "unit"
        elif word in TENS and last in ("", "scale"):
            current, last = current + TENS[word], "tens"
        elif word in SCALES and last in ("unit", "tens"):
            current, last = max(current, 1) * SCALES[word], "scale"
            if SCALES[word] == 1000:
                total, current = total + current, 0
        elif (
            word == "and" and last == "scale" and (_text(tokens, at + 1) in CARDINALS or _text(tokens, at + 1) in TENS)
        ):
            pass
        else:
            break
        at += 1
    value = Decimal(total + current)
    if _text(tokens, at) == "point" and _text(tokens, at + 1) in CARDINALS:
        digits, at = "", at + 1
        while _text(tokens, at) in CARDINALS and CARDINALS[_text(tokens, at)] < 10:
            digits, at = digits + str(CARDINALS[_text(tokens, at)]), at + 1
        return value + Decimal(f"0.{digits or 0}"), at
    return value, max(at, start + 1)


def _with_unit(
    tokens: list[Token], start: int, end: int, value: Decimal, nouns: Collection[str], *, worded: bool
) -> Quantity:
    before, after = _text(tokens, start - 1), _text(tokens, end)
    if before in CURRENCIES:
        return Quantity(value, "money", start - 1, end, CURRENCIES[before], worded=worded)
    if after in CURRENCIES:
        cents = _cents(tokens, end + 1)
        if cents is not None and value == value.to_integral_value():  # "eighty-eight yuan eighty", "58 yuan 20"
            return Quantity(value + cents[0] / 100, "money", start, cents[1], CURRENCIES[after], worded=worded)
        return Quantity(value, "money", start, end + 1, CURRENCIES[after], worded=worded)
    if after in ("business", "working") and _text(tokens, end + 1) in ("day", "days"):
        after, end = "days", end + 1
    if after == "square" and _text(tokens, end + 1) in UNITS:
        return Quantity(value, "square", start, end + 2, worded=worded)
    if after in nouns and after not in ("days", "hours", "minutes"):
        return Quantity(value, f"noun:{after}", start, end + 1, worded=worded)
    if after in UNITS:
        dimension, factor = UNITS[after]
        # "6 left hinge": the word after may begin the name of a variant, so it stays outside the quantity.
        stop = end if after in ("left", "available", "remaining") else end + 1
        return Quantity(_round(value * factor), dimension, start, stop, worded=worded, factor=factor)
    if worded:
        cents = _cents(tokens, end)
        if cents is not None and value >= 20:  # "three hundred seventy-six forty"
            return Quantity(value + cents[0] / 100, "money", start, cents[1], worded=True)
    decimal = not worded and re.fullmatch(r"[\d,]+\.\d\d", tokens[end - 1].raw) is not None
    return Quantity(value, "money" if decimal else None, start, end, worded=worded, bare=True)


def _cents(tokens: list[Token], at: int) -> tuple[Decimal, int] | None:
    """The hundredths that end a spoken price ("eighty", "seventy-five", "20", "and 90 fen"), and where they end."""
    if _text(tokens, at) == "and" and _text(tokens, at + 2) == "fen" and _text(tokens, at + 1).isdigit():
        return Decimal(_text(tokens, at + 1)), at + 3
    word = _text(tokens, at)
    if word in TENS:
        value, end = _spoken(tokens, at)
    elif word.isdigit() and len(word) == 2:
        value, end = Decimal(word), at + 1
    else:
        return None
    after = _text(tokens, end)
    return None if after in UNITS or after in CURRENCIES or after in SCALES or value >= 100 else (value, end)


def _clock(tokens: list[Token], at: int) -> Quantity | None:
    """A time of day: 21:30, 9.30 pm, 10 pm, half past nine, ten in the evening, and numbers right after "until"."""
    token = tokens[at]
    if token.kind == "clock":
        hour, minute = map(int, token.text.split(":"))
        return _time(tokens, at, at + 1, hour, minute)
    if token.text == "half" and _text(tokens, at - 1) != "a":
        past = _text(tokens, at + 1) == "past"
        hour = _hour(tokens, at + 1 + past)
        return None if hour is None else _time(tokens, at, at + 2 + past, hour, 30)
    side = _text(tokens, at + 1)
    if side in ("past", "to") and _text(tokens, at - 1) != "from":
        minutes = 15 if token.text == "quarter" else _hour(tokens, at)
        hour = _hour(tokens, at + 2)
        if hour is not None and minutes in (5, 10, 15, 20) and _text(tokens, at + 3) not in UNITS:
            return _time(tokens, at, at + 3, *((hour, minutes) if side == "past" else (hour - 1, 60 - minutes)))
    after, before = _text(tokens, at + 1), _text(tokens, at - 1)
    evening = after in ("am", "pm", "o", "tonight") or (
        after == "in" and _text(tokens, at + 3) in ("evening", "morning")
    )
    part = {t.text for t in tokens if t.part == token.part}
    until = before in ("until", "till", "til", "by") or (before == "at" and not part.isdisjoint(_ENDING))
    if not (evening or until) or after in CURRENCIES or (after in UNITS and after not in ("am", "pm")):
        return None
    dotted = re.fullmatch(r"(\d{1,2})\.(\d{2})", token.raw)
    if dotted and int(dotted[1]) < 24 and int(dotted[2]) < 60:
        return _time(tokens, at, at + 1, int(dotted[1]), int(dotted[2]))
    hour = _hour(tokens, at)
    return None if hour is None else _time(tokens, at, at + 1, hour, 0)


def _hour(tokens: list[Token], at: int) -> int | None:
    word = _text(tokens, at)
    hour = CARDINALS.get(word, int(word) if word.isdigit() else -1)
    return hour if 0 <= hour < 25 and word != "zero" else None


def _time(tokens: list[Token], start: int, end: int, hour: int, minute: int) -> Quantity:
    half = ""
    for step, word in enumerate(token.text for token in tokens[end : end + 4]):
        if word in ("am", "pm"):
            half, end = word, end + step + 1
            break
        if word in ("morning", "evening", "tonight"):
            half, end = ("am" if word == "morning" else "pm"), end + step + 1
            break
        if word not in ("in", "the", "o", "clock", "'", "this"):
            break
    hours = {hour % 24}
    if half == "pm" and hour < 12:
        hours = {hour + 12}
    elif half == "am":
        hours = {hour % 12}
    elif not half and hour < 12:
        hours |= {hour + 12}
    times = frozenset(f"{h:02d}:{minute:02d}" for h in hours)
    return Quantity(Decimal(hour), "clock", start, end, times=times)


def _round(value: Decimal) -> Decimal:
    return value.quantize(Decimal("0.0001")).normalize()
