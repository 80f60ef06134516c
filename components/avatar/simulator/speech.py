"""What the oracle needs of a language to speak it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Speech:
    """`sentences`: situation -> wordings, the preferred ones first, the shortest last. Their blanks (`{price}` and the
    like) are filled with what `blanks` makes of the values of tool results.
    """

    sentences: Mapping[str, tuple[str, ...]]
    blanks: Callable[[Mapping[str, Any]], dict[str, Any]]
    addressed: Callable[[str, str], str]  # (form of address, sentence) -> the sentence with it
    before_ending: str  # between a sentence and a sign-off
