"""Fresh facts for the products of a training episode.

A shop's prices, stock, coupons and sales change all day, but a catalogue file stands still: a model that meets the same
few dozen products a hundred times learns their facts by heart and answers from memory instead of from the tool's
result. A varied product keeps what makes questions about it meaningful (its link, which attributes and variants it
has) and draws the values anew.
"""

import random
from collections.abc import Sequence
from decimal import Decimal

from components.avatar.harness.words import word_bank
from components.avatar.simulator.catalogue import (
    CENT,
    Catalogue,
    Coupon,
    FlashSale,
    Product,
    ProductVariant,
    Shipping,
    attribute_key,
)

SOLD_OUT_SHARE = 0.15  # as often as viewers meet an empty shelf: our choice, like all shares here
NO_COUPON_SHARE = 0.2
FLASH_SALE_SHARE = 0.5
_SALE_STARTS = ("18:00", "19:00", "19:30")
_SALE_ENDS = ("21:15", "21:30", "22:00", "22:45", "23:30")
_RETURN_DAYS = (7, 10, 14, 15, 20, 30)
_WARRANTY_MONTHS = (0, 3, 6, 12, 18, 24, 36)


def varied(product: Product, peers: Sequence[Product], rng: random.Random) -> Product:
    """`product` with fresh values; those of attributes, and the parts of its title, come from `peers`."""
    price = max(Decimal(1), (product.price.amount * Decimal(rng.uniform(0.5, 1.8))).quantize(CENT))
    return product.model_copy(
        update={
            "title": _title(product, peers, rng),
            "price": product.price.model_copy(update={"amount": price}),
            "stock": _stock(rng),
            "variants": tuple(ProductVariant(name=v.name, value=v.value, stock=_stock(rng)) for v in product.variants),
            "coupons": _coupons(product, price, rng),
            "shipping": Shipping(
                regions={city: rng.randint(1, 9) for city in product.shipping.regions}, default_days=rng.randint(3, 12)
            ),
            "attributes": {name: _attribute(name, value, peers, rng) for name, value in product.attributes.items()},
            "warranty_months": rng.choice(_WARRANTY_MONTHS) if product.warranty_months else 0,
            "return_days": rng.choice(_RETURN_DAYS) if product.return_days else 0,
            "flash_sale": _flash_sale(price, rng),
        }
    )


def varied_products(
    catalogue: Catalogue, links: Sequence[int | None], peers: Sequence[Product], rng: random.Random
) -> tuple[Product, ...]:
    """The products of `links` that the catalogue has, each once, varied."""
    known = dict.fromkeys(link for link in links if link in catalogue.by_link)
    return tuple(varied(catalogue.by_link[link], peers, rng) for link in known if link is not None)


def _stock(rng: random.Random) -> int:
    return 0 if rng.random() < SOLD_OUT_SHARE else rng.randint(1, 400)


def _title(product: Product, peers: Sequence[Product], rng: random.Random) -> str:
    """A peer's first words before the product's last ones; titles without blanks stay."""
    own, other = product.title.split(), rng.choice(peers).title.split()
    if len(own) < 2 or len(other) < 2:
        return product.title
    return " ".join((*other[: rng.randint(1, len(other) - 1)], *own[rng.randint(1, len(own) - 1) :]))


def _coupons(product: Product, price: Decimal, rng: random.Random) -> tuple[Coupon, ...]:
    return tuple(_coupon(price, coupon.ends, rng) for coupon in product.coupons if rng.random() >= NO_COUPON_SHARE)


def _coupon(price: Decimal, ends: str | None, rng: random.Random) -> Coupon:
    """Half of the codes begin with a word, the others with letters that are none: both must be copied."""
    if rng.random() < 0.5:
        word = rng.choice(word_bank("train").words).upper()[:7]
    else:
        word = "".join(rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=rng.randint(3, 5)))
    percent = rng.random() < 0.3
    value = rng.choice((5, 8, 10, 12, 15, 20, 25)) if percent else rng.randint(1, max(1, int(price / 4)))
    return Coupon(
        code=f"{word}{rng.choice((value, rng.randint(1, 99)))}",
        kind="percent" if percent else "amount",
        value=Decimal(value),
        minimum=Decimal(int(price * Decimal(rng.uniform(0.4, 0.95)))),
        ends=ends,
    )


def _attribute(name: str, value: str, peers: Sequence[Product], rng: random.Random) -> str:
    key = attribute_key(name)
    values = [v for peer in peers for other, v in peer.attributes.items() if attribute_key(other) == key]
    return rng.choice([value, *values])


def _flash_sale(price: Decimal, rng: random.Random) -> FlashSale | None:
    if rng.random() >= FLASH_SALE_SHARE:
        return None
    reduced = (price * Decimal(rng.uniform(0.6, 0.92))).quantize(CENT)
    return FlashSale(price=reduced, starts=rng.choice(_SALE_STARTS), ends=rng.choice(_SALE_ENDS))
