"""Between conversations and token ids: the only place that renders.

The template (`chat_template.jinja`) travels in the model's folder and renders whole conversations for trainers and
foreign clients. The episode loop renders piece by piece, because ids of the past are carried and never re-tokenised;
`Chat` checks at start that both give the same ids. No tokens are added to the vocabulary.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.avatar.agent.parser import CALL_END, CALL_START, call_text
from components.avatar.agent.types import Message
from components.avatar.errors import Fault, InputError
from components.avatar.harness.render import system_prompt, tools_of
from components.avatar.harness.schema import Harness
from components.avatar.simulator.types import Observation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TEMPLATE_PATH = Path(__file__).with_name("chat_template.jinja")
START, END = "<|im_start|>", "<|im_end|>"
PROMPTS_KEPT = 256  # rendered system messages kept by harness digest

# Lone surrogates cannot be encoded; direction overrides, tag characters and the supplementary variation selectors hide
# text from the people who moderate a stream.
_UNPRINTABLE = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e01ef\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Chat:
    """Renders for one tokenizer. Installs the template in it; raises InputError if the tokenizer lacks ChatML or
    splits it differently."""

    def __init__(self, tokenizer: "PreTrainedTokenizerFast") -> None:
        self.tokenizer = tokenizer
        tokenizer.chat_template = TEMPLATE_PATH.read_text(encoding="utf-8")
        added = tokenizer.get_added_vocab()
        missing = [token for token in (START, END) if token not in added]
        if missing:
            raise InputError(
                [Fault("tokenizer", "added tokens", f"no {token}", "a ChatML tokenizer") for token in missing]
            )
        self.end_id: int = added[END]
        self.special_ids: frozenset[int] = frozenset(added.values())
        alternatives = sorted(added, key=len, reverse=True)
        self._tokens = re.compile("|".join(map(re.escape, alternatives)))
        self._markers = re.compile("|".join(map(re.escape, [*alternatives, CALL_START, CALL_END])))
        self._system_ids = lru_cache(maxsize=PROMPTS_KEPT)(self._render_system)
        self._check()

    def neutralise(self, text: str) -> str:
        """`text` of a viewer, tool or merchant made safe: it cannot form a special token or a call marker, cannot hide
        text by direction overrides or tag characters, and can always be encoded. Ordinary text is unchanged, except
        that line ends become LF."""
        return self._markers.sub(_opened, _printable(text))

    def prompt_ids(self, harness: Harness, message: str) -> list[int]:
        """System message, first viewer message, generation prompt."""
        return [
            *self._system_ids(_HarnessKey(harness)),
            *self._encode(self._turn("user", message) + f"{START}assistant\n"),
        ]

    def agent_ids(self, text: str) -> list[int]:
        """An agent turn as the model would write it: the text's ids and the closing token."""
        return [*self._encode_text(text), self.end_id]

    def observation_ids(self, observation: Observation, changed: Harness | None = None) -> list[int]:
        """From after the agent's closing token to the next generation prompt; empty when the episode is done.

        `changed`: the harness was edited mid-episode: its new system message comes first (the past is never rewritten).
        """
        if observation.done:
            return []
        text = self._turn(observation.role, observation.content) + f"{START}assistant\n"
        if changed is None:
            return self._encode("\n" + text)
        return [*self._encode("\n"), *self._system_ids(_HarnessKey(changed)), *self._encode(text)]

    def messages_ids(
        self,
        messages: Sequence[Message],
        tools: list[dict[str, Any]] | None = None,
        *,
        add_generation_prompt: bool = False,
    ) -> list[int]:
        """A whole conversation through the template, everything but the agent's own text neutralised."""
        encoded = self.tokenizer.apply_chat_template(
            [self._safe(message) for message in messages],
            tools=_map_text(tools, self.neutralise) or None,
            add_generation_prompt=add_generation_prompt,
            return_dict=False,
        )
        return list(encoded)  # pyright: ignore[reportReturnType]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of an agent turn without its closing token. Special tokens inside stay visible."""
        kept = ids[:-1] if ids and ids[-1] == self.end_id else ids
        text = self.tokenizer.decode(list(kept), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text  # pyright: ignore[reportReturnType]

    def _safe(self, message: Message) -> Message:
        if message["role"] != "assistant":
            return {**message, "content": self.neutralise(message["content"])}
        return {**message, "content": self._tokens.sub(_opened, _printable(message["content"]))}

    def _turn(self, role: str, content: str) -> str:
        return f"{START}{role}\n{self.neutralise(content)}{END}\n"

    def _render_system(self, key: "_HarnessKey") -> tuple[int, ...]:
        message = {"role": "system", "content": system_prompt(key.harness)}
        return tuple(self.messages_ids([message], tools_of(key.harness)))

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _encode_text(self, text: str) -> list[int]:
        whole = _SURROGATES.sub("\ufffd", text)
        return self.tokenizer(whole, add_special_tokens=False, split_special_tokens=True)["input_ids"]

    def _check(self) -> None:
        """Carried pieces and the whole conversation must give the same ids, else training and serving would see
        different text."""
        call = call_text("price_check", {"link": 3})
        whole = self.messages_ids(
            [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "How much? <|im_end|>"},
                {"role": "assistant", "content": call},
                {"role": "tool", "content": '{"price": "129.00", "note": "<tool_call>"}'},
            ],
            add_generation_prompt=True,
        )
        pieces = [
            *self.messages_ids([{"role": "system", "content": "Be brief."}]),
            *self._encode(self._turn("user", "How much? <|im_end|>") + f"{START}assistant\n"),
            *self.agent_ids(call),
            *self.observation_ids(Observation("tool", '{"price": "129.00", "note": "<tool_call>"}')),
        ]
        if whole != pieces or self.decode(self.agent_ids(call)) != call:
            fault = Fault(
                "tokenizer", "round trip", "pieces and whole conversation differ", "a byte-level ChatML tokenizer"
            )
            raise InputError([fault])


class _HarnessKey:
    """Hashable by digest: hashing a whole harness would cost more than rendering it."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness

    def __hash__(self) -> int:
        return hash(self.harness.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HarnessKey) and other.harness.digest == self.harness.digest


def _opened(match: re.Match[str]) -> str:
    """`<|im_end|>` -> `< |im_end|>`: still readable, no longer a marker, and no new marker can arise from the space."""
    return match[0][0] + " " + match[0][1:]


def _printable(text: str) -> str:
    text = _SURROGATES.sub("\ufffd", text).replace("\r\n", "\n").replace("\r", "\n")
    return _UNPRINTABLE.sub("", text)


def _map_text(value: Any, change: Any) -> Any:
    """`value` with `change` applied to every string in it, keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_map_text(key, change): _map_text(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_text(item, change) for item in value]
    return value
