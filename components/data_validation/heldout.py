"""What belongs to the tests: words and wordings of the held-out half of the harness vocabulary."""

import re
from functools import lru_cache

from components.avatar.harness.banks import Wordings, banks
from components.avatar.harness.words import split_of, word_bank


def is_held_out_word(word: str) -> bool:
    """True for a known word that hashes to the held-out half. Random strings are no words: nobody can learn them by
    heart."""
    return split_of(word) == "heldout" and word in _vocabulary()


def is_held_out_wording(text: str) -> bool:
    """True if `text` contains a held-out wording of a capability or a question family."""
    return bool(_held_out_wordings().search(text.lower()))


@lru_cache(maxsize=1)
def _vocabulary() -> frozenset[str]:
    bank = banks()
    names = [
        *bank.verbs,
        *bank.skill_words,
        *(name for wordings in bank.capabilities.values() for name in wordings.names),
        *(name for words in bank.arguments.values() for name in words),
        *(name for words in bank.family_names.values() for name in words),
    ]
    return frozenset([*word_bank("heldout").source, *names])


@lru_cache(maxsize=1)
def _held_out_wordings() -> re.Pattern[str]:
    """Single words are judged by `is_held_out_word`; a held-out wording inside a training one ("costs" in "what it
    costs") is no sign."""
    bank = banks()
    wordings: list[Wordings] = [*bank.capabilities.values(), *bank.families.values()]
    trained = [text.lower() for wording in wordings for text in wording.train]
    texts = sorted({text.lower() for wording in wordings for text in wording.heldout if " " in text})
    patterns = [".{1,40}".join(map(re.escape, text.split("{item}"))) for text in texts]
    return re.compile(
        "|".join(pattern for pattern in patterns if not any(re.search(pattern, text) for text in trained))
    )
