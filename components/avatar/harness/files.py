"""Loading and saving a harness folder.

Tolerant of CRLF, strict about everything else: what a merchant's file leaves open is never guessed. Every fault of
every file is collected and raised once, so that a merchant repairs a folder in one go.

Layout: `harness.yaml` (prompt, limits, bindings, hooks, optionally the order of skills), `tools.json`,
`skills/<name>/SKILL.md`.
"""

import json
import math
import re
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, Field, ValidationError

from components.avatar.errors import Fault, InputError, file_fault
from components.avatar.harness.schema import (
    FORMAT_VERSION,
    Binding,
    Family,
    Frozen,
    Harness,
    Hook,
    Limits,
    PromptBlock,
    Skill,
    Tool,
)

T = TypeVar("T", bound=BaseModel)

NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class _HarnessFile(Frozen):
    """harness.yaml. `skills` is the order in which the prompt lists them; without it they are listed by name."""

    format: Literal[1]
    merchant: str = Field(min_length=1)
    language: str = Field(default="en", min_length=1)
    prompt: tuple[PromptBlock, ...]
    limits: Limits
    bindings: dict[str, Binding] = Field(default_factory=dict)
    hooks: tuple[Hook, ...] = ()
    skills: tuple[str, ...] | None = None


class _FrontMatter(Frozen):
    name: str = Field(min_length=1)
    description: str
    kind: Literal["reply", "strategy"] = "reply"
    handles: tuple[Family, ...] = ()


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader without dates: an unquoted date in a merchant's text stays the text that was written."""


_StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load_harness(folder: Path | str) -> Harness:
    """The harness in `folder`.

    Raises InputError with all faults: missing folder or file, not UTF-8, malformed, truncated, another format version,
    wrong types, unknown or duplicate keys. Whether the content makes sense (unbound tools, dead references) is
    `lint`'s question.
    """
    folder = Path(folder)
    faults: list[Fault] = []
    if not folder.is_dir():
        raise InputError(
            [
                file_fault(
                    folder,
                    "no such folder",
                    "a folder with harness.yaml, tools.json and skills/",
                )
            ]
        )
    head = _load_head(folder / "harness.yaml", faults)
    tools = _load_tools(folder / "tools.json", faults)
    skills = _load_skills(folder / "skills", faults)
    if head is not None and head.skills is not None:
        skills = _ordered(skills, head.skills, folder / "harness.yaml", faults)
    if faults or head is None:
        raise InputError(faults)
    return Harness(
        format=head.format,
        merchant=head.merchant,
        language=head.language,
        prompt=head.prompt,
        limits=head.limits,
        tools=tuple(tools),
        bindings=head.bindings,
        skills=tuple(skills),
        hooks=head.hooks,
    )


def save_harness(harness: Harness, folder: Path | str) -> None:
    """Writes `harness` so that `load_harness` gives an equal one; skill folders of an earlier state are removed.

    Raises ValueError when two skills share a name (a folder holds one of them only).
    """
    folder = Path(folder)
    names = [skill.name for skill in harness.skills]
    if len(set(names)) != len(names):
        raise ValueError(f"two skills share a name: {names}")
    skills = folder / "skills"
    skills.mkdir(parents=True, exist_ok=True)
    for stale in skills.glob("*/SKILL.md"):
        stale.unlink()
        if not any(stale.parent.iterdir()):
            stale.parent.rmdir()
    dump = harness.model_dump(mode="json", exclude={"tools", "skills"})
    if names != sorted(names):
        dump["skills"] = names
    (folder / "harness.yaml").write_text(_yaml(dump), encoding="utf-8", newline="\n")
    tools = json.dumps([tool.as_openai() for tool in harness.tools], indent=2, ensure_ascii=False)
    (folder / "tools.json").write_text(tools + "\n", encoding="utf-8", newline="\n")
    for number, skill in enumerate(harness.skills):
        front = skill.model_dump(mode="json", exclude={"body"})
        path = skills / _folder_name(skill.name, number) / "SKILL.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"---\n{_yaml(front)}---\n{skill.body.strip()}\n",
            encoding="utf-8",
            newline="\n",
        )


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
        faults.append(
            file_fault(
                path,
                f"byte 0x{raw[error.start]:02x} in line {line} is not UTF-8",
                "UTF-8 text",
            )
        )
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
                found.append(
                    Fault(
                        str(path),
                        where,
                        f"key {key!r} twice in one object",
                        "each key once",
                    )
                )
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


