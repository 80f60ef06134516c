"""Typed changes from one harness state to another, each marked surface (what is right stays) or behaviour (it may
change).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from components.avatar.harness.schema import Binding, Capability, Harness, Skill, Tool

Effect = Literal["surface", "behaviour"]


@dataclass(frozen=True)
class Change:
    """`kind` says what happened (tool_renamed, limit_changed, ...), `path` where; `old` or `new` is None where there
    is none.
    """

    module: Literal["prompt", "tools", "skills", "hooks"]
    kind: str
    path: str
    old: Any
    new: Any
    effect: Effect

    def __str__(self) -> str:
        return f"{self.effect:9} {self.module}: {self.kind} {self.path}: {_short(self.old)} -> {_short(self.new)}"


def diff(old: Harness, new: Harness) -> list[Change]:
    """All changes; empty exactly when the four modules are equal.

    A tool that is gone and a new one with the same binding are a rename, likewise a skill with the same kind and
    families. A changed text counts as behaviour: whether a rewording still says the same is not for a program to guess.
    """
    return [*_prompt(old, new), *_tools(old, new), *_skills(old, new), *_hooks(old, new)]


def _prompt(old: Harness, new: Harness) -> Iterator[Change]:
    if old.language != new.language:
        yield Change("prompt", "language_changed", "language", old.language, new.language, "behaviour")
    for limit, value in old.limits.model_dump().items():
        if value != getattr(new.limits, limit):
            yield Change("prompt", "limit_changed", f"limits.{limit}", value, getattr(new.limits, limit), "behaviour")
    before, after = _keyed(old.prompt, "id"), _keyed(new.prompt, "id")
    for key in [key for key in before if key not in after]:
        yield Change("prompt", "block_removed", key, before[key], None, "behaviour")
    for key in [key for key in after if key not in before]:
        yield Change("prompt", "block_added", key, None, after[key], "behaviour")
    for key in [key for key in before if key in after]:
        one, two = before[key], after[key]
        if one.kind != two.kind:
            yield Change("prompt", "block_kind_changed", key, one.kind, two.kind, "behaviour")
        if one.text != two.text:
            yield Change("prompt", "text_changed", key, one.text, two.text, "behaviour")
        yield from _lines("prompt", "rule", key, one.items, two.items)
    yield from _order("prompt", "blocks_reordered", list(before), list(after))


def _tools(old: Harness, new: Harness) -> Iterator[Change]:
    before, after = _keyed(old.tools, "name"), _keyed(new.tools, "name")
    names = {key: key for key in before if key in after}
    gone, come = [key for key in before if key not in after], [key for key in after if key not in before]
    for key in gone:
        twin = next((k for k in come if k not in names.values() and _same_meaning(old, key, new, k)), None)
        if twin is not None:
            names[key] = twin
            yield Change("tools", "tool_renamed", key, key, twin, "surface")
    for key in gone:
        if key not in names:
            yield Change("tools", "tool_removed", key, before[key], None, _effect_of_tool(old.bindings.get(key)))
    for key in come:
        if key not in names.values():
            yield Change("tools", "tool_added", key, None, after[key], _effect_of_tool(new.bindings.get(key)))
    for key, twin in names.items():
        yield from _tool(before[key], old.bindings.get(key), after[twin], new.bindings.get(twin))
    for name in [n for n in (*old.bindings, *new.bindings) if n not in before and n not in after]:
        one, two = old.bindings.get(name), new.bindings.get(name)
        if one != two:
            yield Change("tools", "binding_changed", name, one, two, "behaviour")
    yield from _order("tools", "tools_reordered", [names[k] for k in before if k in names], list(after))


def _tool(one: Tool, bound: Binding | None, two: Tool, rebound: Binding | None) -> Iterator[Change]:
    if one.description != two.description:
        yield Change("tools", "description_changed", one.name, one.description, two.description, "surface")
    meaning, new_meaning = _meanings(bound), _meanings(rebound)
    arguments = {
        name: next((n for n, m in new_meaning.items() if m == meaning.get(name)), name) for name in one.argument_names()
    }
    for name, new_name in arguments.items():
        if name != new_name:
            yield Change("tools", "argument_renamed", f"{one.name}.{name}", name, new_name, "surface")
    translated = {arguments.get(name, name): m for name, m in meaning.items()}
    if (bound and bound.capability) != (rebound and rebound.capability) or translated != new_meaning:
        yield Change("tools", "binding_changed", one.name, bound, rebound, "behaviour")
    if _renamed(one.parameters, arguments) != _renamed(two.parameters, {}):
        # Which skills the loading tool lists follows from the skills, whose own changes are reported apart.
        loads = bound is not None and bound.capability == Capability.LOAD_SKILL
        same = _renamed(_unlisted(one.parameters), arguments) == _renamed(_unlisted(two.parameters), {})
        effect: Effect = "surface" if loads and same else "behaviour"
        yield Change("tools", "parameters_changed", one.name, one.parameters, two.parameters, effect)
    elif [arguments[name] for name in one.argument_names()] != list(two.argument_names()):
        yield Change("tools", "arguments_reordered", one.name, one.argument_names(), two.argument_names(), "surface")


def _skills(old: Harness, new: Harness) -> Iterator[Change]:
    before, after = _keyed(old.skills, "name"), _keyed(new.skills, "name")
    names = {key: key for key in before if key in after}
    gone, come = [key for key in before if key not in after], [key for key in after if key not in before]
    for key in gone:
        twin = next((k for k in come if k not in names.values() and _same_skill(before[key], after[k])), None)
        if twin is not None:
            names[key] = twin
            yield Change("skills", "skill_renamed", key, key, twin, "surface")
    for key in gone:
        if key not in names:
            yield Change("skills", "skill_removed", key, before[key], None, _effect_of_skill(before[key]))
    for key in come:
        if key not in names.values():
            yield Change("skills", "skill_added", key, None, after[key], _effect_of_skill(after[key]))
    for key, twin in names.items():
        one, two = before[key], after[twin]
        if one.description != two.description:
            yield Change("skills", "description_changed", key, one.description, two.description, "surface")
        if one.kind != two.kind:
            yield Change("skills", "skill_kind_changed", key, one.kind, two.kind, "behaviour")
        if one.handles != two.handles:
            effect: Effect = "surface" if set(one.handles) == set(two.handles) else "behaviour"
            yield Change("skills", "handles_changed", key, one.handles, two.handles, effect)
        yield from _lines("skills", "line", key, one.body.split("\n"), two.body.split("\n"))
    yield from _order("skills", "skills_reordered", [names[k] for k in before if k in names], list(after))


def _hooks(old: Harness, new: Harness) -> Iterator[Change]:
    before, after = _keyed(old.hooks, "id"), _keyed(new.hooks, "id")
    for key in [key for key in before if key not in after]:
        yield Change("hooks", "hook_removed", key, before[key], None, "behaviour")
    for key in [key for key in after if key not in before]:
        yield Change("hooks", "hook_added", key, None, after[key], "behaviour")
    for key in [key for key in before if key in after]:
        for field in ("point", "check", "retries", "message", "arguments"):
            one, two = getattr(before[key], field), getattr(after[key], field)
            if one != two:
                effect: Effect = "surface" if field == "message" else "behaviour"
                yield Change("hooks", f"{field}_changed", key, one, two, effect)
    yield from _order("hooks", "hooks_reordered", list(before), list(after))


def _lines(
    module: Literal["prompt", "skills"], noun: str, path: str, old: Sequence[str], new: Sequence[str]
) -> Iterator[Change]:
    added, removed = list(new), []
    for line in old:
        if line in added:
            added.remove(line)
        else:
            removed.append(line)
    for line in removed:
        yield Change(module, f"{noun}_removed", path, line, None, "behaviour")
    for line in added:
        yield Change(module, f"{noun}_added", path, None, line, "behaviour")
    if not added and not removed and list(old) != list(new):
        yield Change(module, f"{noun}s_reordered", path, tuple(old), tuple(new), "surface")


def _order(module: Any, kind: str, old: list[str], new: list[str]) -> Iterator[Change]:
    one, two = [key for key in old if key in new], [key for key in new if key in old]
    if one != two:
        yield Change(module, kind, "order", tuple(one), tuple(two), "surface")


def _keyed(items: Sequence[Any], field: str) -> dict[str, Any]:
    """Items by their key; a key that occurs again gets a number, so that none is lost."""
    keyed: dict[str, Any] = {}
    for item in items:
        key, number = getattr(item, field), 2
        while key in keyed:
            key, number = f"{getattr(item, field)}#{number}", number + 1
        keyed[key] = item
    return keyed


def _same_meaning(old: Harness, name: str, new: Harness, twin: str) -> bool:
    one, two = old.bindings.get(name), new.bindings.get(twin)
    if one is None or two is None or one.capability != two.capability:
        return False
    if one.capability in (Capability.DECOY, Capability.RECORDED):
        return False  # the capability does not tell such tools apart
    return sorted(one.arguments.values()) == sorted(two.arguments.values())


def _same_skill(one: Skill, two: Skill) -> bool:
    if one.kind != two.kind or set(one.handles) != set(two.handles):
        return False
    return bool(one.handles) or one.description == two.description or one.body == two.body


def _effect_of_tool(binding: Binding | None) -> Effect:
    return "surface" if binding is not None and binding.capability == Capability.DECOY else "behaviour"


def _effect_of_skill(skill: Skill) -> Effect:
    return "surface" if skill.kind == "reply" and not skill.handles else "behaviour"


def _meanings(binding: Binding | None) -> dict[str, str]:
    return {} if binding is None else dict(binding.arguments)


def _renamed(parameters: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    properties = {names.get(name, name): schema for name, schema in parameters.get("properties", {}).items()}
    required = sorted(str(names.get(name, name)) for name in parameters.get("required", ()))
    return parameters | {"properties": properties, "required": required}


def _unlisted(parameters: dict[str, Any]) -> dict[str, Any]:
    properties = {
        name: {key: value for key, value in schema.items() if key != "enum"}
        for name, schema in parameters.get("properties", {}).items()
    }
    return parameters | {"properties": properties}


def _short(value: Any, limit: int = 70) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
