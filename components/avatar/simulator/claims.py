"""Reads typed claims out of a reply: numbers with their unit and what the words around them say they are, plus
statements without numbers.

How a number is typed: its unit narrows the kinds (money, percent, days, months, pieces, none); among the cue words of
those kinds the one nearest to the number wins, within the clause; without a cue the family's own kind is assumed. A
number that stays untyped must be true of the product in some way.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from components.avatar.harness.schema import Family
from components.avatar.simulator.catalogue import NUMBER_WORDS, Catalogue
from components.avatar.simulator.facts import FactKind as K

_CURRENCIES = {
    **dict.fromkeys(("¥", "yuan", "cny", "rmb", "元", "块"), "CNY"),
    **dict.fromkeys(("$", "usd", "dollar", "dollars"), "USD"),
    **dict.fromkeys(("€", "eur", "euro", "euros"), "EUR"),
    **dict.fromkeys(("£", "gbp", "pound", "pounds"), "GBP"),
}
_DAY, _MONTH, _PIECE = (
    r"(?:business |working )?days?|天|weeks?",
    r"months?|years?",
    r"pieces?|pcs|units?|items? left|件",
)
_NUMBER = re.compile(
    r"(?<![\w.])(?P<symbol>[¥$€£]|(?:rmb|cny|usd|eur|gbp)\s?)?\s?"
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?:[\s-]?(?:(?P<percent>%|percent\b)|(?P<currency>元|块|(?:yuan|cny|rmb|usd|dollars?|eur|euros?|gbp|pounds?)\b)"
    rf"|(?P<days>天|(?:{_DAY})\b)|(?P<months>(?:{_MONTH})\b)|(?P<pieces>件|(?:{_PIECE})\b)))?"
)
_CLOCK = re.compile(r"(?<![\w:.])(\d{1,2}):(\d{2})(?!\d)\s?([ap]\.?m\b)?|(?<![\w:.])(\d{1,2})\s?([ap])\.?m\b")
_LINK = re.compile(
    r"(?:\blinks?|\bitems?|\bproduct|\bnumber|\bno\.?|#)\s*(?:no\.?\s*|number\s*|#\s*)?(\d+)(?![\w%])(?!\.\d)"
    rf"(?!\s?(?:yuan|cny|rmb|usd|dollars?|left|in stock|{_DAY}|{_MONTH}|{_PIECE})\b)"
)
_WORDED = re.compile(rf"\b({'|'.join(NUMBER_WORDS)})(?=[\s-](?:{_DAY}|{_MONTH}|{_PIECE}|left|yuan|dollars?)\b)")
_CODE = re.compile(r"\b(?=[A-Z0-9]*[A-Z])(?=[A-Z0-9]*\d)[A-Z0-9]{4,}\b")
_CODE_AFTER = re.compile(r"\b(?:code|voucher|coupon)s?:?\s+[\"'“]?([A-Z][A-Z0-9]{2,})\b")

_MONEY = (K.PRICE, K.FLASH_PRICE, K.PAYS, K.COUPON_VALUE, K.COUPON_MINIMUM)
_DAYS = (K.SHIPPING_DAYS, K.RETURN_DAYS)

_CODE_MARK = "§"  # stands where a coupon code stood
_TICKET = r"(?:\b(?:coupon|code|voucher|discount)\b|§+)"
_BEFORE: dict[K, str] = {  # cue words that stand before the number
    K.PAYS: rf"\b(?:after|with|using|use|apply|applying|minus)\b.{{0,24}}?{_TICKET}(?:.{{0,16}}\bprice(?: is)?\b)?"
    rf"|{_TICKET} price(?: is)?|\b(?:discounted|reduced|new|net|final)(?: price)?(?: is)?\b|\bpays?\b|\bcomes? to\b"
    r"|\bdown to\b|\bdrops? to\b|\bbecomes\b|\btotal(?: is)?\b|\bbrings? it to\b|\bmakes? it\b|\bafterwards\b",
    K.COUPON_MINIMUM: r"\b(?:minimum|at least|over|above|spend(?:ing)?|orders? (?:of|from))\b",
    K.COUPON_VALUE: r"\b(?:saves?(?: you)?|saving|takes?(?: off)?|minus|worth|gives(?: you)?|cuts|knocks|less)\b"
    rf"|{_TICKET} (?:of|for)\b",
    K.FLASH_PRICE: r"\b(?:flash(?: sale| deal)?(?: price)?|sale price|deal(?: price)?)(?: is)?\b",
    K.PRICE: r"\b(?:price(?: is)?|costs?|listed|list price|usual(?:ly)?|regular(?:ly)?|original(?:ly)?|normal(?:ly)?"
    r"|was|instead of|down from|rather than|full price|from)\b|\boff\s?$",
    K.STOCK: r"\b(?:stock|inventory)\b",
    K.SHIPPING_DAYS: r"\b(?:ship(?:s|ping)?|deliver(?:y|s|ed)?|arrives?|reach(?:es)?|takes?|gets? (?:to|there))\b",
    K.RETURN_DAYS: r"\b(?:return(?:s|ed)?|refund(?:s|ed)?|exchange|send it back)\b",
    K.WARRANTY_MONTHS: r"\b(?:warranty|guarantee)\b",
}
_AFTER: dict[K, str] = {  # cue words that stand after it
    K.PAYS: rf"\b(?:after|with|using|once|when)\b.{{0,24}}?{_TICKET}|\bto pay\b|\bin total\b|{_TICKET} price\b"
    r"|\bat checkout\b|\ball in\b",
    K.COUPON_MINIMUM: r"\b(?:minimum|or more|and up|and above)\b",
    K.COUPON_VALUE: rf"\b(?:off|discount|less|cheaper|saved|savings)\b|{_TICKET}(?! price)",
    K.FLASH_PRICE: r"\b(?:flash|(?:in|during|on) the (?:flash )?(?:sale|deal)|on sale|sale price)\b",
    K.PRICE: r"\b(?:before|list|regular|usual(?:ly)?|original(?:ly)?|normal(?:ly)?|without|becomes|drops)\b",
    K.STOCK: r"\b(?:left|in stock|available|remain(?:ing)?|to go|more)\b",
    K.SHIPPING_DAYS: r"\bto (?:reach|arrive|get|ship|deliver)\b|(?<!of )(?<!after )\b(?:shipping|delivery)\b",
    K.RETURN_DAYS: r"\b(?:(?:to|for) (?:return|refund|send|exchange|change)s?|returns?|refunds?|exchange)\b",
    K.WARRANTY_MONTHS: r"\b(?:warranty|guarantee)\b",
}
_FIRM = frozenset({K.COUPON_MINIMUM, K.COUPON_VALUE})  # right before the number, they outweigh what comes after it
_BEFORE_CUES = {kind: re.compile(words) for kind, words in _BEFORE.items()}
_AFTER_CUES = {kind: re.compile(words) for kind, words in _AFTER.items()}
_CLAUSE_START = re.compile(r"[.!?;\n](?:\s|$)")
_CLAUSE_END = re.compile(r"[.!?;\n](?:\s|$)|, |\band\b(?! (?:up|above))|\bbut\b|\bso\b")

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

_NO = r"(?:no|not|without|isn't|aren't|don't|doesn't|does not|do not|hasn't|has no|have no|never)"
_CANNOT = r"(?:can't|cannot|can not|could not|couldn't|unable to|not able to|am unable|failed to|can neither)"
_THING = r"(?:\d+|links?|items?|products?|number|#|that|it|this|one)\b"
_SAYS: dict[K, re.Pattern[str]] = {
    K.UNAVAILABLE: re.compile(
        rf"{_CANNOT}(?:\s\w+){{0,2}}\s(?:check|see|look|reach|confirm|load|access|verify|pull|retrieve|tell"
        r"|find out|get (?:that|it|the|this))\b"
        r"|\b(?:system|service|tool|lookup|data)s?\s(?:\w+\s)?(?:is|are|seems?)\s(?:\w+\s)?(?:down|unavailable|offline|silent|not)\b"
        r"|\b(?:check|ask|try) (?:me )?(?:back|again) (?:later|soon|in a)"
        r"|\b(?:price|stock|coupon|info|information|data|details?|answer) (?:is|are) (?:\w+ )?"
        r"(?:unavailable|not available)\b"
        r"|\b(?:don't|do not) (?:know\b|have (?:that|the|this) (?:info|information|detail|data|price|answer))"
    ),
    K.SOLD_OUT: re.compile(
        r"\bsold[\s-]?out\b|\bout of stock\b|\bnot in stock\b|\bno longer (?:available|in stock)\b|\bnone left\b"
        r"|\bno stock\b|\ball gone\b|\bnothing left\b|\b(?:is|are) gone\b|\bran out\b"
    ),
    K.IN_STOCK: re.compile(r"\bin stock\b|\bstill (?:have|available)\b|\bavailable now\b"),
    K.NO_COUPON: re.compile(
        rf"\b{_NO}\b(?:\s\w+){{0,4}}\s(?:coupon|code|voucher|discount|promo)s?\b"
        r"|\b(?:coupon|code|voucher|discount)s? (?:is|are) not\b"
    ),
    K.NO_FLASH: re.compile(
        rf"\b{_NO}\b(?:\s\w+){{0,4}}\s(?:flash|deal|sale)\b|\b(?:flash )?(?:sale|deal) (?:is|has) (?:over|ended|not)\b"
    ),
    K.UNKNOWN_LINK: re.compile(
        rf"{_CANNOT}\s(?:find|locate)\b|\bno (?:such )?(?:link|item|product|listing|number)\b"
        r"|\bunknown (?:link|item|product|number)\b|\b(?:don't|do not|didn't|never)\s"
        rf"(?:have|carry|sell|list|find|stock|recognise|recognize)\s(?:an? |any )?{_THING}"
        r"|(?:\bnot|n't)\s(?:exist|(?:\w+\s)?listed|found|ours|one of ours"
        r"|(?:in|on|part of|among) (?:our|the|my|today's|this) (?:\w+\s)?"
        r"(?:list|shop|store|catalogue|catalog|stream|shelf|links))\b"
    ),
    K.NO_VARIANTS: re.compile(
        r"\b(?:only )?one (?:version|kind)\b|\bno (?:other )?(?:choice|version|variant|option)s?\b"
    ),
    K.NOTHING_FOUND: re.compile(r"\bnothing (?:like|that|for|matching)\b|\bno (?:match|luck)\b"),
    K.NO_RETURNS: re.compile(
        rf"\b{_NO}\b(?:\s\w+){{0,2}}\s(?:returns?|refunds?|returned|returnable|refundable)\b"
        r"|\bnon-returnable\b|\bfinal sale\b"
    ),
    K.NO_WARRANTY: re.compile(rf"\b{_NO}\b(?:\s\w+){{0,2}}\s(?:warranty|guarantee)\b"),
}
_DENIED = re.compile(r"(?:\bnot|n't|\bnever)\s(?:\w+\s)?$")


@dataclass(frozen=True)
class NumberClaim:
    """`kinds` are those that the words allow (empty: untyped); `link` is the link named nearest before it, else after
    it.
    """

    kinds: tuple[K, ...]
    value: Decimal
    link: int | None
    currency: str | None
    text: str
    bare: bool = False  # no sign and no unit


@dataclass(frozen=True)
class Claims:
    """Everything that a reply states. `text` is normalised: NFKC, lower case, single spaces."""

    text: str
    numbers: tuple[NumberClaim, ...] = ()
    clocks: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()  # lower case
    links: frozenset[int] = frozenset()
    says: frozenset[K] = field(default_factory=frozenset)


def normalise(text: str) -> str:
    """NFKC (full-width digits and signs become plain), straight quotes, single spaces, lower case."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("’", "'").replace("‘", "'").replace("￥", "¥")
    return " ".join(text.lower().split())


