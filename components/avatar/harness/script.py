"""Words in scripts with and without blanks between them.

English divides words by blanks, Chinese does not: a Chinese character is a word of its own here, and needs no boundary
beside it. For a text without Chinese characters everything below is what `\\w` and blanks alone would give.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

HAN = "\u3400-\u9fff"  # for use in a character class: the Chinese characters of everyday text
_LETTER = rf"[^\W{HAN}]"  # a letter or digit of a script that divides words by blanks
_WORDS = re.compile(rf"[{HAN}]|{_LETTER}+")
_HAN_RUN = re.compile(rf"[{HAN}]+")


def has_han(text: str) -> bool:
    return not text.isascii() and _HAN_RUN.search(text) is not None


def whole(text: str, pattern: str | None = None, *, signs: bool = False) -> str:
    """A regular expression for `text` as a whole: not inside a longer word. A Chinese character at its edge needs no
    boundary, a sign or an emoji only with `signs`.

    `pattern` stands for `text` where it is to match more than the text itself (blanks that may be missing, say).
    """
    before = rf"(?<!{_LETTER})" if _bounded(text[:1], signs) else ""
    after = rf"(?!{_LETTER})" if _bounded(text[-1:], signs) else ""
    return before + (re.escape(text) if pattern is None else pattern) + after


def whole_words(texts: Sequence[str], *, signs: bool = True, flags: int = 0) -> re.Pattern[str]:
    """Any of `texts` as a whole (see `whole`). Those with a boundary on both sides share one, which is three times as
    fast as one each, and come first; then the first that fits wins. Without texts: nothing.
    """
    bounded = [text for text in texts if _bounded(text[:1], signs) and _bounded(text[-1:], signs)]
    parts = [rf"(?<!{_LETTER})(?:{'|'.join(map(re.escape, bounded))})(?!{_LETTER})"] if bounded else []
    parts += [whole(text, signs=signs) for text in texts if text not in bounded]
    return re.compile("|".join(parts) if parts else r"(?!)", flags)


def words(text: str) -> list[str]:
    """The words of `text` without signs; each Chinese character is one.

    >>> words("link 3 是 129 元")
    ['link', '3', '是', '129', '元']
    """
    return _WORDS.findall(text)


@lru_cache(maxsize=4096)
def search_terms(text: str) -> frozenset[str]:
    """What a search compares: words between blanks, and of Chinese text every two characters that stand together (a
    single one by itself), the usual index of text without blanks.
    """
    terms: set[str] = set()
    for word in text.split():
        if not has_han(word):
            terms.add(word)
            continue
        for run in _HAN_RUN.findall(word):
            terms.update([run] if len(run) == 1 else (run[n : n + 2] for n in range(len(run) - 1)))
        terms.update(_HAN_RUN.sub(" ", word).split())
    return frozenset(terms)


def _bounded(character: str, signs: bool) -> bool:
    return (signs or character.isalnum()) and not has_han(character)
