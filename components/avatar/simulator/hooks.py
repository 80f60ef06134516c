"""The checks of hooks. Each says whether a text (or a call, or a message) passes; what follows is the session's
business.
"""

import re
from functools import lru_cache
from typing import Any, NamedTuple

from components.avatar.harness.schema import Harness, Hook, HookCheck
from components.avatar.harness.script import HAN, has_han, whole_words

MAX_MESSAGE = 500  # characters of a viewer's message; live chats cut far below that

_HAN = re.compile(rf"[{HAN}]")
_PUNCTUATION = re.compile(r"[\u3001-\u303f\uff01-\uff0f\uff1a-\uff20\u2014\u2018-\u201d\u2026]+|[,.!?;:~]+(?!\d)")
_MARKERS = re.compile(r"<\|[^|>]*\|>|</?tool_call>", re.IGNORECASE)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # Unicode's categories Cc and Cs, less \n and \t


def word_count(text: str) -> int:
    """The length of a reply, as `limits.reply_words` counts it: words between blanks, and each Chinese character as a
    word. In a text with Chinese characters a number is one word ("128.00元" has two), and punctuation none.
    """
    if has_han(text):
        text = _PUNCTUATION.sub(" ", _HAN.sub(r" \g<0> ", text))
    return len(text.split())


def format_passes(text: str, arguments: dict[str, Any]) -> bool:
    """`ends_with`: the reply ends with it; `address`: it stands in the reply as a word of its own, in any case."""
    ending, address = arguments.get("ends_with"), arguments.get("address")
    if ending and not text.rstrip().endswith(ending.strip()):
        return False
    return not address or word_pattern((address,)).search(text) is not None


def wording_passes(text: str, arguments: dict[str, Any]) -> bool:
    """None of `words` stands in the reply as a word or phrase of its own, in any case."""
    words = tuple([word for word in arguments.get("words", ()) if isinstance(word, str) and word.strip()])
    return not words or word_pattern(words).search(text) is None


_PERSONA_CHECKS = {HookCheck.REPLY_FORMAT: format_passes, HookCheck.FORBIDDEN_WORDING: wording_passes}


def message_passes(text: str) -> bool:
    """A viewer's message is usable: not empty, not overlong, no control characters, no call markers."""
    return 0 < len(text.strip()) <= MAX_MESSAGE and _MARKERS.search(text) is None and _CONTROLS.search(text) is None


class Form(NamedTuple):
    """The verifiable form of one text: its words, whether they keep the limit (with or without a hook), ids of broken
    format and wording hooks, and ids of all broken rules (a limit without a hook is `reply_words`).
    """

    words: int
    length: bool
    persona: tuple[str, ...]
    broken: tuple[str, ...]


def form_of(text: str, harness: Harness) -> Form:
    words = word_count(text)
    persona = tuple([hook.id for hook in harness.reply_hooks if not persona_passes(hook, text)])
    if 0 < words <= harness.limits.reply_words:
        return Form(words, True, persona, persona)
    rule = next((hook.id for hook in harness.hooks if hook.check == HookCheck.REPLY_LENGTH), "reply_words")
    return Form(words, False, persona, (rule, *persona))


def persona_passes(hook: Hook, text: str) -> bool:
    """Format and wording hooks before a reply; all others pass."""
    passes = _PERSONA_CHECKS.get(hook.check)
    return passes is None or passes(text, hook.arguments)


@lru_cache(maxsize=4096)
def word_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Any of `words` as a whole; punctuation, emoji and Chinese characters need no word boundary."""
    return whole_words([word.strip() for word in words], signs=False, flags=re.IGNORECASE)