def extract(text: str, family: Family, catalogue: Catalogue, attribute_words: frozenset[str] = frozenset()) -> Claims:
    """The claims of `text`. `attribute_words` are attribute values (lower case) whose digits are part of a name, not
    statements.
    """
    plain = normalise(text)
    codes = frozenset(_codes(text, plain, catalogue))
    masked = catalogue.opaque_text.sub(lambda match: match[0] if match[0] in codes else _blank(match), plain)
    for code in codes:
        masked = masked.replace(code, _CODE_MARK * len(code))
    for value in attribute_words:
        if any(char.isdigit() for char in value):
            spaced = r"\s*".join(map(re.escape, value.split()))
            masked = re.sub(rf"(?<!\w){spaced}(?!\w)", _blank, masked)
    says = frozenset(_statements(masked))
    clocks: list[str] = []
    masked = _CLOCK.sub(lambda match: _take_clock(match, clocks), masked)
    masked = _WORDED.sub(lambda match: str(NUMBER_WORDS[match[1]]), masked)
    mentions = [(match.start(), int(match[1][:9])) for match in _LINK.finditer(masked)]
    masked = _LINK.sub(_blank, masked)
    numbers, links = _numbers(masked, family, mentions)
    return Claims(plain, tuple(numbers), tuple(clocks), codes, frozenset({link for _, link in mentions} | links), says)


