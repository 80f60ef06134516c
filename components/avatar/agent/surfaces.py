"""Every surface that training data shows: evaluation must find none of its held-out surfaces among them."""

from collections.abc import Iterable

from components.avatar.harness.augment import descriptions, names, words
from components.avatar.harness.schema import Frozen, Harness


class Surfaces(Frozen):
    """Sorted, without duplicates: `names` of tools, arguments and skills; the lower-case `words` that they are
    composed of; `descriptions` of tools and skills."""

    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    descriptions: tuple[str, ...] = ()


def surfaces_of(harnesses: Iterable[Harness]) -> Surfaces:
    """The surfaces of all `harnesses`."""
    found: tuple[set[str], set[str], set[str]] = (set(), set(), set())
    for harness in harnesses:
        for collected, part in zip(found, (names(harness), words(harness), descriptions(harness)), strict=True):
            collected |= part
    return Surfaces(names=tuple(sorted(found[0])), words=tuple(sorted(found[1])), descriptions=tuple(sorted(found[2])))
