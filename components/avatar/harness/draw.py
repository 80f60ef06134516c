"""What an augmentation operator draws from: randomness, vocabulary, strength, and what must not be used."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from components.avatar.harness.banks import Banks, banks
from components.avatar.harness.names import clean_name, new_name
from components.avatar.harness.schema import Harness
from components.avatar.harness.words import Split, WordBank

T = TypeVar("T")


@dataclass
class Draw:
    """One variant's source of choices. `renamed` records original name -> new name as operators go.

    `strength` in [0, 1] is the curriculum: it raises the share of things that an operator touches and of arbitrary
    names.
    """

    rng: random.Random
    bank: WordBank
    strength: float
    exclude: Collection[str] = ()
    own: frozenset[str] = (
        frozenset()
    )  # cleaned names of the original: a new name that was another thing's would confuse
    renamed: dict[str, str] = field(default_factory=dict)
    banks: Banks = field(default_factory=banks)

    @property
    def split(self) -> Split:
        return self.bank.split

    def hits(self) -> bool:
        """Whether to touch one more thing: 40% of them at strength 0, all at strength 1."""
        return self.rng.random() < 0.4 + 0.6 * self.strength

    def fresh(self, options: Sequence[str], old: str = "") -> str | None:
        """One of `options` that is neither `old` nor excluded; None when there is none."""
        left = [option for option in options if option != old and option not in self.exclude]
        return self.rng.choice(left) if left else None

    def name(self, plausible: Sequence[Sequence[str]], taken: Collection[str], longest: int = 3) -> str:
        """A fresh tool or skill name: mostly plausible ones at strength 0, at strength 1 70% arbitrary and 10%
        opaque.
        """
        return new_name(
            self.rng,
            self.bank,
            plausible=plausible,
            arbitrary=0.15 + 0.55 * self.strength,
            opaque=0.1 * self.strength,
            taken=(self.own, taken),
            exclude=self.exclude,
            longest=longest,
        )

    def argument(self, plausible: Sequence[str], taken: Collection[str]) -> str:
        """A fresh argument name: one word, at strength 1 arbitrary in half of the cases."""
        return new_name(
            self.rng,
            self.bank,
            plausible=[plausible],
            arbitrary=0.1 + 0.4 * self.strength,
            opaque=0.03 * self.strength,
            taken=(self.own, taken),
            exclude=self.exclude,
            longest=1,
        )


def taken_names(harness: Harness) -> set[str]:
    """Cleaned names of tools and skills; a skill named like a tool would make a mention ambiguous."""
    return {clean_name(item.name) for item in (*harness.tools, *harness.skills)}
