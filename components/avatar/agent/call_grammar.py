"""What may come next inside a call: the pure logic of constrained decoding, byte by byte, without a model.

A turn that starts with `<tool_call>` is read by `CallReader`, a small JSON reader that knows where it stands. In three
places the harness decides what may follow: the name of the tool, the keys of that tool's arguments, and the value of
an argument that means a skill. Everywhere else the agent is free, and a turn that is not a call at all is never
limited. What is no JSON ends the limits: the parser will say so.
"""

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from components.avatar.agent.parser import CALL_END, CALL_START
from components.avatar.harness.schema import Capability, Harness

_START, _END = CALL_START.encode(), CALL_END.encode()
_SPACE = b" \t\r\n"
_SCALAR = frozenset(b"-+.0123456789eEtrufalsn")  # numbers, true, false, null


@dataclass(frozen=True)
class CallNames:
    """The strings that a harness allows, JSON-escaped UTF-8. `skill_arguments`: tool -> the argument that takes a
    skill's name."""

    tools: dict[bytes, tuple[bytes, ...]]
    skills: tuple[bytes, ...]
    skill_arguments: dict[bytes, bytes]

    @classmethod
    def of(cls, harness: Harness) -> "CallNames":
        return _names(_ByDigest(harness))


class _ByDigest:
    """A harness hashed by its digest."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness

    def __hash__(self) -> int:
        return hash(self.harness.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByDigest) and self.harness.digest == other.harness.digest


@lru_cache(maxsize=512)
def _names(key: _ByDigest) -> CallNames:
    harness = key.harness
    skill_arguments = {}
    for tool in harness.tools_for(Capability.LOAD_SKILL):
        surface = harness.bindings[tool.name].arguments
        skill_arguments[_quoted(tool.name)] = _quoted(next((s for s, c in surface.items() if c == "skill"), "skill"))
    return CallNames(
        tools={_quoted(tool.name): tuple(map(_quoted, tool.argument_names())) for tool in harness.tools},
        skills=tuple(_quoted(skill.name) for skill in harness.skills),
        skill_arguments=skill_arguments,
    )


def _quoted(text: str) -> bytes:
    """As it stands between the quotes of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


Place = Literal["start", "free", "value", "key", "colon", "comma", "string", "scalar"]


@dataclass(frozen=True)
class CallReader:
    """Where a turn stands. `read(byte)` gives the next state; `choices()` what an open string may become.

    `place` is what is expected next; `start` = still inside the marker, `free` = no limits any more. `nesting` are the
    open brackets.
    """

    place: Place = "start"
    text: bytes = b""  # of the marker or of the open string so far
    nesting: bytes = b""
    is_key: bool = False  # the open string is a key
    escaped: bool = False
    keys: tuple[bytes, ...] = ()  # the key that we are under, at each level of objects
    tool: bytes | None = None
    used: frozenset[bytes] = frozenset()  # argument keys already written

    def read(self, byte: int) -> "CallReader":
        match self.place:
            case "free":
                return self
            case "start":
                return self._marker(byte)
            case "string":
                return self._string(byte)
            case "scalar" if byte in _SCALAR:
                return self
        if byte in _SPACE:
            return replace(self, place="comma") if self.place == "scalar" else self
        return self._structure(byte)

    def read_all(self, text: bytes) -> "CallReader":
        state = self
        for byte in text:
            state = state.read(byte)
        return state

    def choices(self, names: CallNames) -> tuple[bytes, ...] | None:
        """The strings that the open string may become; None where the agent is free."""
        if self.place != "string":
            return None
        inside = self.nesting == b"{{" and self.keys[:1] == (b"arguments",)
        if not self.is_key and self.nesting == b"{" and self.keys == (b"name",):
            return tuple(names.tools)
        if self.is_key and inside:
            keys = names.tools.get(self.tool, ()) if self.tool else {k for keys in names.tools.values() for k in keys}
            return tuple(key for key in keys if key not in self.used)
        if not self.is_key and inside and self.tool and names.skill_arguments.get(self.tool) == self.keys[-1]:
            return names.skills
        return None

    def keys_left(self, names: CallNames) -> bool:
        """Whether the called tool has an argument that was not written yet (True while the tool is unknown)."""
        return self.tool is None or any(key not in self.used for key in names.tools.get(self.tool, ()))

    def fits(self, names: CallNames) -> bool:
        """False when an open string can no longer become an allowed one."""
        choices = self.choices(names)
        return choices is None or any(choice.startswith(self.text) for choice in choices)

    def read_within(self, text: bytes, names: CallNames) -> "CallReader | None":
        """The state after `text`, or None when it leaves what the harness allows or is not JSON."""
        state = self
        for position, byte in enumerate(text):
            state = state.read(byte)
            if state.place == "free":  # the call has ended, or was no JSON
                return state if not state.nesting and _END.startswith(text[position + 1 :]) else None
            if not state.fits(names):
                return None
        return state

    def _marker(self, byte: int) -> "CallReader":
        if not self.text and byte in _SPACE:
            return self
        text = self.text + bytes([byte])
        if text == _START:
            return CallReader(place="value")
        return replace(self, text=text) if _START.startswith(text) else CallReader(place="free")

    def _string(self, byte: int) -> "CallReader":
        if self.escaped or byte != 0x22:
            escaped = byte == 0x5C and not self.escaped
            return replace(self, text=self.text + bytes([byte]), escaped=escaped)
        closed = replace(self, text=b"", place="colon" if self.is_key else "comma")
        if self.is_key:
            used = self.used | {self.text} if self.nesting == b"{{" and self.keys[:1] == (b"arguments",) else self.used
            return replace(closed, keys=(*self.keys[:-1], self.text), used=used)
        if self.nesting == b"{" and self.keys == (b"name",):
            return replace(closed, tool=self.text)
        return closed

    def _structure(self, byte: int) -> "CallReader":
        char, place, top = chr(byte), self.place, self.nesting[-1:]
        if char == '"' and place in ("value", "key"):
            return replace(self, place="string", is_key=place == "key", text=b"", escaped=False)
        if char == ":" and place == "colon":
            return replace(self, place="value")
        if char == "{" and place == "value":
            return replace(self, place="key", nesting=self.nesting + b"{", keys=(*self.keys, b""))
        if char == "[" and place == "value":
            return replace(self, place="value", nesting=self.nesting + b"[")
        if place == "value" and byte in _SCALAR:
            return replace(self, place="scalar")
        if char == "," and place in ("comma", "scalar"):
            return replace(self, place="key" if top == b"{" else "value")
        if char == "}" and top == b"{" and place in ("comma", "scalar", "key"):
            return self._close(keys=self.keys[:-1])
        if char == "]" and top == b"[" and place in ("comma", "scalar", "value"):
            return self._close(keys=self.keys)
        return replace(self, place="free")  # not JSON: `nesting` stays as the sign of it

    def _close(self, keys: tuple[bytes, ...]) -> "CallReader":
        nesting = self.nesting[:-1]
        return replace(self, nesting=nesting, keys=keys, place="comma" if nesting else "free")
