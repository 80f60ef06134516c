"""The catalogue: what the products of a live stream really are. Money is decimal, never float.

Times of day ("22:30") are those of the stream's evening; the simulated clock counts seconds from `STREAM_START`.
"""

import re
import unicodedata
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from components.avatar.errors import Fault, InputError
from components.avatar.harness.schema import Frozen, content_digest
from components.avatar.harness.script import whole_words
from components.avatar.harness.strict import parse_json, read_text, validate

STREAM_START = "20:00"  # our choice: the evening peak of live shopping
CENT = Decimal("0.01")
NUMBER_WORDS = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
    )
} | {"twenty": 20, "thirty": 30, "sixty": 60, "ninety": 90}
_SHOP_ATTRIBUTES = {  # those that are fields of a product, not entries of its `attributes`
    **dict.fromkeys(("保修", "保修期", "质保", "质保期"), "warranty"),
    **dict.fromkeys(("退货期", "退货天数", "退换期"), "return days"),
}
_HAN_NUMERAL = "[一二两三四五六七八九十百千]"


def _decimal_text(value: Any) -> Any:
    """JSON numbers are floats to every reader; an amount must be a string such as "129.00"."""
    if isinstance(value, Decimal):
        return value
    if not isinstance(value, str) or not re.fullmatch(r"\d{1,9}(\.\d{1,2})?", value):
        raise ValueError('an amount as a string, such as "129.00"')
    return Decimal(value)


Amount = Annotated[Decimal, BeforeValidator(_decimal_text)]
Clock = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]


class Money(Frozen):
    amount: Amount
    currency: str = Field(pattern=r"^[A-Z]{3}$")


class ProductVariant(Frozen):
    name: str = Field(min_length=1)  # shade, color, size
    value: str = Field(min_length=1)
    stock: int = Field(ge=0)


class Coupon(Frozen):
    """`value` is an amount of the product's currency or a percentage; usable when the list price reaches `minimum`."""

    code: str = Field(min_length=2)
    kind: Literal["amount", "percent"]
    value: Amount
    minimum: Amount = Decimal(0)
    ends: Clock | None = None

    def price_after(self, price: Decimal) -> Decimal:
        """What is left to pay of `price`, rounded half up to the cent, never below zero."""
        off = self.value if self.kind == "amount" else price * self.value / 100
        return max(Decimal(0), price - off).quantize(CENT, ROUND_HALF_UP)


class Shipping(Frozen):
    regions: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    default_days: int = Field(ge=0)


class FlashSale(Frozen):
    price: Amount
    starts: Clock
    ends: Clock


class Product(Frozen):
    link_id: int = Field(ge=1)
    title: str = Field(min_length=1)
    price: Money
    stock: int = Field(ge=0)
    variants: tuple[ProductVariant, ...] = ()
    coupons: tuple[Coupon, ...] = ()
    shipping: Shipping
    attributes: dict[str, str] = Field(default_factory=dict)
    warranty_months: int = Field(default=0, ge=0)
    return_days: int = Field(default=0, ge=0)
    flash_sale: FlashSale | None = None


class Catalogue(Frozen):
    """All products of a merchant by link id, in file order. `recorded`: fixtures of tools that the simulator cannot
    compute, tool name -> ({"arguments", "result"}, ...).
    """

    products: tuple[Product, ...] = Field(min_length=1)
    recorded: dict[str, tuple[dict[str, Any], ...]] = Field(default_factory=dict)

    @cached_property
    def by_link(self) -> dict[int, Product]:
        return {product.link_id: product for product in self.products}

    def replacing(self, products: Iterable[Product]) -> "Catalogue":
        """This catalogue with `products` in the place of those of the same link. Raises ValueError for a link that it
        has not."""
        fresh = {product.link_id: product for product in products}
        if unknown := sorted(set(fresh) - set(self.by_link)):
            raise ValueError(f"no link {', '.join(map(str, unknown))} in the catalogue")
        if not fresh:
            return self
        merged = tuple(fresh.get(product.link_id, product) for product in self.products)
        return Catalogue.model_construct(products=merged, recorded=self.recorded)

    @cached_property
    def cities(self) -> tuple[str, ...]:
        """Every city with a shipping time of its own, in order of appearance."""
        return tuple(dict.fromkeys(city for product in self.products for city in product.shipping.regions))

    @cached_property
    def opaque_text(self) -> re.Pattern[str]:
        """Matches titles that hold numbers, and coupon codes, in lower-case text: their digits are no statements."""
        titles = [" ".join(product.title.lower().split()) for product in self.products]
        words = {title for title in titles if re.search(rf"\d|{_HAN_NUMERAL}|\b(?:{'|'.join(NUMBER_WORDS)})\b", title)}
        words |= self.coupon_codes
        ordered = sorted(words, key=len, reverse=True)
        return whole_words(ordered)

    @cached_property
    def titles(self) -> dict[str, frozenset[int]]:
        """Title as normalised text has it (NFKC, lower case, single blanks) -> its links; the longest first."""
        links: dict[str, set[int]] = {}
        for product in self.products:
            title = " ".join(unicodedata.normalize("NFKC", product.title).lower().split())
            if title:
                links.setdefault(title, set()).add(product.link_id)
        return {title: frozenset(links[title]) for title in sorted(links, key=len, reverse=True)}

    @cached_property
    def coupon_codes(self) -> frozenset[str]:
        """All coupon codes, lower case."""
        return frozenset(coupon.code.lower() for product in self.products for coupon in product.coupons)

    @cached_property
    def attribute_values(self) -> dict[str, frozenset[str]]:
        """Normalised attribute name -> every value that a product of the catalogue has for it (lower case)."""
        values: dict[str, set[str]] = {}
        for product in self.products:
            for name, value in product.attributes.items():
                values.setdefault(attribute_key(name), set()).add(value.lower())
        return {name: frozenset(found) for name, found in values.items()}

    def __hash__(self) -> int:
        """By content, as equality is: pydantic's own hash needs fields that have one, and dictionaries do not."""
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        return content_digest([[p.model_dump(mode="json") for p in self.products], self.recorded])


