"""Which tokens decide: tool names, skill names and arguments are a few percent of the trained tokens and all of the
task.

Under a uniform loss the frame of a call and the wording of replies outweigh them, and a high mean token accuracy hides
wrong choices; the trainer therefore logs `decision_accuracy` apart.
"""

import re

from components.avatar.agent.chat import Chat
from components.avatar.agent.examples import Example, segment_ids
from components.avatar.agent.parser import CALL_START

# The values in a call's JSON: the tool's name and every argument that is a string or a number.
_VALUES = re.compile(r':\s*(?:"(?P<text>(?:[^"\\]|\\.)*)"|(?P<number>-?\d+(?:\.\d+)?))')


def token_weights(example: Example, chat: Chat, decision_weight: float) -> list[float]:
    """Parallel to the ids of `to_ids`: `decision_weight` for the tokens of a call's values, 1 for all others."""
    weights = [1.0] * len(chat.prompt_ids(example.harness, example.first_message))
    for segment in example.segments:
        piece = [1.0] * len(segment_ids(segment, chat))
        if segment.author == "agent" and segment.text.startswith(CALL_START):
            for place in decision_tokens(segment.text, chat):
                piece[place] = decision_weight
        weights += piece
    return weights


def decision_tokens(text: str, chat: Chat) -> list[int]:
    """Places, among the ids of `chat.agent_ids(text)`, of the tokens that overlap a value."""
    spans = [match.span("text" if match["text"] is not None else "number") for match in _VALUES.finditer(text)]
    encoded = chat.tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
    return [
        place
        for place, (first, last) in enumerate(encoded["offset_mapping"])
        if any(first < stop and last > start for start, stop in spans)
    ]
