"""From the text of one agent turn to a call or a reply. Never raises: whatever a model writes is data.

Strict form: the turn is one call, `<tool_call>{"name": "...", "arguments": {...}}</tool_call>`, or plain text. A few
slips whose meaning is beyond doubt are repaired and *counted*: a repair hides overfitting, so strict and repaired
parses are reported apart.

Repaired: text around the call; further calls after the first (one call a turn, the first counts); a missing end
marker; up to three missing closing braces; `arguments` absent, empty, or an object encoded as a string; a bare JSON
call without markers.
Rejected: duplicate keys, NaN and infinities, lone surrogates, arguments that are not an object,
unknown top-level keys, empty text.
"""

import json
import math
import re
from dataclasses import dataclass
from typing import Any

CALL_START = "<tool_call>"
CALL_END = "</tool_call>"
_MAX_MISSING_BRACES = 3
_KEY_SHOWN = 40  # characters of an unknown key that a correction repeats: corrections cost context
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class ParsedCall:
    name: str
    arguments: dict[str, Any]
    repaired: bool = False


@dataclass(frozen=True)
class ParsedReply:
    text: str


@dataclass(frozen=True)
class ParsedMalformed:
    """A turn that tried to call and failed, or said nothing; `reason` is shown to the agent as a correction."""

    reason: str


Parsed = ParsedCall | ParsedReply | ParsedMalformed


def call_text(name: str, arguments: dict[str, Any]) -> str:
    """The one strict form of a call. Raises ValueError for values JSON cannot hold (NaN)."""
    body = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False, allow_nan=False)
    return f"{CALL_START}{body}{CALL_END}"


def parse(text: str) -> Parsed:
    """What the agent did in this turn."""
    stripped = text.strip()
    if not stripped:
        return ParsedMalformed("empty turn")
    before, marker, rest = stripped.partition(CALL_START)
    if not marker:
        bare = _bare_call(stripped)
        if bare is not None:
            return bare
        if CALL_END in stripped:
            return ParsedMalformed("end of a call without its start")
        if _SURROGATE.search(stripped):
            return ParsedMalformed("lone surrogate in the reply")
        return ParsedReply(stripped)
    try:
        value, after, closed = _first_object(rest)
        call, exact = _call(value)
    except _Rejected as rejected:
        return ParsedMalformed(str(rejected))
    return ParsedCall(*call, repaired=not (exact and closed and not before and after == CALL_END))


class _Rejected(Exception):
    """The text is not a call; caught inside this module only."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Rejected("duplicate key in the call")
    return value


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _Rejected("number out of range in the call")
    return number


def _no_constant(name: str) -> Any:
    raise _Rejected(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)


def _decode(text: str) -> tuple[Any, str]:
    """First JSON value of `text` and what follows it. Python's decoder alone lets duplicate keys, NaN and lone
    surrogates pass."""
    try:
        value, end = _DECODER.raw_decode(text)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnicodeEncodeError):
            raise _Rejected("lone surrogate in the call") from error
        raise _Rejected("the call is not valid JSON") from error
    return value, text[end:].strip()


def _first_object(rest: str) -> tuple[Any, str, bool]:
    """(value, text after it, whether it was closed as written)."""
    rest = rest.strip()
    try:
        return *_decode(rest), True
    except _Rejected:
        body = rest.removesuffix(CALL_END).rstrip()
        for missing in range(1, _MAX_MISSING_BRACES + 1):
            try:
                return *_decode(body + "}" * missing), False
            except _Rejected:
                continue
        raise


def _call(value: Any) -> tuple[tuple[str, dict[str, Any]], bool]:
    """((name, arguments), whether it had the exact form)."""
    if not isinstance(value, dict):
        raise _Rejected("a call is a JSON object with name and arguments")
    unknown = set(value) - {"name", "arguments"}
    if unknown:
        raise _Rejected(f"unknown key {min(unknown)[:_KEY_SHOWN]!r} in the call")
    name, arguments = value.get("name"), value.get("arguments")
    if not isinstance(name, str) or not name:
        raise _Rejected("the call has no name")
    if isinstance(arguments, dict):
        return (name, arguments), True
    if arguments is None or arguments == "":
        return (name, {}), False
    if isinstance(arguments, str):
        decoded, after = _decode(arguments.strip())
        if isinstance(decoded, dict) and after in ("", '""'):  # some engines append an empty string to empty arguments
            return (name, decoded), False
    raise _Rejected("arguments must be an object")


def _bare_call(text: str) -> ParsedCall | None:
    """A call whose markers are missing altogether; None when the text is something else."""
    if not text.startswith("{"):
        return None
    try:
        value, after = _decode(text)
        if after or not isinstance(value, dict) or set(value) != {"name", "arguments"}:
            return None
        call, _ = _call(value)
    except _Rejected:
        return None
    return ParsedCall(*call, repaired=True)
