"""The checks of hooks. Each says whether a text (or a call, or a message) passes; what follows is the session's
business.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from components.avatar.harness.schema import Harness, Hook, HookCheck, HookPoint
from components.avatar.harness.script import HAN, has_han, whole

MAX_MESSAGE = 500  # characters of a viewer's message; live chats cut far below that

_HAN = re.compile(rf"[{HAN}]")
_PUNCTUATION = re.compile(r"[\u3001-\u303f\uff01-\uff0f\uff1a-\uff20\u2014\u2018-\u201d\u2026]+|[,.!?;:~]+(?!\d)")
_MARKERS = re.compile(r"<\|[^|>]*\|>|</?tool_call>", re.IGNORECASE)


def word_count(text: str) -> int:
    """The length of a reply, as `limits.reply_words` counts it: words between blanks, and each Chinese character as a
    word. In a text with Chinese characters a number is one word ("128.00元" has two), and punctuation none.
    """
    if has_han(text):
        text = _PUNCTUATION.sub(" ", _HAN.sub(r" \g<0> ", text))
    return len(text.split())


def length_passes(text: str, harness: Harness) -> bool:
    return 0 < word_count(text) <= harness.limits.reply_words


def format_passes(text: str, arguments: dict[str, Any]) -> bool:
    """`ends_with`: the reply ends with it; `address`: it stands in the reply as a word of its own, in any case."""
    ending, address = arguments.get("ends_with"), arguments.get("address")
    if ending and not text.rstrip().endswith(ending.strip()):
        return False
    return not address or word_pattern((address,)).search(text) is not None


def wording_passes(text: str, arguments: dict[str, Any]) -> bool:
    """None of `words` stands in the reply as a word or phrase of its own, in any case."""
    words = tuple(word for word in arguments.get("words", ()) if isinstance(word, str) and word.strip())
    return not words or word_pattern(words).search(text) is None


def message_passes(text: str) -> bool:
    """A viewer's message is usable: not empty, not overlong, no control characters, no call markers."""
    return (
        0 < len(text.strip()) <= MAX_MESSAGE
        and _MARKERS.search(text) is None
        and not any(unicodedata.category(char) in ("Cc", "Cs") for char in text if char not in "\n\t")
    )


@dataclass(frozen=True)
class Form:
    """The verifiable form of one text: the limit of words (with or without a hook), and ids of broken format and
    wording hooks.
    """

    length: bool
    persona: tuple[str, ...]
    length_rule: str = "reply_words"

    @property
    def broken(self) -> tuple[str, ...]:
        return self.persona if self.length else (self.length_rule, *self.persona)


def form_of(text: str, harness: Harness) -> Form:
    rule = next((hook.id for hook in harness.hooks if hook.check == HookCheck.REPLY_LENGTH), "reply_words")
    persona = tuple(hook.id for hook in harness.hooks if not persona_passes(hook, text))
    return Form(length_passes(text, harness), persona, rule)


def persona_passes(hook: Hook, text: str) -> bool:
    """Format and wording hooks; all others pass."""
    if hook.point != HookPoint.BEFORE_REPLY:
        return True
    if hook.check == HookCheck.REPLY_FORMAT:
        return format_passes(text, hook.arguments)
    if hook.check == HookCheck.FORBIDDEN_WORDING:
        return wording_passes(text, hook.arguments)
    return True


@lru_cache(maxsize=4096)
def word_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Any of `words` as a whole; punctuation, emoji and Chinese characters need no word boundary."""
    return re.compile("|".join(whole(word.strip()) for word in words), re.IGNORECASE)
