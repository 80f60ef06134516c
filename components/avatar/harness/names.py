"""Names of tools, skills and arguments: how they are cleaned, split into words and newly composed."""

import random
import re
import string
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import accumulate

from components.avatar.harness.words import WordBank, split_of

MAX_NAME = 64  # limit of OpenAI's function names and of common servers

# Styles of a composed name and how often each is drawn; kebab and dotted names occur in imported tool lists (BFCL,
# MCP).
STYLES = ("snake", "camel", "kebab", "dotted", "joined")
STYLE_WEIGHTS = tuple(accumulate((0.52, 0.2, 0.12, 0.08, 0.08)))
LENGTHS = (1, 2, 3)  # words of an arbitrary name
LENGTH_WEIGHTS = tuple(accumulate((0.3, 0.5, 0.2)))


_UNCLEAN = re.compile(r"[^a-z0-9_]")


@lru_cache(maxsize=65536)
def clean_name(name: str) -> str:
    """What servers make of a name: lower case, every other sign an underscore, cut to 64. Two names must not become
    one.

    >>> clean_name("my-param") == clean_name("my_param")
    True
    """
    return _UNCLEAN.sub("_", name.lower())[:MAX_NAME]


def name_words(name: str) -> tuple[str, ...]:
    """The lower-case words of a name in any style: `priceCheck`, `price_check` and `price.check` all give ("price",
    "check").
    """
    return tuple(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", name))


def compose(words: Sequence[str], style: str) -> str:
    """`words` as one name in `style` (one of STYLES)."""
    if style == "camel":
        return words[0] + "".join(word.capitalize() for word in words[1:])
    return {"snake": "_", "kebab": "-", "dotted": ".", "joined": ""}[style].join(words)


def opaque_name(rng: random.Random, bank: WordBank) -> str:
    """A string of 4-8 letters that says nothing (`zorvuk`, `xqtkf`), of the bank's own half.

    Letters only: with signs or digits in it, parts of a held-out string (`fn_`) would be seen in training.
    """
    while True:
        if rng.random() < 0.5:
            name = "".join(rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(2, 4)))
        else:
            name = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(4, 7)))
        if split_of(name) == bank.split:
            return name


def new_name(
    rng: random.Random,
    bank: WordBank,
    *,
    plausible: Sequence[Sequence[str]],
    arbitrary: float,
    opaque: float,
    taken: Sequence[Collection[str]],
    exclude: Collection[str] = (),
    longest: int = 3,
) -> str:
    """A fresh name of 1 to `longest` words from `bank`'s half.

    With probability `opaque` a string without words, with probability `arbitrary` ordinary words of any kind, else
    words out of `plausible` (one group a word, in order or swapped). `taken` holds sets of cleaned names that the new
    one must not collide with; no word in `exclude` is used. Falls back to arbitrary words where plausible ones are used
    up.
    """
    groups: list[Sequence[str]] = [usable for group in plausible if (usable := bank.only(group))]
    if exclude:
        groups = [usable for group in groups if (usable := [word for word in group if word not in exclude])]
    for attempt in range(100):
        kind = rng.random()
        if kind < opaque:
            name = opaque_name(rng, bank)
        elif kind < opaque + arbitrary or not groups or attempt > 10:
            words = [rng.choice(bank.words) for _ in range(rng.choices(LENGTHS, cum_weights=LENGTH_WEIGHTS)[0])][
                :longest
            ]
            if any(word in exclude for word in words):
                continue
            name = compose(words, _style(rng, words))
        else:
            words = [rng.choice(group) for group in rng.sample(groups, min(len(groups), longest))]
            if len(words) > 1 and rng.random() < 0.2:
                words.pop()
            name = compose(words, _style(rng, words))
        if len(name) <= MAX_NAME and name not in exclude:
            clean = clean_name(name)
            if all(clean not in names for names in taken):
                return name
    raise ValueError(f"no fresh name in 100 tries: {sum(map(len, taken))} taken, {len(exclude)} excluded")


def _style(rng: random.Random, words: Sequence[str]) -> str:
    """A drawn style; three words are not joined without a sign between them, nobody could read that."""
    style = rng.choices(STYLES, cum_weights=STYLE_WEIGHTS)[0]
    return "snake" if style == "joined" and len(words) > 2 else style
