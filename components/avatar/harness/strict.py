"""Strict reading of a user's files: text, JSON, YAML and their shape, with every fault collected instead of raised.

Python's own parsers let too much pass: duplicate keys (the last one wins), NaN, lone surrogates, and YAML aliases.
"""

import json
import math
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from components.avatar.errors import Fault, file_fault

T = TypeVar("T", bound=BaseModel)

MAX_DEPTH = 64  # levels of nesting; more would exhaust the stack of whatever walks the value later


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader without dates: an unquoted date in a merchant's text stays the text that was written."""


_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_text(path: Path, faults: list[Fault]) -> str | None:
    """The text of a UTF-8 file with LF line ends, or None and a fault."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        faults.append(file_fault(path, "no such file", "an existing file"))
        return None
    except OSError as error:
        faults.append(file_fault(path, f"unreadable ({error.strerror})", "a readable file"))
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        faults.append(file_fault(path, f"byte 0x{raw[error.start]:02x} in line {line} is not UTF-8", "UTF-8 text"))
        return None
    if text.startswith("\ufeff"):
        faults.append(file_fault(path, "a byte order mark", "UTF-8 without a byte order mark"))
        return None
    if not text.strip():
        faults.append(file_fault(path, "an empty file", "content"))
        return None
    return text.replace("\r\n", "\n")


def parse_json(text: str, path: Path, faults: list[Fault], line: int | None = None) -> Any | None:
    """Strict JSON: duplicate keys, NaN, infinities and lone surrogates are faults. `line` is that of a JSONL file.
    None on a fault.
    """
    where = "file" if line is None else f"line {line}"
    found: list[Fault] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in items:
            if key in seen:
                found.append(Fault(str(path), where, f"key {key!r} twice in one object", "each key once"))
            seen[key] = value
        return seen

    def constant(name: str) -> None:
        found.append(Fault(str(path), where, name, "a finite number"))

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except (json.JSONDecodeError, RecursionError) as error:
        found.append(Fault(str(path), where, _json_problem(error, text), "well-formed JSON"))
        value = None
    found.extend(Fault(str(path), where, problem, allowed) for problem, allowed in _bad_leaves(value))
    faults.extend(found)
    return None if found else value


def parse_yaml(text: str, path: Path, faults: list[Fault]) -> Any | None:
    """Strict YAML: duplicate keys and aliases are faults, dates stay text. None on a fault."""
    found: list[Fault] = []
    value: Any = None
    try:
        node = yaml.compose(text, Loader=_StrictLoader)
        found.extend(_node_faults(node, path, set()))
        if not found:
            value = yaml.load(text, Loader=_StrictLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        found.append(Fault(str(path), "file", _yaml_problem(error), "well-formed YAML"))
    found.extend(Fault(str(path), "file", problem, allowed) for problem, allowed in _bad_leaves(value))
    faults.extend(found)
    return None if found else value


def validate(model: type[T], value: Any, path: Path, faults: list[Fault], field: str = "") -> T | None:
    """`value` as `model`, without conversions ("30" is no integer), or None and one fault a wrong field."""
    try:
        # Through JSON because pydantic's strict mode takes a list for a tuple and a string for an enum only there.
        return model.model_validate_json(json.dumps(value, default=str), strict=True)
    except ValidationError as error:
        for item in error.errors():
            name = ".".join([*([field] if field else []), *(str(part) for part in item["loc"])]) or "file"
            faults.append(Fault(str(path), name, _found(item), _allowed(item)))
        return None


def _node_faults(node: yaml.Node | None, path: Path, seen: set[int]) -> list[Fault]:
    if node is None:
        return []
    line = node.start_mark.line + 1
    if id(node) in seen and not isinstance(node, yaml.ScalarNode):
        return [Fault(str(path), f"line {line}", "a YAML alias", "the content written out")]
    seen.add(id(node))
    faults: list[Fault] = []
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if name in keys:
                where = f"line {key.start_mark.line + 1}"
                faults.append(Fault(str(path), where, f"key {name!r} twice in one mapping", "each key once"))
            keys.add(name)
            faults.extend(_node_faults(value, path, seen))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            faults.extend(_node_faults(value, path, seen))
    return faults


def _bad_leaves(value: Any) -> list[tuple[str, str]]:
    """What no file of ours may hold, in the order of the text; walked without recursion, a hostile file may be deep."""
    bad: list[tuple[str, str]] = []
    left = [(value, 1)]
    while left:
        item, depth = left.pop()
        if depth > MAX_DEPTH:
            return [*bad, (f"more than {MAX_DEPTH} levels of nesting", f"at most {MAX_DEPTH}")]
        if isinstance(item, dict):
            left.extend((part, depth + 1) for pair in reversed(item.items()) for part in reversed(pair))
        elif isinstance(item, list):
            left.extend((part, depth + 1) for part in reversed(item))
        elif isinstance(item, float) and not math.isfinite(item):
            bad.append((repr(item), "a finite number"))
        elif isinstance(item, str) and any("\ud800" <= character <= "\udfff" for character in item):
            bad.append((f"a lone surrogate in {ascii(item)[:60]}", "whole characters"))
    return bad


def _json_problem(error: Exception, text: str) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "nesting too deep"
    cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    return f"{error.msg} in line {error.lineno}, column {error.colno}" + (" (the text seems cut off)" if cut else "")


def _yaml_problem(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nesting too deep"
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return problem if mark is None else f"{problem} in line {mark.line + 1}, column {mark.column + 1}"


def _found(item: Any) -> str:
    return "nothing" if item["type"] == "missing" else shorten(item["input"])


def _allowed(item: Any) -> str:
    known = {"missing": "a value (the field is required)", "extra_forbidden": "no such field"}
    return known.get(item["type"]) or str(item["msg"]).removeprefix("Input should be ")


def kind_of(value: Any) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
    return "nothing" if value is None else kinds.get(type(value), type(value).__name__)


def shorten(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def plain(text: str) -> str:
    """`text` for a terminal or a comment: what does not print (controls, direction overrides) is escaped."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
