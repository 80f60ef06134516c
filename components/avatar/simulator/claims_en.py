"""How English replies state facts."""

import re

from components.avatar.simulator.capabilities import ORDER_STATES
from components.avatar.simulator.catalogue import NUMBER_WORDS
from components.avatar.simulator.claims_grammar import Grammar, Marked
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
    r"(?:\b(?:links?|items?|product|number|no\.?)|#)\s*(?:no\.?\s*|number\s*|#\s*)?(\d+)(?![\w%])(?!\.\d)"
    rf"(?!\s?(?:yuan|cny|rmb|usd|dollars?|left|in stock|{_DAY}|{_MONTH}|{_PIECE})\b)"
)
_WORDED = re.compile(rf"\b({'|'.join(NUMBER_WORDS)})(?=[\s-](?:{_DAY}|{_MONTH}|{_PIECE}|left|yuan|dollars?)\b)")
_CODE = re.compile(r"\b(?=[A-Z0-9]*[A-Z])(?=[A-Z0-9]*\d)[A-Z0-9]{4,}\b")
_CODE_AFTER = re.compile(r"\b(?:code|voucher|coupon)s?:?\s+[\"'“]?([A-Z][A-Z0-9]{2,})\b")

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
_CLAUSE_START = re.compile(r"[.!?;\n](?:\s|$)")
_CLAUSE_END = re.compile(r"[.!?;\n](?:\s|$)|, |\band\b(?! (?:up|above))|\bbut\b|\bso\b")

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
_MARKS: dict[K, tuple[str, ...]] = {  # see Marked
    K.UNAVAILABLE: (
        *("n't", "cannot", "can not", "can neither", "could", "able", "failed", "do not", "later", "soon", "in a"),
        *("system", "service", "tool", "lookup", "data"),
    ),
    K.SOLD_OUT: ("sold", "stock", "longer", "left", "gone", "ran out"),
    K.IN_STOCK: ("stock", "still", "available now"),
    K.NO_COUPON: ("coupon", "code", "voucher", "discount", "promo"),
    K.NO_FLASH: ("flash", "deal", "sale"),
    K.UNKNOWN_LINK: ("find", "locate", "no ", "unknown", "not", "n't", "never"),
    K.NO_VARIANTS: ("version", "kind", "choice", "variant", "option"),
    K.NOTHING_FOUND: ("nothing", "no "),
    K.NO_RETURNS: ("return", "refund", "final sale"),
    K.NO_WARRANTY: ("warranty", "guarantee"),
}
_DENIED = re.compile(r"(?:\bnot|n't|\bnever)\s(?:\w+\s)?$")


def _digits(text: str) -> str:
    return _WORDED.sub(lambda match: str(NUMBER_WORDS[match[1]]), text)


def _clock_text(match: re.Match[str]) -> str:
    hour = int(match[1] or match[4])
    half = (match[3] or match[5] or "")[:1]
    if half == "p" and hour < 12:
        hour += 12
    return f"{hour:02d}:{match[2] or '00'}"


ENGLISH = Grammar(
    number=_NUMBER,
    currencies=_CURRENCIES,
    factors={"week": 7, "year": 12},
    digits=_digits,
    clock=Marked(_CLOCK, (":", "am", "a.m", "pm", "p.m")),
    clock_text=_clock_text,
    link=_LINK,
    code=_CODE,
    code_after=Marked(_CODE_AFTER, ("code", "voucher", "coupon")),
    before={kind: re.compile(words) for kind, words in _BEFORE.items()},
    after={kind: re.compile(words) for kind, words in _AFTER.items()},
    clause_start=_CLAUSE_START,
    clause_end=_CLAUSE_END,
    says={kind: Marked(pattern, _MARKS[kind]) for kind, pattern in _SAYS.items()},
    denied=_DENIED,
    nothing_shown=re.compile(r"nothing|between|(?:^| )no(?: |$)"),
    none_value="none",
    no_attribute=("no {attribute}",),
    order_states={state: (state,) for state in ORDER_STATES},
)
