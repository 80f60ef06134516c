"""Edits that keep a harness consistent: renaming follows every mention, removing takes the binding along."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeVar

from components.avatar.harness.schema import Binding, Capability, Frozen, Harness, Tool
from components.avatar.harness.script import whole

T = TypeVar("T", bound=Frozen)


def edit_texts(harness: Harness, edit: Callable[[str], str]) -> Harness:
    """`edit` applied to every text that the agent reads, except names and descriptions: prompt, skill bodies, hook
    messages.
    """
    prompt = tuple(
        _with(_with(block, "text", edit(block.text)), "items", tuple(map(edit, block.items)))
        for block in harness.prompt
    )
    skills = tuple(_with(skill, "body", edit(skill.body)) for skill in harness.skills)
    hooks = tuple(_with(hook, "message", edit(hook.message)) for hook in harness.hooks)
    return harness.model_copy(update={"prompt": prompt, "skills": skills, "hooks": hooks})


def rename_tools(harness: Harness, names: Mapping[str, str]) -> Harness:
    """Tools renamed (old name -> new name) in definitions, bindings and every mention."""
    tools = tuple(
        tool.model_copy(update={"name": names[tool.name]}) if tool.name in names else tool for tool in harness.tools
    )
    bindings = {names.get(name, name): binding for name, binding in harness.bindings.items()}
    return rename_mentions(harness.model_copy(update={"tools": tools, "bindings": bindings}), names)


def rename_arguments(harness: Harness, names: Mapping[str, Mapping[str, str]]) -> Harness:
    """Arguments renamed (tool name -> old name -> new name) in schemas and bindings."""
    tools = tuple(_renamed_arguments(tool, names[tool.name]) if tool.name in names else tool for tool in harness.tools)
    bindings = dict(harness.bindings)
    for tool, new in names.items():
        binding = bindings[tool]
        arguments = {new.get(name, name): canonical for name, canonical in binding.arguments.items()}
        bindings[tool] = Binding(capability=binding.capability, arguments=arguments)
    return harness.model_copy(update={"tools": tools, "bindings": bindings})


def rename_skills(harness: Harness, names: Mapping[str, str]) -> Harness:
    """Skills renamed in their front matter, in the enumeration of the tool that loads them and in every mention."""
    skills = tuple(
        skill.model_copy(update={"name": names[skill.name]}) if skill.name in names else skill
        for skill in harness.skills
    )
    harness = harness.model_copy(update={"skills": skills})
    return rename_mentions(edit_skill_enum(harness, lambda old: [names.get(name, name) for name in old]), names)


def edit_skill_enum(harness: Harness, edit: Callable[[list[str]], list[str]]) -> Harness:
    """`edit` applied to the list of allowed skill names, where the loading tool's schema has one."""
    tools = []
    for tool in harness.tools:
        properties = tool.parameters.get("properties", {})
        loads = tool.name in harness.bindings and harness.bindings[tool.name].capability == Capability.LOAD_SKILL
        if loads and any("enum" in schema for schema in properties.values()):
            properties = {
                name: schema | {"enum": edit(schema["enum"])} if "enum" in schema else schema
                for name, schema in properties.items()
            }
            tool = tool.model_copy(update={"parameters": tool.parameters | {"properties": properties}})
        tools.append(tool)
    return harness.model_copy(update={"tools": tuple(tools)})


def withdraw_tool(harness: Harness, name: str) -> Harness:
    """The harness without the tool `name`."""
    tools = tuple(tool for tool in harness.tools if tool.name != name)
    bindings = {other: binding for other, binding in harness.bindings.items() if other != name}
    return harness.model_copy(update={"tools": tools, "bindings": bindings})


def rename_mentions(harness: Harness, names: Mapping[str, str]) -> Harness:
    """Mentions of `names` replaced in all texts.

    A mention is the name in backticks, or bare where it cannot be an ordinary word (`price_check`, `priceCheck`,
    `price.check`).
    """
    everything = "\n".join(texts(harness))
    mentioned = {old: new for old, new in names.items() if old != new and old in everything}
    if not mentioned:
        return harness
    forms = [re.escape(f"`{old}`") for old in mentioned]
    forms += [rf"(?<!`){whole(old, signs=True)}(?!`)" for old in mentioned if not _ordinary(old)]
    pattern = re.compile("|".join(sorted(forms, key=len, reverse=True)))

    def replace(match: re.Match[str]) -> str:
        found = match[0]
        new = mentioned[found.strip("`")]
        return f"`{new}`" if found.startswith("`") or _ordinary(new) else new

    return edit_texts(harness, lambda text: pattern.sub(replace, text))


def texts(harness: Harness) -> list[str]:
    """Every text that the agent reads besides names and descriptions."""
    found = [text for block in harness.prompt for text in (block.text, *block.items)]
    found += [skill.body for skill in harness.skills]
    return found + [hook.message for hook in harness.hooks]


@lru_cache(maxsize=4096)
def word_pattern(text: str) -> re.Pattern[str]:
    """Matches `text` where it stands as whole words (an emoji, a sign or a Chinese character needs no boundary)."""
    return re.compile(whole(text))


def _with(part: T, field: str, value: object) -> T:
    """`part` with another value of `field`; itself where that is no other."""
    return part if getattr(part, field) == value else part.model_copy(update={field: value})


def _ordinary(name: str) -> bool:
    """Whether `name` could be a word of the text rather than a name."""
    return name.isalpha() and name.islower()


def _renamed_arguments(tool: Tool, names: Mapping[str, str]) -> Tool:
    properties = {names.get(name, name): schema for name, schema in tool.parameters.get("properties", {}).items()}
    parameters = tool.parameters | {"properties": properties}
    if "required" in parameters:
        parameters["required"] = [names.get(name, name) for name in parameters["required"]]
    return tool.model_copy(update={"parameters": parameters})
