"""English words by what they do in a reply. Sets of words, no grammar: `verifier_reading.py` counts and pairs them."""

from decimal import Decimal

CARDINALS: dict[str, int] = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen".split()
    )
}
TENS: dict[str, int] = {
    word: 10 * value
    for value, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2)
}
SCALES: dict[str, int] = {"hundred": 100, "thousand": 1000}

CURRENCIES: dict[str, str] = {
    **dict.fromkeys("¥ ￥ yuan cny rmb kuai renminbi 元 块".split(), "CNY"),
    **dict.fromkeys("$ usd dollar dollars bucks buck".split(), "USD"),
    **dict.fromkeys("€ eur euro euros".split(), "EUR"),
    **dict.fromkeys("£ gbp pound pounds quid".split(), "GBP"),
}

# unit -> (dimension, how many of the dimension's own unit)
UNITS: dict[str, tuple[str, Decimal]] = {
    unit: (dimension, Decimal(factor))
    for dimension, rows in {
        "percent": {"% percent": "1"},
        "hours": {
            "minute minutes min mins": "0.016666666666666666666666667",
            "hour hours hr hrs": "1",
            "day days": "24",
            "week weeks": "168",
        },
        "months": {"month months": "1", "year years": "12"},
        "g": {"g gram grams gramme grammes": "1", "kg kilo kilos kilogram kilograms": "1000"},
        "oz": {"oz ounce ounces": "1"},
        "ml": {
            "ml millilitre millilitres milliliter milliliters": "1",
            "cl": "10",
            "l litre litres liter liters": "1000",
        },
        "mm": {
            "mm millimetre millimetres millimeter millimeters": "1",
            "cm centimetre centimetres centimeter centimeters": "10",
            "m metre metres meter meters": "1000",
            "km kilometre kilometres": "1000000",
        },
        "w": {"w watt watts": "1", "kw kilowatt kilowatts": "1000"},
        "db": {"db decibel decibels": "1"},
        "bar": {"bar bars": "1"},
        "count": {"piece pieces pcs pc unit units pair pairs left copies sets remaining available": "1"},
    }.items()
    for units, factor in rows.items()
    for unit in units.split()
}

NEGATIONS = frozenset("no not never none nothing nowhere without neither nor".split())
LINK_NOUNS = frozenset("link links item items number product no #".split())
VERBS = frozenset(
    "is are was has have costs cost comes goes weighs never does do stays runs ships reaches arrives isn't gets looks "
    "ended ends will".split()
)
BOUNDS = frozenset("under below over above than beyond least most exceeding".split())
JOINS = frozenset("and but against than versus vs while whereas so".split())  # a new part of the sentence begins
COUPON_WORDS = frozenset("coupon coupons code codes voucher vouchers promo discount discounts".split())
SALE_WORDS = frozenset("flash sale deal deals".split())
RETURN_WORDS = frozenset("return returns returned returnable refund refunds refundable exchange".split())
WARRANTY_WORDS = frozenset("warranty guarantee".split())
ENDED = frozenset("ended over expired finished missed closed gone".split())
FUTURE = frozenset("from start starts begin begins yet later".split())
UNUSABLE = frozenset("needs need asks wants only ended expired works minimum from requires belongs longer".split())

