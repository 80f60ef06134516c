"""What the oracle says in English."""

from collections.abc import Mapping
from typing import Any

from components.avatar.simulator.speech import Speech

_SENTENCES: Mapping[str, tuple[str, ...]] = {
    "price": (
        "Link {link} is {price} {currency} right now.",
        "The price of link {link} is {price} {currency} today.",
        "You can get link {link} for {price} {currency} in this stream.",
        "That one costs {price} {currency}, so take your time and have a look.",
        "Link {link} costs {price} {currency}, happy shopping.",
        "Good pick, link {link} goes for {price} {currency}.",
        "It is {price} {currency}.",
        "{price} {currency}.",
    ),
    "stock": (
        "Link {link} is in stock, {stock} left right now.",
        "We still have {stock} pieces of link {link}.",
        "Yes, {stock} units of link {link} are available.",
        "There are {stock} left of that one, no need to rush.",
        "Link {link} has {stock} units left at the moment.",
        "{stock} pieces to go.",
        "{stock} left.",
    ),
    "sold_out": (
        "Link {link} is sold out right now, sorry.",
        "Sorry, that one is out of stock at the moment.",
        "Sadly link {link} is sold out, maybe have a look at the others.",
        "There are 0 left of link {link}, I am sorry.",
        "All gone, sorry.",
        "Sold out, sorry.",
    ),
    "coupon_amount": (
        "Use code {code} for {value} {currency} off link {link}.",
        "Yes, code {code} takes {value} {currency} off.",
        "Type {code} at the end and save {value} {currency}.",
        "There is one: {code} gives you {value} {currency} off link {link}.",
        "Link {link} has the coupon {code}, it saves you {value} {currency}.",
        "{code}: {value} {currency} off.",
        "{code} saves {value} {currency}.",
    ),
    "coupon_percent": (
        "Use code {code} for {value} off link {link}.",
        "Yes, code {code} takes {value} off.",
        "Type {code} at the end and save {value}.",
        "There is one: {code} gives you {value} off link {link}.",
        "Link {link} has the coupon {code}, it saves you {value}.",
        "{code}: {value} off.",
        "{code} saves {value}.",
    ),
    "no_coupon": (
        "There is no coupon for link {link} right now, sorry.",
        "Link {link} has no discount code today.",
        "Sorry, we have no voucher for that one at the moment.",
        "No code for that one today, sorry.",
        "No coupon now.",
        "No voucher today.",
    ),
    "after_coupon": (
        "Link {link} is {price} {currency}, and with the coupon you pay {pays} {currency}.",
        "The price is {price} {currency}, with code {code} you pay {pays} {currency}.",
        "It costs {price} {currency} and drops to {pays} {currency} with the coupon.",
        "You pay {pays} {currency} instead of {price} {currency}.",
        "From {price} {currency} down to {pays} {currency} with code {code}.",
        "{price} {currency}, you pay {pays} {currency}.",
        "{price} {currency}, final {pays} {currency}.",
    ),
    "after_no_coupon": (
        "Link {link} is {price} {currency}, and there is no coupon for it now.",
        "It stays at {price} {currency}, we have no discount code for it today.",
        "No voucher for that one, so the price is {price} {currency}.",
        "{price} {currency}, no coupon.",
        "{price} {currency}, no voucher.",
    ),
    "after_only_price": (
        "Link {link} is {price} {currency}, but I can't check the coupon right now.",
        "It costs {price} {currency}, sorry, I cannot look up the coupon at the moment.",
        "{price} {currency}, can't check coupons.",
        "{price} {currency}, cannot see vouchers.",
    ),
    "after_only_pays": (
        "With the coupon you pay {pays} {currency}, but I can't check the full price now.",
        "You pay {pays} {currency} with code {code}, sorry, I cannot look up the rest.",
        "You pay {pays} {currency}, can't check more.",
    ),
    "after_only_none": (
        "There is no coupon for it, and I can't check the price right now.",
        "No voucher for that one, and I cannot look up the amount, sorry.",
        "No coupon, can't check more.",
        "No voucher, cannot see more.",
    ),
    "shipping": (
        "Link {link} reaches {city} in {days} days.",
        "Shipping to {city} takes {days} days.",
        "It gets to {city} in about {days} days.",
        "To {city} it is {days} days for that order.",
        "Delivery to {city} takes {days} days, it will be with you soon.",
        "{days} days to {city}.",
    ),
    "returns": (
        "You can return link {link} within {days} days.",
        "Yes, you have {days} days to send it back.",
        "Returns are fine for {days} days after it arrives with you.",
        "Link {link} comes with {days} days to return it.",
        "{days} days to return.",
        "{days} days for refunds.",
    ),
    "no_returns": (
        "Sorry, link {link} is final sale, no returns.",
        "That one cannot go back, sorry: no refunds on it.",
        "No returns, sorry.",
        "No refunds, sorry.",
    ),
    "attribute": (
        "The {attribute} of link {link} is {value}.",
        "For link {link} the {attribute} is {value}, as listed.",
        "Its {attribute} is {value}, hope that helps you choose.",
        "Link {link} has this {attribute}: {value}.",
        "It says {value} for that one.",
        "It is {value}.",
        "{value}.",
    ),
    "warranty": (
        "Link {link} has a warranty of {months} months.",
        "It comes with {months} months of warranty.",
        "You are covered for {months} months with link {link}.",
        "{months} months of warranty.",
        "{months} months.",
    ),
    "no_warranty": (
        "Sorry, link {link} has no warranty.",
        "That one comes with no guarantee, sorry.",
        "No warranty, sorry.",
        "No guarantee, sorry.",
    ),
    "flash": (
        "Yes, link {link} is on flash sale for {flash} {currency} until {ends}.",
        "The flash price of link {link} is {flash} {currency} until {ends}.",
        "It is {flash} {currency} in the flash sale, which ends at {ends}.",
        "Flash deal: {flash} {currency} until {ends}.",
        "{flash} {currency} until {ends}.",
    ),
    "no_flash": (
        "There is no flash sale on link {link} right now.",
        "Link {link} is not on sale at the moment, sorry.",
        "Sorry, no flash deal for that one today.",
        "No flash sale now.",
        "No deal today.",
    ),
    "variants": (
        "Link {link} comes in {variants}.",
        "You can choose from {variants} for that one.",
        "We have it in {variants}, whichever you like best.",
        "There is {variants} for link {link}.",
        "{variants}.",
    ),
    "no_variants": (
        "Link {link} comes in one version only.",
        "There is only one kind of that one.",
        "No other choices for that one.",
        "One version only.",
        "No other options.",
    ),
    "variant": (
        "Yes, we have {stock} left of {variant} for link {link}.",
        "There are {stock} pieces of {variant} left.",
        "{variant} is in stock, {stock} left.",
        "{stock} left of {variant}.",
        "{stock} pieces of it.",
    ),
    "variant_sold_out": (
        "Sorry, {variant} is sold out for link {link}.",
        "Sadly {variant} is out of stock right now.",
        "That one is all gone, sorry.",
        "Sold out, sorry.",
    ),
    "compare": (
        "Link {link_a} is {price_a} {currency} and link {link_b} is {price_b} {currency}.",
        "Link {link_a} costs {price_a} {currency}, link {link_b} costs {price_b} {currency}, both are lovely.",
        "It is {price_a} {currency} for link {link_a}, and link {link_b} goes for {price_b} {currency}.",
        "Link {link_a} {price_a} {currency}, link {link_b} {price_b} {currency}.",
        "#{link_a}: {price_a} {currency}, #{link_b}: {price_b} {currency}.",
    ),
    "order": (
        "Your order {order_id} is {status} right now.",
        "I looked it up: {order_id} is {status}.",
        "It is {status}, thank you for waiting.",
        "Good news or not, {order_id} shows as {status}.",
        "It is {status}.",
        "{order_id}: {status}.",
    ),
    "search": (
        "Have a look at link {link}, the {title}.",
        "Link {link} could be yours, our {title}.",
        "I would try link {link} for that.",
        "Yes, see link {link} for that.",
        "Try link {link}.",
        "See #{link}.",
    ),
    "nothing_found": (
        "Sorry, we have nothing like that in this stream.",
        "No luck, that is missing from our list today.",
        "Nothing like that today, sorry.",
        "No match, sorry.",
    ),
    "on_air": (
        "You are looking at link {link}, the {title}.",
        "This is link {link}, our {title}.",
        "Right now we show link {link}, have a look.",
        "It is link {link} on the screen now.",
        "That is link {link}.",
        "Link {link}.",
        "Number {link}.",
    ),
    "nothing_on_air": (
        "We show nothing right now, the next one is coming soon.",
        "Nothing on screen this moment, stay with us.",
        "We are between two products, stay tuned.",
        "Nothing right now.",
    ),
    "unknown_link": (
        "Sorry, there is no link {link} in this stream.",
        "We don't have link {link}, please check the number again.",
        "I can't find link {link}, could you look at the number again?",
        "Link {link} is not in our shop, sorry.",
        "No such link, sorry.",
        "I can't find it.",
    ),
    "cannot_check": (
        "Sorry, I can't check that right now.",
        "I cannot look that up at the moment, please ask me again later.",
        "Sorry, I am unable to check that for you now.",
        "The system is down, so I can't see that for you yet.",
        "I can't confirm that now, sorry for the wait.",
        "Can't check now.",
        "Unable to confirm, sorry.",
    ),
    "chit_chat": (
        "So happy to have you here tonight, make yourself at home.",
        "Thank you so much, that really makes my evening.",
        "Hello and welcome, great to see you in the stream.",
        "Aww, you are too kind, thank you for being with us.",
        "Haha, I love this chat, thanks for stopping by.",
        "Welcome, lovely to see you tonight.",
        "Thanks for being here.",
    ),
    "out_of_scope": (
        "That is beyond me, but I am happy to help with our products.",
        "I only know our shop, ask me anything about the products here.",
        "Let us stay with the products, I am glad to help there.",
        "Sorry, I only help with our shop.",
        "I only know our shop.",
    ),
    "forbidden_claim": (
        "I can make no promises about results, {varies} differs from person to person.",
        "That I may not promise, everyone reacts in their own way.",
        "I would rather not promise that, please try it and see.",
        "No promises from me there.",
        "I may not promise that.",
    ),
    "injection": (
        "Nice try, I stay with our stream and the products here.",
        "I keep to our shop, but I am glad to help you choose.",
        "Haha, no, let us get back to the products.",
        "Let us stay with our products.",
    ),
}


def _blanks(values: Mapping[str, Any]) -> dict[str, Any]:
    names = values.get("variants")
    return {**values, "variants": _listed(names)} if isinstance(names, list) else dict(values)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _addressed(address: str, sentence: str) -> str:
    return f"{address[:1].upper()}{address[1:]}, {_lowered(sentence)}"


def _lowered(sentence: str) -> str:
    """Lower case after an address, except for "I", codes and order numbers."""
    word = sentence.split(maxsplit=1)[0]
    plain = word not in ("I", "I'm") and word[1:] == word[1:].lower() and not any(char.isdigit() for char in word)
    return sentence[:1].lower() + sentence[1:] if plain else sentence


ENGLISH = Speech(sentences=_SENTENCES, blanks=_blanks, addressed=_addressed, before_ending=" ")
