"""The words that new names are made of, divided into a training and a held-out vocabulary that share no word.

Names in training must cover the model's token vocabulary: a model that never had to copy a word's tokens in training
copies them wrongly later. So the list holds ordinary words of all kinds. `words.txt` (package data) is the base
tokenizer's own vocabulary: its whole lower-case words of 3-10 letters, less what English dictionaries do not know and
less offensive or painful words.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import resources
from typing import Literal

Split = Literal["train", "heldout"]

HELD_OUT_OF = 5  # one word in five is held out: about 2,900 of 14,300, enough for thousands of unseen names


@lru_cache(maxsize=65536)  # bounded: opaque names ask for ever new strings
def split_of(word: str) -> Split:
    """The vocabulary that `word` belongs to, by a stable hash: the same on every machine."""
    return "heldout" if hashlib.sha256(word.lower().encode()).digest()[0] % HELD_OUT_OF == 0 else "train"


@dataclass(frozen=True)
class WordBank:
    """The words of `words` that belong to `split`."""

    source: tuple[str, ...]
    split: Split

    @cached_property
    def words(self) -> tuple[str, ...]:
        return self.only(self.source)

    def only(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those of `words` that belong to this vocabulary, in order."""
        return _only(tuple(words), self.split)


@cache
def _only(words: tuple[str, ...], split: Split) -> tuple[str, ...]:
    return tuple(word for word in words if split_of(word) == split)


@cache
def word_bank(split: Split) -> WordBank:
    """The shipped word list, one of its two halves."""
    text = resources.files("components.avatar.harness").joinpath("words.txt").read_text(encoding="utf-8")
    return WordBank(tuple(text.split()), split)


def whole_words(vocabulary: Sequence[str], space: str = "Ġ") -> tuple[str, ...]:
    """The lower-case words of 3-10 letters in a tokenizer's vocabulary (`space` marks a token that begins a word),
    sorted.

    A base model of another family gets its own bank with `WordBank(whole_words(list(tokenizer.get_vocab())), split)`.
    """
    pattern = re.compile(re.escape(space) + "([a-z]{3,10})")
    return tuple(sorted({match[1] for token in vocabulary if (match := pattern.fullmatch(token))}))