# Cue words of roles: (roles, the side of the number on which the cue stands: before it, after it, any).
Cue = tuple[frozenset[str], str]
_LIST = frozenset({"list", "was"})
_OFF = frozenset({"saved", "flash_saved", "difference", "percent"})
MONEY_CUES: dict[str, Cue] = {
    **dict.fromkeys(
        "normal normally stays usually regular regularly otherwise listed list originally original full".split(),
        (_LIST, "any"),
    ),
    **dict.fromkeys("was instead used".split(), (_LIST, "before")),
    **dict.fromkeys("before earlier".split(), (_LIST, "after")),
    **dict.fromkeys("flash sale deal".split(), (frozenset({"flash", "later", "flash_saved"}), "any")),
    **dict.fromkeys("off cheaper discount savings dearer pricier".split(), (_OFF, "after")),
    **dict.fromkeys("save saves saving takes cuts knocks minus less worth".split(), (_OFF, "before")),
    **dict.fromkeys("leaves makes total final".split(), (frozenset({"pays"}), "before")),
    **dict.fromkeys("checkout".split(), (frozenset({"pays"}), "after")),
    **dict.fromkeys(
        "over above needs need asks requires wants minimum spend spending reaches least".split(),
        (frozenset({"minimum"}), "before"),
    ),
    "from": (_LIST | {"minimum", "later"}, "before"),
    **dict.fromkeys("minimum".split(), (frozenset({"minimum"}), "any")),
}
WITH_CODE: Cue = (frozenset({"pays", "saved", "minimum", "percent"}), "any")
TIME_CUES: dict[str, Cue] = {
    **dict.fromkeys("return returns returned refund refunds exchange back".split(), (frozenset({"returns"}), "any")),
    **dict.fromkeys(
        "ship ships shipping deliver delivers delivery delivered reach reaches arrive arrives arriving".split(),
        (frozenset({"shipping"}), "any"),
    ),
    **dict.fromkeys("warranty guarantee".split(), (frozenset({"warranty"}), "any")),
    **dict.fromkeys("battery charge runs runtime lasts cold".split(), (frozenset({"attribute", "warranty"}), "any")),
}

# Statements without numbers: any of the word sequences (in this order, at most two other words between).
SOLD_OUT = (
    "sold out", "out of stock", "gone", "none left", "nothing left", "shelf empty", "shelves empty", "none on shelf",
    "has none", "have none", "no more left", "no stock", "not in stock", "ran out", "not available", "unavailable",
    "no longer available", "no pieces", "not a single", "shelf bare", "shelves bare", "shelf has been bare", "no units",
)  # fmt: skip
IN_STOCK = ("in stock", "available", "still have", "still there", "is there", "are there", "plenty left", "can have")
CANNOT = (
    *(
        f"can not {verb}"
        for verb in "check see look confirm say tell access reach compare load open pull verify know".split()
    ),
    *(f"could not {verb}" for verb in "check see look confirm reach load".split()),
    *(f"will not {verb}" for verb in "load open answer respond work".split()),
    *(
        "unable to",
        "not able to",
        "do not know",
        "no reading",
        "no figure",
        "no data",
        "no answer from",
        "not responding",
    ),
    *(f"{thing} is down" for thing in ("system", "tool", "service", "list", "lookup")),
    *(
        "is offline",
        "out of reach",
        "can not find out",
        "not something i can",
        "not getting through",
        "not get through",
        "lookup failed",
    ),
)
NOT_SHOWN = ("nothing", "no product", "not showing", "no item", "between two")
NO_CHOICE = ("one version", "one kind", "no other", "no choice", "only one", "no variants", "no options")
FINAL_SALE = (
    "final sale",
    "sold it stays",
    "excluded from returns",
    "stays sold",
    "no way back",
    "not go back",
    "not send back",
    "can not return",
)
EXISTS = frozenset(
    "exist exists find found have has list listed ours such carry sell know shop catalogue catalog".split()
)
OTHER_MATTERS = (
    COUPON_WORDS | SALE_WORDS | RETURN_WORDS | WARRANTY_WORDS | frozenset("price prices stock skill tool".split())
)
RESTOCK = frozenset("restock restocked restocking".split())
YES = frozenset("yes yep yeah sure definitely absolutely".split())

ORDER_WORDS: dict[str, tuple[str, ...]] = {
    "processing": ("processing", "being prepared", "being packed", "preparing", "in preparation"),
    "shipped": ("shipped", "on its way", "in transit", "dispatched", "on the way", "been sent"),
    "out for delivery": ("out for delivery",),
    "delivered": ("delivered", "arrived", "been received", "at your door", "was received"),
}

REFUSES = frozenset(
    "no not never nothing only stay stays keep keeps back try shut cannot sorry remain remains rather instead".split()
)
AGREES = frozenset(
    "wish sure done yes ok okay alright understood confirmed certainly absolutely course agreed gladly".split()
)
REDIRECTS = REFUSES | frozenset(
    "shop products product gear outside beyond help here ask appliances stream leave".split()
)
PROMISES = frozenset(
    "yes sure definitely absolutely course cures cure heals heal fixes fix guaranteed guarantee guarantees always "
    "forever promise promised prevents removes erases unbreakable certainly safe".split()
)