def _numbers(text: str, family: Family, mentions: list[tuple[int, int]]) -> tuple[list[NumberClaim], set[int]]:
    matches = list(_NUMBER.finditer(text))
    claims: list[NumberClaim] = []
    links: set[int] = set()
    for index, match in enumerate(matches):
        left = matches[index - 1].end() if index else 0
        right = matches[index + 1].start() if index + 1 < len(matches) else len(text)
        value = Decimal(match["number"].replace(",", ""))
        plain = not any(match[name] for name in ("symbol", "percent", "currency", "days", "months", "pieces"))
        if plain and family == Family.ON_AIR:
            links.add(int(value))
            continue
        kinds = _kinds(match, text[left : match.start()], text[match.end() : right], family)
        if match["days"] and match["days"].startswith("week"):
            value *= 7
        if match["months"] and match["months"].startswith("year"):
            value *= 12
        sign = (match["symbol"] or match["currency"] or "").strip()
        claims.append(
            NumberClaim(kinds, value, _link_at(match.start(), mentions), _CURRENCIES.get(sign), match[0].strip(), plain)
        )
    return claims, links


def _kinds(match: re.Match[str], before: str, after: str, family: Family) -> tuple[K, ...]:
    default = _DEFAULTS.get(family, ())
    if match["percent"]:
        return (K.COUPON_PERCENT,)
    if match["months"]:
        return (K.WARRANTY_MONTHS,)
    if match["pieces"]:
        return (K.STOCK,)
    if match["days"]:
        return _nearest(before, after, _DAYS) or tuple(k for k in default if k in _DAYS) or _DAYS
    if match["symbol"] or match["currency"] or "." in match["number"]:  # only money has decimals
        kinds = _nearest(before, after, _MONEY)
        if kinds == (K.PAYS,) and family == Family.COUPON:
            return (K.PAYS, K.COUPON_VALUE)  # "with this code 20 CNY" may mean either
        return kinds or tuple(k for k in default if k in _MONEY) or (K.PRICE,)
    return _nearest(before, after, tuple(_BEFORE)) or default


