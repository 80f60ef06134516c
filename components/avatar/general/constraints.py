"""Constraints on a text that a program can verify without any model: the currency of the `general` metric.

Each constraint is a small value with its own wording and its own test; the kinds follow the verifiable-instruction
idea of IFEval."""

import json
import re
from dataclasses import dataclass
from enum import StrEnum

CIRCLE_WORDS = 12  # shorter texts have too few word triples to tell
CIRCLE_SHARE = 0.5


class Kind(StrEnum):
    LOWERCASE = "lowercase"
    UPPERCASE = "uppercase"
    MAX_WORDS = "max_words"
    MIN_WORDS = "min_words"
    SENTENCES = "sentences"
    INCLUDE = "include"
    EXCLUDE = "exclude"
    BULLETS = "bullets"
    JSON_ONLY = "json_only"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    QUOTED = "quoted"
    NO_COMMA = "no_comma"
    PARAGRAPHS = "paragraphs"
    POSTSCRIPT = "postscript"
    TITLE = "title"


@dataclass(frozen=True)
class Constraint:
    """`number` or `word` is set where the kind needs one."""

    kind: Kind
    number: int = 0
    word: str = ""

    def holds(self, text: str) -> bool:
        """Strict: the whole text counts, surrounding white space aside. An empty text fulfils nothing."""
        text = text.strip()
        return bool(text) and _CHECKS[self.kind](text, self)


def words(text: str) -> list[str]:
    return re.findall(r"[\w'’-]+", text)


def sentences(text: str) -> int:
    """Number of stretches that end in . ! or ? (or the end of the text), numbers like 3.5 not split."""
    return len([part for part in re.split(r"[.!?]+(?:\s+|$)", text) if part.strip()])


def is_answer(text: str, subject: str) -> bool:
    """Whether the text speaks of its subject and does not run in a circle.

    A broken model meets many constraints by accident ("no commas", "at most 32 words"): without this, a model that
    answers everything with `<tool tool tool ...` scored as high as the instruct model. A subject counts as named by the
    beginning of any of its words, so that "breathe" names "breathing"; a text of a dozen words or more runs in a circle
    when less than half of its word triples are distinct.
    """
    named = [word for word in words(subject.lower()) if len(word) > 3] or words(subject.lower())
    if not any(re.search(rf"\b{re.escape(word[: max(4, len(word) - 3)])}", text.lower()) for word in named):
        return False
    said = words(text.lower())
    triples = list(zip(said, said[1:], said[2:], strict=False))
    return len(said) < CIRCLE_WORDS or len(set(triples)) >= CIRCLE_SHARE * len(triples)


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) is not None


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


_CHECKS = {
    Kind.LOWERCASE: lambda text, c: text == text.lower() and any(ch.isalpha() for ch in text),
    Kind.UPPERCASE: lambda text, c: text == text.upper() and any(ch.isalpha() for ch in text),
    Kind.MAX_WORDS: lambda text, c: len(words(text)) <= c.number,
    Kind.MIN_WORDS: lambda text, c: len(words(text)) >= c.number,
    Kind.SENTENCES: lambda text, c: sentences(text) == c.number,
    Kind.INCLUDE: lambda text, c: _has_word(text, c.word),
    Kind.EXCLUDE: lambda text, c: not _has_word(text, c.word),
    Kind.BULLETS: lambda text, c: len(re.findall(r"^\s*[-*•] ", text, re.MULTILINE)) == c.number,
    Kind.JSON_ONLY: lambda text, c: _is_json(text),
    Kind.STARTS_WITH: lambda text, c: text.lower().startswith(c.word.lower()),
    Kind.ENDS_WITH: lambda text, c: text.lower().rstrip(" .!\"'").endswith(c.word.lower().rstrip(" .!\"'")),
    Kind.QUOTED: lambda text, c: len(text) > 2 and text[0] in '"“' and text[-1] in '"”',
    Kind.NO_COMMA: lambda text, c: "," not in text,
    Kind.PARAGRAPHS: lambda text, c: len([p for p in re.split(r"\n\s*\n", text) if p.strip()]) == c.number,
    Kind.POSTSCRIPT: lambda text, c: re.search(r"^\s*P\.?\s?S(?!\w)", text, re.MULTILINE) is not None,
    Kind.TITLE: lambda text, c: re.search(r"<<[^<>\n]+>>", text) is not None,
}
