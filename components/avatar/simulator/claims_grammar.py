"""What the claim reader knows of one language: how numbers, links, codes and times of day are written, and the words
that say what a number is.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from components.avatar.simulator.facts import FactKind

CODE_MARK = "§"  # stands where a coupon code stood


@dataclass(frozen=True)
class Marked:
    """A pattern with marks, of which one stands in every match: to look for them first costs a tenth of a search in
    vain. Without marks the pattern is always searched.
    """

    pattern: re.Pattern[str]
    marks: tuple[str, ...] = ()

    def finditer(self, text: str) -> Iterable[re.Match[str]]:
        for mark in self.marks:
            if mark in text:
                break
        else:
            if self.marks:
                return ()
        return self.pattern.finditer(text)


@dataclass(frozen=True)
class Grammar:
    """All patterns are for normalised text: NFKC, lower case, single blanks (`code` and `code_after`: as written)."""

    number: re.Pattern[str]  # groups number, symbol, currency, percent, days, months, pieces
    currencies: Mapping[str, str]  # sign or word -> ISO code
    factors: Mapping[str, int]  # beginning of a unit -> its days or months
    digits: Callable[[str], str]  # numbers in words as digits, where a unit follows
    clock: Marked
    clock_text: Callable[[re.Match[str]], str]  # a match of `clock` as "HH:MM"
    link: re.Pattern[str]  # exactly one of its groups is the link
    code: re.Pattern[str]
    code_after: Marked  # group 1
    before: Mapping[FactKind, re.Pattern[str]]  # cue words that stand before the number
    after: Mapping[FactKind, re.Pattern[str]]  # cue words that stand after it
    clause_start: re.Pattern[str]
    clause_end: re.Pattern[str]
    says: Mapping[FactKind, Marked]  # statements without numbers
    denied: re.Pattern[str]  # right before "sold out" or "in stock" it turns the statement round
    nothing_shown: re.Pattern[str]  # no product is on air
    none_value: str  # of an attribute that the product does not have
    no_attribute: tuple[str, ...]  # how that is said of "{attribute}"
    order_states: Mapping[str, tuple[str, ...]]  # state of an order -> how it is said
    signs: Mapping[int, str] = field(default_factory=dict)  # for str.translate, before NFKC
    peek: int = 0  # characters of the next number that `after` sees: there a cue may belong to that number instead

    def factor(self, unit: str) -> int:
        return next((factor for beginning, factor in self.factors.items() if unit.startswith(beginning)), 1)