def _nearest(before: str, after: str, allowed: tuple[K, ...]) -> tuple[K, ...]:
    """The kind whose cue stands nearest to the number; ties go to the longer cue."""
    starts = [match.end() for match in _CLAUSE_START.finditer(before)]
    before = before[starts[-1] :] if starts else before
    end = _CLAUSE_END.search(after)
    after = after[: end.start()] if end else after
    best: tuple[int, int] | None = None
    kind: K | None = None
    for candidate in allowed:
        for match in _BEFORE_CUES[candidate].finditer(before):
            distance = len(before) - match.end()
            rank = (0 if distance <= 1 and candidate in _FIRM else distance, -len(match[0]))
            if best is None or rank < best:
                best, kind = rank, candidate
        found = _AFTER_CUES[candidate].search(after)
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


def _statements(text: str):
    for kind, pattern in _SAYS.items():
        for match in pattern.finditer(text):
            denied = kind in (K.SOLD_OUT, K.IN_STOCK) and _DENIED.search(text[: match.start()])
            if denied:
                yield K.IN_STOCK if kind == K.SOLD_OUT else K.SOLD_OUT
            else:
                yield kind


def _codes(text: str, plain: str, catalogue: Catalogue):
    for match in catalogue.opaque_text.finditer(plain):
        if match[0] in catalogue.coupon_codes:
            yield match[0]
    for pattern in (_CODE, _CODE_AFTER):
        for match in pattern.finditer(text):
            found = match[1] if pattern is _CODE_AFTER else match[0]
            if found not in ("CNY", "RMB", "USD", "EUR") and not re.fullmatch(
                r"(?:CNY|RMB|USD)\d+|\d+(?:CNY|RMB|USD)", found
            ):
                yield found.lower()


def _take_clock(match: re.Match[str], clocks: list[str]) -> str:
    hour = int(match[1] or match[4])
    half = (match[3] or match[5] or "")[:1]
    if half == "p" and hour < 12:
        hour += 12
    clocks.append(f"{hour:02d}:{match[2] or '00'}")
    return _blank(match)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