@lru_cache(maxsize=4096)
def attribute_key(name: str) -> str:
    """`Skin_Type`, `skin type` and `skin-type` are one attribute; Chinese names of the shop's own two are English."""
    key = " ".join(re.split(r"[\s_\-]+", name.strip().lower()))
    return _SHOP_ATTRIBUTES.get(key, key)


@lru_cache(maxsize=1440)
def seconds_of(clock: str) -> int:
    """Seconds from the start of the stream to a time of day; a time before `STREAM_START` is negative."""
    hours, minutes = map(int, clock.split(":"))
    start_hours, start_minutes = map(int, STREAM_START.split(":"))
    return (hours - start_hours) * 3600 + (minutes - start_minutes) * 60


def clock_of(seconds: float) -> str:
    """Time of day `seconds` after the start of the stream."""
    minutes = (int(seconds) - seconds_of("00:00")) // 60 % 1440
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def money_text(amount: Decimal) -> str:
    """Two decimals, no separators: the one form in which tools give amounts."""
    return f"{amount:.2f}"


def read_jsonl(path: Path, faults: list[Fault]) -> list[tuple[int, dict[str, Any]]]:
    """(line number, object) of every non-blank line of a UTF-8 JSONL file; what is wrong is appended to `faults`."""
    text = read_text(path, faults)
    rows: list[tuple[int, dict[str, Any]]] = []
    for number, line in enumerate((text or "").split("\n"), start=1):
        if not line.strip():
            continue
        before = len(faults)
        value = parse_json(line, path, faults, number)
        if len(faults) > before:
            continue
        if isinstance(value, dict):
            rows.append((number, value))
        else:
            faults.append(Fault(str(path), f"line {number}", type(value).__name__, "a JSON object"))
    return rows


def read_catalogue(path: Path, faults: list[Fault]) -> Catalogue | None:
    """The catalogue of `path`, or None with all that is wrong in `faults`."""
    before = len(faults)
    products: list[Product] = []
    lines: dict[int, int] = {}
    for number, row in read_jsonl(path, faults):
        product = validate(Product, row, path, faults, f"line {number}")
        if product is None:
            continue
        if product.link_id in lines:
            found = f"link {product.link_id}, already in line {lines[product.link_id]}"
            faults.append(Fault(str(path), f"line {number}.link_id", found, "each link once"))
        lines.setdefault(product.link_id, number)
        faults.extend(_coupon_faults(product, path, number))
        products.append(product)
    if not products and len(faults) == before:
        faults.append(Fault(str(path), "file", "no product", "at least one product"))
    return None if len(faults) > before else Catalogue(products=tuple(products))


def load_catalogue(path: Path | str) -> Catalogue:
    """Raises InputError with all faults of the file."""
    faults: list[Fault] = []
    catalogue = read_catalogue(Path(path), faults)
    if catalogue is None:
        raise InputError(faults)
    return catalogue


def _coupon_faults(product: Product, path: Path, line: int) -> Iterable[Fault]:
    for index, coupon in enumerate(product.coupons):
        if coupon.kind == "percent" and not 0 < coupon.value < 100:
            yield Fault(
                str(path), f"line {line}.coupons.{index}.value", f"{coupon.value}%", "between 0 and 100, exclusive"
            )