def _load_head(path: Path, faults: list[Fault]) -> _HarnessFile | None:
    before = len(faults)
    text = read_text(path, faults)
    value = None if text is None else parse_yaml(text, path, faults)
    if value is None:
        if len(faults) == before:
            faults.append(
                file_fault(
                    path,
                    "no content",
                    "a mapping with format, merchant, prompt, limits",
                )
            )
        return None
    if not isinstance(value, dict):
        faults.append(file_fault(path, _kind(value), "a mapping with format, merchant, prompt, limits"))
        return None
    version = value.get("format")
    if "format" in value and (isinstance(version, bool) or version != FORMAT_VERSION):
        # The other fields of another version mean something else: reporting them would mislead.
        faults.append(Fault(str(path), "format", repr(version), str(FORMAT_VERSION)))
        return None
    return validate(_HarnessFile, value, path, faults)


def _load_tools(path: Path, faults: list[Fault]) -> list[Tool]:
    text = read_text(path, faults)
    if text is None:
        return []
    before = len(faults)
    value = parse_json(text, path, faults)
    if len(faults) > before:
        return []
    if not isinstance(value, list):
        faults.append(file_fault(path, _kind(value), "a list of OpenAI function tools"))
        return []
    tools = []
    for number, entry in enumerate(value):
        function = entry.get("function") if isinstance(entry, dict) and entry.get("type") == "function" else None
        if not isinstance(function, dict) or set(entry) != {"type", "function"}:
            shown = _short(entry)
            faults.append(
                Fault(
                    str(path),
                    str(number),
                    shown,
                    '{"type": "function", "function": {...}}',
                )
            )
            continue
        tool = validate(
            Tool,
            {"parameters": NO_PARAMETERS} | function,
            path,
            faults,
            f"{number}.function",
        )
        if tool is not None and not _parameter_faults(tool, path, number, faults):
            tools.append(tool)
    return tools


def _parameter_faults(tool: Tool, path: Path, number: int, faults: list[Fault]) -> bool:
    field, before = f"{number}.function.parameters", len(faults)
    properties = tool.parameters.get("properties", {})
    if tool.parameters.get("type") != "object":
        faults.append(
            Fault(
                str(path),
                f"{field}.type",
                repr(tool.parameters.get("type")),
                "'object'",
            )
        )
    if not isinstance(properties, dict):
        faults.append(
            Fault(
                str(path),
                f"{field}.properties",
                _kind(properties),
                "an object of JSON schemas",
            )
        )
        properties = {}
    for name, schema in properties.items():
        if not isinstance(schema, dict):
            faults.append(
                Fault(
                    str(path),
                    f"{field}.properties.{name}",
                    _short(schema),
                    "a JSON schema",
                )
            )
    required = tool.parameters.get("required", [])
    if not isinstance(required, list) or any(not isinstance(name, str) for name in required):
        faults.append(
            Fault(
                str(path),
                f"{field}.required",
                _short(required),
                "a list of parameter names",
            )
        )
    else:
        for name in required:
            if name not in properties:
                allowed = f"one of {sorted(properties)}"
                faults.append(Fault(str(path), f"{field}.required", repr(name), allowed))
    return len(faults) > before


