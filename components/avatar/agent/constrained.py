"""Constrained decoding: from the call grammar to logits. Works with every tokenisation of the allowed strings.

In an open string that the harness decides, only tokens that keep to it are allowed; they are found by their bytes: a
token is allowed if it continues an allowed string, or ends it and goes on in a way that is JSON. Elsewhere a token is
forbidden only if it opens a key where no argument is left (a tool without arguments). What depends on the harness is a
few look-ups of prefixes; what needs a walk over many tokens depends on the place alone and is kept for all harnesses.
"""

import bisect
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from components.avatar.agent.call_grammar import CallNames, CallReader
from components.avatar.harness.schema import Harness

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_QUOTE = b'"'
# Stand-ins for a harness when only the place matters: some argument is left to write, or none.
_SOME_LEFT = CallNames(tools={b"": (b"",)}, skills=(), skill_arguments={})
_NONE_LEFT = CallNames(tools={}, skills=(), skill_arguments={})


class TokenTable:
    """The bytes of every token of a byte-level vocabulary. Special tokens have none: never allowed where the harness
    decides."""

    def __init__(self, tokenizer: "PreTrainedTokenizerFast") -> None:
        alphabet = _byte_alphabet()
        special = set(tokenizer.get_added_vocab().values())
        self.bytes: dict[int, bytes] = {}
        for token, index in tokenizer.get_vocab().items():
            if index not in special and all(char in alphabet for char in token):
                self.bytes[index] = bytes(alphabet[char] for char in token)
        self._sorted = sorted((text, index) for index, text in self.bytes.items())
        self._texts = [text for text, _ in self._sorted]
        self._openers = [(text, index) for text, index in self._sorted if text.endswith(_QUOTE)]
        self._continuing = lru_cache(maxsize=4096)(self._continuing_uncached)
        self._closing = lru_cache(maxsize=1024)(self._closing_uncached)
        self._opening_nothing = lru_cache(maxsize=1024)(self._opening_nothing_uncached)

    def allowed(self, state: CallReader, names: CallNames) -> list[int] | None:
        """Ids that keep to the harness in an open string that it decides; None elsewhere, or when nothing could be
        allowed."""
        choices = state.choices(names)
        if choices is None:
            return None
        rests = tuple(choice[len(state.text) :] for choice in choices if choice.startswith(state.text))
        ids = list(self._continuing(rests))
        if b"" in rests:
            after = state.read(_QUOTE[0])
            ids += self._closing(_anywhere(after), after.keys_left(names))
        return ids or None

    def forbidden(self, state: CallReader, names: CallNames) -> tuple[int, ...]:
        """Ids that would open a key where no argument is left."""
        if state.place in ("free", "start", "string") or state.keys_left(names):
            return ()
        return self._opening_nothing(_anywhere(state))

    def _continuing_uncached(self, rests: tuple[bytes, ...]) -> tuple[int, ...]:
        """Ids of tokens that are a part of one of `rests` from its start on."""
        ids = set()
        for rest in rests:
            for end in range(1, len(rest) + 1):
                first = bisect.bisect_left(self._texts, rest[:end])
                while first < len(self._texts) and self._texts[first] == rest[:end]:
                    ids.add(self._sorted[first][1])
                    first += 1
        return tuple(sorted(ids))

    def _closing_uncached(self, after: CallReader, keys_left: bool) -> tuple[int, ...]:
        """Ids of tokens that begin with the closing quote; `after` is the state behind it."""
        names = _SOME_LEFT if keys_left else _NONE_LEFT
        first, last = bisect.bisect_left(self._texts, _QUOTE), bisect.bisect_left(self._texts, b"#")
        return tuple(i for text, i in self._sorted[first:last] if after.read_within(text[1:], names) is not None)

    def _opening_nothing_uncached(self, state: CallReader) -> tuple[int, ...]:
        return tuple(index for text, index in self._openers if not state.read_all(text).fits(_NONE_LEFT))


def _anywhere(state: CallReader) -> CallReader:
    """`state` without what belongs to one harness only."""
    return replace(state, tool=None, used=frozenset(), keys=tuple(k if k == b"arguments" else b"" for k in state.keys))


class Constraint:
    """The limits on one turn: `mask` the logits, then `feed` the token that was chosen."""

    def __init__(self, table: TokenTable, harness: Harness) -> None:
        self._table = table
        self._names = CallNames.of(harness)
        self._state = CallReader()

    def mask(self, logits: torch.Tensor) -> None:
        """Set the logits, shape (vocabulary,), of what the harness does not allow to minus infinity, in place."""
        allowed = self._table.allowed(self._state, self._names)
        if allowed is not None:
            kept = logits[allowed]
            logits.fill_(float("-inf"))
            logits[allowed] = kept
        elif forbidden := self._table.forbidden(self._state, self._names):
            logits[list(forbidden)] = float("-inf")

    def permits(self, token: int) -> bool:
        """Whether `mask` would leave this token its logit: then greedy decoding needs no constraint to choose it."""
        allowed = self._table.allowed(self._state, self._names)
        if allowed is not None:
            return token in allowed
        return token not in self._table.forbidden(self._state, self._names)

    def feed(self, token: int) -> None:
        if self._state.place != "free":
            self._state = self._state.read_all(self._table.bytes.get(token, b"\xff"))


def keeps_to(table: TokenTable, harness: Harness, turn: Iterable[int]) -> bool:
    """Whether a turn decoded freely keeps to the harness by itself, token by token."""
    constraint = Constraint(table, harness)
    for token in turn:
        if not constraint.permits(token):
            return False
        constraint.feed(token)
    return True


def _byte_alphabet() -> dict[str, int]:
    """Character -> byte of byte-level BPE: printable Latin-1 stands for itself, the other bytes for U+0100 upwards, in
    order."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {chr(byte): byte for byte in plain}
    rest = (byte for byte in range(256) if chr(byte) not in alphabet)
    return alphabet | {chr(0x100 + offset): byte for offset, byte in enumerate(rest)}
