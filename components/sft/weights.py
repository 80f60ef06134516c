"""Which tokens decide: tool names, skill names, arguments and the facts of a reply are a few percent of the trained
tokens and all of the task.

Under a uniform loss the frame of a call and the wording of replies outweigh them, and a high mean token accuracy hides
wrong choices; the trainer therefore logs `decision_accuracy` apart.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from components.avatar.agent.chat import Chat
from components.avatar.agent.examples import Example, segment_ids
from components.avatar.agent.parser import CALL_START

# The values in a call's JSON: the tool's name and every argument that is a string or a number.
_VALUES = re.compile(r':\s*(?:"(?P<text>(?:[^"\\]|\\.)*)"|(?P<number>-?\d+(?:\.\d+)?))')

Span = tuple[int, int]


def token_weights(example: Example, chat: Chat, decision_weight: float) -> list[float]:
    """Parallel to the ids of `to_ids`: `decision_weight` for the tokens of a call's values and of what a reply copies
    from tool results, 1 for all others."""
    weights = [1.0] * len(chat.prompt_ids(example.harness, example.first_message))
    facts: set[str] = set()
    for segment in example.segments:
        piece = [1.0] * len(segment_ids(segment, chat))
        if segment.author == "agent":
            called = segment.text.startswith(CALL_START)
            spans = value_spans(segment.text) if called else fact_spans(segment.text, facts)
            for place in overlapping_tokens(segment.text, spans, chat):
                piece[place] = decision_weight
        elif segment.kind == "tool":
            facts.update(leaves(segment.text))
        weights += piece
    return weights


def value_spans(call: str) -> list[Span]:
    """Places of a call's values in its text."""
    return [match.span("text" if match["text"] is not None else "number") for match in _VALUES.finditer(call)]


def fact_spans(reply: str, facts: set[str]) -> list[Span]:
    """Places in a reply of the values that tool results held, as whole words."""
    if not facts:
        return []
    longest_first = sorted(facts, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")
    return [match.span() for match in pattern.finditer(reply)]


def leaves(result: str) -> Iterator[str]:
    """Strings and numbers in a tool result; none when it is not JSON (a skill's text, a malformed result)."""
    try:
        pending: list[Any] = [json.loads(result)]
    except json.JSONDecodeError:
        return
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
        elif value is not None and not isinstance(value, bool) and str(value):
            yield str(value)


def overlapping_tokens(text: str, spans: list[Span], chat: Chat) -> list[int]:
    """Places, among the ids of `chat.agent_ids(text)`, of the tokens that overlap one of `spans`."""
    encoded = chat.tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
    return [
        place
        for place, (first, last) in enumerate(encoded["offset_mapping"])
        if any(first < stop and last > start for start, stop in spans)
    ]
