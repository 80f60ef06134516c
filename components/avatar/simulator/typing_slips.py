"""Slips of the keyboard in viewers' messages.

Viewers type in haste: "pirce", "coupn", "sael". A question log has some of these, far fewer than a live stream does. A
training episode may have slips of its own, so that a model reads a word by more than its exact tokens.
"""

import random
import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Za-z]{4,}")  # shorter words are too easily another one
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {
    letter: row[max(0, at - 1) : at] + row[at + 1 : at + 2] for row in _ROWS for at, letter in enumerate(row)
}


def mistyped(text: str, rng: random.Random, keep: Iterable[str] = ()) -> str:
    """`text` with one slip in one word of Latin letters: two letters swapped, one left out, doubled, or hit beside.

    Args:
        keep: what the answer depends on to the letter (a city, an order's number); their words stay whole.

    A text without another word of four letters stays as it is, as does anything that is no Latin letter. The first
    letter of a word is never touched: people rarely miss it, and readers need it.
    """
    kept = {word.lower() for value in keep for word in _WORD.findall(value)}
    words = [match for match in _WORD.finditer(text) if match[0].lower() not in kept]
    if not words:
        return text
    match = rng.choice(words)
    return text[: match.start()] + _slip(match[0], rng) + text[match.end() :]


def _slip(word: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    before, here, after = word[:at], word[at], word[at + 1 :]
    return rng.choice(
        (
            before + after[0] + here + after[1:],
            before + after,
            before + here + here + after,
            before + rng.choice(_NEIGHBOURS[here.lower()]) + after,
        )
    )
