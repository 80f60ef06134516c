"""Reads typed claims out of a reply: numbers with their unit and what the words around them say they are, plus
statements without numbers.

How a number is typed: its unit narrows the kinds (money, percent, days, months, pieces, none); among the cue words of
those kinds the one nearest to the number wins, within the clause; without a cue the family's own kind is assumed. A
number that stays untyped must be true of the product in some way. The cue words of a language are its grammar's.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from components.avatar.harness.schema import Family, Language
from components.avatar.harness.script import whole
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.claims_en import ENGLISH
from components.avatar.simulator.claims_grammar import CODE_MARK, Grammar
from components.avatar.simulator.claims_zh import CHINESE
from components.avatar.simulator.facts import FactKind as K

GRAMMARS: Mapping[Language, Grammar] = {"en": ENGLISH, "zh": CHINESE}

_DIGIT = re.compile(r"\d")
_AMOUNT = re.compile(r"CNY|RMB|USD|EUR|(?:CNY|RMB|USD)\d+|\d+(?:CNY|RMB|USD)")  # looks like a code
_MONEY = (K.PRICE, K.FLASH_PRICE, K.PAYS, K.COUPON_VALUE, K.COUPON_MINIMUM)
_DAYS = (K.SHIPPING_DAYS, K.RETURN_DAYS)
_FIRM = frozenset({K.COUPON_MINIMUM, K.COUPON_VALUE})  # right before the number, they outweigh what comes after it

_DEFAULTS: Mapping[Family, tuple[K, ...]] = {
    Family.PRICE: (K.PRICE, K.FLASH_PRICE),
    Family.STOCK: (K.STOCK,),
    Family.VARIANT: (K.STOCK,),
    Family.COMPARE: (K.PRICE, K.FLASH_PRICE),
    Family.COUPON: (K.COUPON_VALUE,),
    Family.PRICE_AFTER_COUPON: (K.PRICE, K.PAYS),
    Family.SHIPPING: (K.SHIPPING_DAYS,),
    Family.RETURN_POLICY: (K.RETURN_DAYS,),
    Family.FLASH_SALE: (K.FLASH_PRICE,),
}


class NumberClaim(NamedTuple):
    """`kinds` are those that the words allow (empty: untyped); `link` is the link named nearest before it, else after
    it.
    """

    kinds: tuple[K, ...]
    value: Decimal
    link: int | None
    currency: str | None
    text: str
    bare: bool = False  # no sign and no unit


class Claims(NamedTuple):
    """Everything that a reply states. `text` is normalised: NFKC, lower case, single spaces."""

    text: str
    numbers: tuple[NumberClaim, ...] = ()
    clocks: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()  # lower case
    links: frozenset[int] = frozenset()
    says: frozenset[K] = frozenset()
    language: Language = "en"

    @property
    def grammar(self) -> Grammar:
        return GRAMMARS[self.language]


def normalise(text: str, language: Language = "en") -> str:
    """NFKC (full-width digits and signs become plain), straight quotes, single spaces, lower case."""
    if not text.isascii():
        signs = GRAMMARS[language].signs
        text = unicodedata.normalize("NFKC", text.translate(signs) if signs else text)
        text = text.replace("’", "'").replace("‘", "'").replace("￥", "¥")
    return " ".join(text.lower().split())


@lru_cache(maxsize=4096)
def extract(
    text: str,
    family: Family,
    catalogue: Catalogue,
    attribute_words: frozenset[str] = frozenset(),
    language: Language = "en",
) -> Claims:
    """The claims of `text`. `attribute_words` are attribute values (lower case) whose digits are part of a name, not
    statements. `language` is the reply's, the harness's own.

    Agents repeat themselves, so readings are kept: of the 1,924 replies of a model's evaluation 468 were distinct.
    """
    grammar = GRAMMARS[language]
    plain = normalise(text, language)
    opaque = list(catalogue.opaque_text.finditer(plain))
    codes = frozenset(_codes(text, opaque, catalogue, grammar))
    masked = _blanked(plain, [match for match in opaque if match[0] not in codes])
    for code in codes:
        masked = masked.replace(code, CODE_MARK * len(code))
    for value in attribute_words:
        if any(char.isnumeric() for char in value):
            masked = _blanked(masked, list(whole_value(value).finditer(masked)))
    says = frozenset(_statements(masked, grammar))
    masked = grammar.digits(masked)
    if _DIGIT.search(masked) is None:  # then there is no time, link or number either
        return Claims(plain, codes=codes, says=says, language=language)
    times = list(grammar.clock.finditer(masked))
    masked = _blanked(masked, times)
    named = list(grammar.link.finditer(masked))
    masked = _blanked(masked, named)
    mentions = [(match.start(), int(_only_group(match)[:9])) for match in named]
    numbers, links = _numbers(masked, family, mentions, grammar)
    links.update(link for _, link in mentions)
    clocks = tuple(map(grammar.clock_text, times))
    return Claims(plain, tuple(numbers), clocks, codes, frozenset(links), says, language)


@lru_cache(maxsize=4096)
def whole_value(value: str) -> re.Pattern[str]:
    """Matches `value` (lower case) as whole words; "150 ml" and "150ml" are the same."""
    return re.compile(whole(value, r"\s*".join(map(re.escape, value.split())), signs=True))


def _numbers(
    text: str, family: Family, mentions: list[tuple[int, int]], grammar: Grammar
) -> tuple[list[NumberClaim], set[int]]:
    matches = list(grammar.number.finditer(text))
    claims: list[NumberClaim] = []
    links: set[int] = set()
    for index, match in enumerate(matches):
        left = matches[index - 1].end() if index else 0
        following = matches[index + 1] if index + 1 < len(matches) else None
        right = len(text) if following is None else following.start()
        if following is not None and grammar.peek:
            right = following.start("number") + grammar.peek
        value = Decimal(match["number"].replace(",", ""))
        plain = match.lastgroup == "number" and not match["symbol"]
        if plain and family == Family.ON_AIR:
            links.add(int(value))
            continue
        kinds = _kinds(match, text[left : match.start()], text[match.end() : right], family, grammar)
        value *= grammar.factor(match["days"] or match["months"] or "")
        currency = grammar.currencies.get((match["symbol"] or match["currency"] or "").strip())
        claims.append(NumberClaim(kinds, value, _link_at(match.start(), mentions), currency, match[0].strip(), plain))
    return claims, links


def _kinds(match: re.Match[str], before: str, after: str, family: Family, grammar: Grammar) -> tuple[K, ...]:
    default = _DEFAULTS.get(family, ())
    if match["percent"]:
        return (K.COUPON_PERCENT,)
    if match["months"]:
        return (K.WARRANTY_MONTHS,)
    if match["pieces"]:
        return (K.STOCK,)
    if match["days"]:
        return _nearest(before, after, _DAYS, grammar) or tuple(k for k in default if k in _DAYS) or _DAYS
    if match["symbol"] or match["currency"] or "." in match["number"]:  # only money has decimals
        kinds = _nearest(before, after, _MONEY, grammar)
        if kinds == (K.PAYS,) and family == Family.COUPON:
            return (K.PAYS, K.COUPON_VALUE)  # "with this code 20 CNY" may mean either
        return kinds or tuple(k for k in default if k in _MONEY) or (K.PRICE,)
    return _nearest(before, after, tuple(grammar.before), grammar) or default


def _nearest(before: str, after: str, allowed: tuple[K, ...], grammar: Grammar) -> tuple[K, ...]:
    """The kind whose cue stands nearest to the number; ties go to the longer cue."""
    starts = [match.end() for match in grammar.clause_start.finditer(before)]
    before = before[starts[-1] :] if starts else before
    end = grammar.clause_end.search(after)
    after = after[: end.start()] if end else after
    best: tuple[int, int] | None = None
    kind: K | None = None
    for candidate in allowed:
        for match in grammar.before[candidate].finditer(before):
            distance = len(before) - match.end()
            rank = (0 if distance <= 1 and candidate in _FIRM else distance, -len(match[0]))
            if best is None or rank < best:
                best, kind = rank, candidate
        found = grammar.after[candidate].search(after)
        if found is not None:
            rank = (found.start(), -len(found[0]))
            if best is None or rank < best:
                best, kind = rank, candidate
    return () if kind is None else (kind,)


def _link_at(position: int, mentions: list[tuple[int, int]]) -> int | None:
    earlier = [link for start, link in mentions if start < position]
    if earlier:
        return earlier[-1]
    return mentions[0][1] if mentions else None


def _statements(text: str, grammar: Grammar) -> Iterator[K]:
    for kind, pattern in grammar.says.items():
        for match in pattern.finditer(text):
            denied = kind in (K.SOLD_OUT, K.IN_STOCK) and grammar.denied.search(text[: match.start()])
            if denied:
                yield K.IN_STOCK if kind == K.SOLD_OUT else K.SOLD_OUT
            else:
                yield kind


def _codes(text: str, opaque: Sequence[re.Match[str]], catalogue: Catalogue, grammar: Grammar) -> Iterator[str]:
    for match in opaque:
        if match[0] in catalogue.coupon_codes:
            yield match[0]
    for pattern in (grammar.code, grammar.code_after):
        for match in pattern.finditer(text):
            found = match[1] if pattern is grammar.code_after else match[0]
            if _AMOUNT.fullmatch(found) is None:
                yield found.lower()


def _only_group(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)


def _blanked(text: str, matches: Sequence[re.Match[str]]) -> str:
    """`text` with blanks in place of the matches: positions stay."""
    for match in matches:
        text = f"{text[: match.start()]}{' ' * (match.end() - match.start())}{text[match.end() :]}"
    return text
