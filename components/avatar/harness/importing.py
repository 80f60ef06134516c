"""A new harness folder from what a merchant already has: tool lists and folders of skills.

Tools arrive without a meaning. The operator binds them; this lists what is to be bound, with candidates, and binds
nothing by guess. Prompt, limits and hooks are a plain beginning that the operator rewrites.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.avatar.errors import Fault, InputError, file_fault
from components.avatar.harness.files import fixture_file, save_harness
from components.avatar.harness.lint import lint
from components.avatar.harness.names import clean_name
from components.avatar.harness.schema import (
    Binding,
    Capability,
    Harness,
    Hook,
    HookCheck,
    HookPoint,
    Limits,
    PromptBlock,
    Skill,
    Tool,
)
from components.avatar.harness.skill_folders import MARK, read_skill_folders
from components.avatar.harness.strict import plain
from components.avatar.harness.suggest import candidates
from components.avatar.harness.tool_lists import read_tool_lists

UNDECIDED = "CHOOSE"  # stands where the operator has to name a capability or an argument
SKILL_LOADER = Tool(
    name="load_skill",
    description="Open a skill.",
    parameters={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)


@dataclass(frozen=True)
class Imported:
    """The new harness; `notes`: what was added, kept once or not kept."""

    harness: Harness
    notes: tuple[str, ...]

    @property
    def unbound(self) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.harness.tools if tool.name not in self.harness.bindings)

    @property
    def fixtures(self) -> tuple[str, ...]:
        """Files that the operator has to write for tools bound to `recorded`."""
        files = (fixture_file(tool.name) for tool in self.harness.tools_for(Capability.RECORDED))
        return tuple(file for file in files if file is not None)


def import_harness(sources: Sequence[Path], merchant: str, folder: Path, *, recorded: bool = False) -> Imported:
    """Reads `sources` (files of tools, folders of skills), writes the new harness to `folder` and returns it.

    `recorded` binds every tool to `recorded` instead of leaving it unbound. Raises InputError with all faults of all
    sources, or when `folder` exists; nothing is written then.
    """
    faults: list[Fault] = []
    if not merchant.strip():
        faults.append(Fault("--merchant", "name", repr(merchant), "a name"))
    if folder.exists() or folder.is_symlink():
        faults.append(file_fault(folder, "an existing folder or file", "a new folder: nothing is overwritten", "--out"))
    skill_sources = [path for path in sources if path.is_dir() or path.name == MARK]
    lists = read_tool_lists([path for path in sources if path not in skill_sources], faults)
    folders = read_skill_folders(skill_sources, faults)
    if not (faults or lists.tools or folders.skills):
        faults.append(Fault(", ".join(map(str, sources)), "sources", "no tool and no skill", "at least one of them"))
    if faults:
        raise InputError(faults)
    notes = [*lists.notes, *folders.notes]
    for dropped, kind in ((lists.dropped, "tools"), (folders.dropped, "skills")):
        notes += [f"not kept: {plain(key)} of {_some(names, kind)}" for key, names in dropped.items()]
    harness = _harness(merchant, tuple(lists.tools.values()), tuple(folders.skills.values()), recorded, notes)
    imported = Imported(harness, tuple(notes))
    _write(imported, folder)
    return imported


def report(imported: Imported, folder: Path) -> str:
    """For the operator: what was written, what to bind next, what was not kept, what lint says."""
    harness, unbound = imported.harness, imported.unbound
    lines = [f"{folder}: {len(harness.tools)} tools, {len(harness.skills)} skills, digest {harness.digest}"]
    if unbound:
        lines.append(f"\nBind next, {len(unbound)} tools: in harness.yaml, under `bindings`. A candidate is a guess.")
        for tool in unbound:
            guesses = " or ".join(_flow(c.capability.value, c.arguments) for c in candidates(tool))
            lines.append(f"  {_signature(tool)}: {'candidate ' + guesses if guesses else 'no candidate'}")
        lines.append(f"  Capabilities: {', '.join(Capability)}")
        lines.append("  For a tool that none of them imitates: recorded, with its fixtures in recorded/<tool>.jsonl")
    if imported.fixtures:
        lines.append('\nRecord next, one {"arguments": {...}, "result": ...} a line:')
        lines += [f"  {plain(file)}" for file in imported.fixtures]
    idle = [skill.name for skill in harness.skills if skill.kind == "reply" and not skill.handles]
    if idle:
        lines.append("\nSay in their SKILL.md which families these skills handle (handles: [price, stock, ...]):")
        lines.append(f"  {', '.join(map(plain, idle))}")
    lines.append("\nRewrite: prompt, limits and hooks in harness.yaml are a plain beginning.")
    lines.append("Add: catalogue.jsonl and questions.jsonl, see infra/harnesses/README.md.")
    if imported.notes:
        lines += ["\nNotes:", *(f"  {plain(note)}" for note in imported.notes)]
    findings = [finding for finding in lint(harness) if finding.code not in ("unbound-tool", "idle-skill")]
    if findings:
        lines += ["\nLint:", *(f"  {plain(str(finding))}" for finding in findings)]
    return "\n".join(lines)


def _harness(
    merchant: str, tools: tuple[Tool, ...], skills: tuple[Skill, ...], recorded: bool, notes: list[str]
) -> Harness:
    bindings = {}
    for tool in tools if recorded else ():
        if fixture_file(tool.name) is not None:
            identity = {name: name for name in tool.argument_names()}
            bindings[tool.name] = Binding(capability=Capability.RECORDED, arguments=identity)
        else:
            notes.append(f"{tool.name!r} is no file's name, so that it can't have fixtures: left unbound")
    if skills and not any(c.capability == Capability.LOAD_SKILL for tool in tools for c in candidates(tool)):
        if SKILL_LOADER.name in {clean_name(tool.name) for tool in tools}:
            notes.append(f"no tool seems to open a skill, and the name {SKILL_LOADER.name} is taken")
        else:
            tools = (*tools, SKILL_LOADER)
            bindings[SKILL_LOADER.name] = Binding(capability=Capability.LOAD_SKILL, arguments={"name": "skill"})
            notes.append(f"added: the tool {SKILL_LOADER.name}, since no imported tool seems to open a skill")
    rules = ["State only facts that tools returned.", "If a tool fails or is missing, say you can't check it now."]
    hooks = [
        _hook("length", HookCheck.REPLY_LENGTH, "Too long. Say it shorter."),
        _hook("facts", HookCheck.FACT_CHECK, "A fact is not from a tool. Fix it."),
    ]
    if skills:
        rules.insert(0, "Load the matching skill first.")
        hooks.insert(0, _hook("skill-first", HookCheck.SKILL_LOADED, "Load the matching skill first."))
    return Harness(
        merchant=merchant,
        prompt=(
            PromptBlock(id="identity", kind="identity", text=f"You are the host of the {merchant} live stream."),
            PromptBlock(id="rules", kind="rules", items=tuple(rules)),
        ),
        limits=Limits(reply_words=30, tool_calls=4, turns=6),
        tools=tools,
        bindings=bindings,
        skills=tuple(sorted(skills, key=lambda skill: skill.name)),
        hooks=tuple(hooks),
    )


def _hook(name: str, check: HookCheck, message: str) -> Hook:
    return Hook(id=name, point=HookPoint.BEFORE_REPLY, check=check, message=message)


def _write(imported: Imported, folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
        save_harness(imported.harness, folder)
        if imported.unbound:
            with (folder / "harness.yaml").open("a", encoding="utf-8", newline="\n") as file:
                file.write(_to_bind(imported.unbound))
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError([file_fault(folder, f"not writable ({reason})", "a new folder", "--out")]) from error


def _to_bind(tools: Sequence[Tool]) -> str:
    """A comment with one line a tool, ready to be moved under `bindings`."""
    lines = [
        "# Not bound yet. Check or complete each line (a capability that stands there is a guess) and move it under",
        "# `bindings:`, in place of the {} if that is all there is.",
    ]
    for tool in tools:
        guess = next(iter(candidates(tool)), None)
        unknown = dict.fromkeys(tool.argument_names(), UNDECIDED)
        binding = (
            _flow(UNDECIDED, unknown) if guess is None else _flow(guess.capability.value, unknown | guess.arguments)
        )
        lines.append(f"#  {_scalar(tool.name)}: {binding}")
    return "\n".join(lines) + "\n"


def _flow(capability: str, arguments: dict[str, str]) -> str:
    pairs = ", ".join(f"{_scalar(name)}: {_scalar(meaning)}" for name, meaning in arguments.items())
    return f"{{capability: {capability}" + (f", arguments: {{{pairs}}}}}" if pairs else "}")


def _scalar(text: str) -> str:
    """One YAML scalar that no text can break out of."""
    words_of_yaml = ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", text) and text.lower() not in words_of_yaml:
        return text
    return plain(json.dumps(text, ensure_ascii=False))


def _signature(tool: Tool) -> str:
    required = tool.required()
    return f"{plain(tool.name)}({', '.join(plain(n) + ('' if n in required else '?') for n in tool.argument_names())})"


def _some(names: Sequence[Any], kind: str) -> str:
    names = list(dict.fromkeys(names))  # one defined twice in the same words has dropped its fields twice
    shown = ", ".join(plain(name) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more {kind}"