def _load_skills(folder: Path, faults: list[Fault]) -> list[Skill]:
    if not folder.is_dir():
        if folder.exists():
            faults.append(file_fault(folder, "a file", "a folder of <name>/SKILL.md"))
        return []  # a harness without skills is legal; whether it can reply is lint's question
    skills, seen = [], {}
    for path in sorted(folder.iterdir()):
        if not path.is_dir() or path.name.startswith("."):
            continue
        skill = _load_skill(path / "SKILL.md", faults)
        if skill is None:
            continue
        if skill.name in seen:
            faults.append(
                Fault(
                    str(path / "SKILL.md"),
                    "name",
                    repr(skill.name),
                    f"a name not used in {seen[skill.name]}",
                )
            )
        seen.setdefault(skill.name, path / "SKILL.md")
        skills.append(skill)
    return sorted(skills, key=lambda skill: skill.name)


def _load_skill(path: Path, faults: list[Fault]) -> Skill | None:
    text = read_text(path, faults)
    if text is None:
        return None
    parts = re.match(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n(.*))?\Z", text, flags=re.DOTALL)
    if parts is None:
        found = "front matter that never ends" if text.startswith("---") else f"{_short(text.splitlines()[0])}"
        faults.append(
            Fault(
                str(path),
                "front matter",
                found,
                "name and description between two lines of ---",
            )
        )
        return None
    before = len(faults)
    value = parse_yaml(parts[1], path, faults)
    if len(faults) > before:
        return None
    if not isinstance(value, dict):
        faults.append(
            Fault(
                str(path),
                "front matter",
                _kind(value),
                "a mapping with name and description",
            )
        )
        return None
    front = validate(_FrontMatter, value, path, faults, "front matter")
    return None if front is None else Skill(**front.model_dump(), body=(parts[2] or "").strip())


def _ordered(skills: list[Skill], order: tuple[str, ...], path: Path, faults: list[Fault]) -> list[Skill]:
    by_name = {skill.name: skill for skill in skills}
    for name in sorted({name for name in order if order.count(name) > 1}):
        faults.append(Fault(str(path), "skills", f"{name!r} twice", "each skill once"))
    for name in order:
        if name not in by_name:
            faults.append(Fault(str(path), "skills", repr(name), f"one of {sorted(by_name)}"))
    for name in sorted(set(by_name) - set(order)):
        faults.append(
            Fault(
                str(path),
                "skills",
                f"skill {name!r} is not listed",
                "every skill of the folder, or no `skills` key",
            )
        )
    return [by_name[name] for name in order if name in by_name]


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
                faults.append(
                    Fault(
                        str(path),
                        where,
                        f"key {name!r} twice in one mapping",
                        "each key once",
                    )
                )
            keys.add(name)
            faults.extend(_node_faults(value, path, seen))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            faults.extend(_node_faults(value, path, seen))
    return faults


def _bad_leaves(value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [bad for key, item in value.items() for bad in (*_bad_leaves(key), *_bad_leaves(item))]
    if isinstance(value, list):
        return [bad for item in value for bad in _bad_leaves(item)]
    if isinstance(value, float) and not math.isfinite(value):
        return [(repr(value), "a finite number")]
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        return [(f"a lone surrogate in {ascii(value)[:60]}", "whole characters")]
    return []


def _json_problem(error: Exception, text: str) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "nesting too deep"
    cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    return f"{error.msg} in line {error.lineno}, column {error.colno}" + (" (the text seems cut off)" if cut else "")


def _yaml_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return problem if mark is None else f"{problem} in line {mark.line + 1}, column {mark.column + 1}"


def _found(item: Any) -> str:
    return "nothing" if item["type"] == "missing" else _short(item["input"])


def _allowed(item: Any) -> str:
    message = {
        "missing": "a value (the field is required)",
        "extra_forbidden": "no such field",
    }.get(item["type"], item["msg"])
    return message.removeprefix("Input should be ")


def _kind(value: Any) -> str:
    kinds = {
        dict: "a mapping",
        list: "a list",
        str: "a text",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return "nothing" if value is None else kinds.get(type(value), type(value).__name__)


def _short(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)


def _folder_name(name: str, number: int) -> str:
    """The skill's own name where it can be a folder's name on every system."""
    return name if re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", name) else f"skill-{number + 1:02d}"
