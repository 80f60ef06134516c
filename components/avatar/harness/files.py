"""Loading and saving a harness folder.

Tolerant of CRLF, strict about everything else: what a merchant's file leaves open is never guessed. Every fault of
every file is collected and raised once, so that a merchant repairs a folder in one go.

Layout: `harness.yaml` (prompt, limits, bindings, hooks, optionally the order of skills), `tools.json`,
`skills/<name>/SKILL.md`.
"""

import json
import re
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field

from components.avatar.errors import Fault, InputError, file_fault
from components.avatar.harness.schema import (
    FORMAT_VERSION,
    Binding,
    Family,
    Frozen,
    Harness,
    Hook,
    Language,
    Limits,
    PromptBlock,
    Skill,
    Tool,
)
from components.avatar.harness.strict import kind_of, parse_json, parse_yaml, read_text, shorten, validate

NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


class _HarnessFile(Frozen):
    """harness.yaml. `skills` is the order in which the prompt lists them; without it they are listed by name."""

    format: Literal[1]
    merchant: str = Field(min_length=1)
    language: Language = "en"
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


def load_harness(folder: Path | str) -> Harness:
    """The harness in `folder`.

    Raises InputError with all faults: missing folder or file, not UTF-8, malformed, truncated, another format version,
    wrong types, unknown or duplicate keys. Whether the content makes sense (unbound tools, dead references) is
    `lint`'s question.
    """
    folder = Path(folder)
    faults: list[Fault] = []
    if not folder.is_dir():
        raise InputError([file_fault(folder, "no such folder", "a folder with harness.yaml, tools.json and skills/")])
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
    for skill, name in zip(harness.skills, _folder_names(names), strict=True):
        front = skill.model_dump(mode="json", exclude={"body"})
        path = skills / name / "SKILL.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"---\n{_yaml(front)}---\n{skill.body.strip()}\n", encoding="utf-8", newline="\n")


def fixture_file(tool: str) -> str | None:
    """Where the fixtures of a tool bound to `recorded` stand in its harness folder; None when the tool's name cannot be
    a file's name on every system.
    """
    usable = len(tool.encode()) <= 200 and tool[:1] != "." and tool.isprintable() and not set(tool) & set('/\\:*?"<>|')
    return f"recorded/{tool}.jsonl" if usable else None


def _load_head(path: Path, faults: list[Fault]) -> _HarnessFile | None:
    before = len(faults)
    text = read_text(path, faults)
    value = None if text is None else parse_yaml(text, path, faults)
    if value is None:
        if len(faults) == before:
            faults.append(file_fault(path, "no content", "a mapping with format, merchant, prompt, limits"))
        return None
    if not isinstance(value, dict):
        faults.append(file_fault(path, kind_of(value), "a mapping with format, merchant, prompt, limits"))
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
        faults.append(file_fault(path, kind_of(value), "a list of OpenAI function tools"))
        return []
    tools = []
    for number, entry in enumerate(value):
        function = entry.get("function") if isinstance(entry, dict) and entry.get("type") == "function" else None
        if not isinstance(function, dict) or set(entry) != {"type", "function"}:
            shown = shorten(entry)
            faults.append(Fault(str(path), str(number), shown, '{"type": "function", "function": {...}}'))
            continue
        tool = validate(Tool, {"parameters": NO_PARAMETERS} | function, path, faults, f"{number}.function")
        if tool is not None and not parameter_faults(tool, path, f"{number}.function.parameters", faults):
            tools.append(tool)
    return tools


def parameter_faults(tool: Tool, path: Path, field: str, faults: list[Fault]) -> bool:
    """Whether `tool.parameters` (which stands at `field`) is no object schema; its faults are added to `faults`."""
    before = len(faults)
    properties = tool.parameters.get("properties", {})
    if tool.parameters.get("type") != "object":
        faults.append(Fault(str(path), f"{field}.type", repr(tool.parameters.get("type")), "'object'"))
    if not isinstance(properties, dict):
        faults.append(Fault(str(path), f"{field}.properties", kind_of(properties), "an object of JSON schemas"))
        properties = {}
    for name, schema in properties.items():
        if not isinstance(schema, dict):
            faults.append(Fault(str(path), f"{field}.properties.{name}", shorten(schema), "a JSON schema"))
    required = tool.parameters.get("required", [])
    if not isinstance(required, list) or any(not isinstance(name, str) for name in required):
        faults.append(Fault(str(path), f"{field}.required", shorten(required), "a list of parameter names"))
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
                Fault(str(path / "SKILL.md"), "name", repr(skill.name), f"a name not used in {seen[skill.name]}")
            )
        seen.setdefault(skill.name, path / "SKILL.md")
        skills.append(skill)
    return sorted(skills, key=lambda skill: skill.name)


def _load_skill(path: Path, faults: list[Fault]) -> Skill | None:
    parts = read_skill(path, faults)
    return None if parts is None else skill_of(*parts, path, faults)


def read_skill(path: Path, faults: list[Fault]) -> tuple[dict[str, Any], str] | None:
    """Front matter and body of a SKILL.md, or None and its faults."""
    text = read_text(path, faults)
    if text is None:
        return None
    parts = re.match(r"---[ \t]*\n(.*?\n)---[ \t]*(?:\n(.*))?\Z", text, flags=re.DOTALL)
    if parts is None:
        found = "front matter that never ends" if text.startswith("---") else f"{shorten(text.splitlines()[0])}"
        faults.append(Fault(str(path), "front matter", found, "name and description between two lines of ---"))
        return None
    before = len(faults)
    value = parse_yaml(parts[1], path, faults)
    if len(faults) > before:
        return None
    if not isinstance(value, dict):
        faults.append(Fault(str(path), "front matter", kind_of(value), "a mapping with name and description"))
        return None
    return value, (parts[2] or "").strip()


def skill_of(front: dict[str, Any], body: str, path: Path, faults: list[Fault]) -> Skill | None:
    """The skill of a SKILL.md's front matter and body, or None and one fault a wrong field."""
    checked = validate(_FrontMatter, front, path, faults, "front matter")
    return None if checked is None else Skill(**checked.model_dump(), body=body)


def _ordered(skills: list[Skill], order: tuple[str, ...], path: Path, faults: list[Fault]) -> list[Skill]:
    by_name = {skill.name: skill for skill in skills}
    for name in sorted({name for name in order if order.count(name) > 1}):
        faults.append(Fault(str(path), "skills", f"{name!r} twice", "each skill once"))
    for name in order:
        if name not in by_name:
            faults.append(Fault(str(path), "skills", repr(name), f"one of {sorted(by_name)}"))
    for name in sorted(set(by_name) - set(order)):
        faults.append(
            Fault(str(path), "skills", f"skill {name!r} is not listed", "every skill of the folder, or no `skills` key")
        )
    return [by_name[name] for name in order if name in by_name]


class _Dumper(yaml.SafeDumper):
    """SafeDumper that quotes and escapes what does not print: PyYAML writes U+0085 and the like as line breaks, which
    do not come back as they were.
    """

    def represent_text(self, text: str) -> yaml.ScalarNode:
        odd = any(not sign.isprintable() and sign != "\n" for sign in text)
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if odd else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _folder_names(names: list[str]) -> list[str]:
    """One folder a skill: its own name where that can be a folder's name on every system, and is not taken."""
    folders: list[str] = []
    for number, name in enumerate(names):
        folder = name if re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", name) else f"skill-{number + 1:02d}"
        while folder.lower() in {taken.lower() for taken in folders}:
            folder += "_"
        folders.append(folder)
    return folders
