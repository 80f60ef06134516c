"""Lint of tool definitions and of what they are bound to."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from components.avatar.harness.files import fixture_file
from components.avatar.harness.findings import Finding, error, warning
from components.avatar.harness.names import MAX_NAME, clean_name
from components.avatar.harness.schema import CAPABILITY_ARGUMENTS, Binding, Capability, Harness, Tool

TOOLS, HARNESS = "tools.json", "harness.yaml"


def tool_findings(harness: Harness) -> Iterator[Finding]:
    if not harness.tools:
        yield warning("no-tools", TOOLS, "file", "an empty list", "at least one tool: no fact can be looked up")
    yield from name_findings((tool.name for tool in harness.tools), TOOLS, "name")
    known = {tool.name for tool in harness.tools}
    for name in harness.bindings:
        if name not in known:
            yield error("dangling-binding", HARNESS, f"bindings.{name}", "no such tool", f"one of {sorted(known)}")
    described: dict[str, str] = {}
    for tool in harness.tools:
        if not tool.description.strip():
            yield error("empty-description", TOOLS, f"{tool.name}.description", "nothing", "what the tool does")
        elif tool.description in described:
            found = f"the description of {described[tool.description]}"
            yield warning("same-description", TOOLS, f"{tool.name}.description", found, "a description of its own")
        described.setdefault(tool.description, tool.name)
        yield from name_findings(tool.argument_names(), TOOLS, f"{tool.name}.parameters")
        binding = harness.bindings.get(tool.name)
        if binding is None:
            allowed = f"a capability: {', '.join(Capability)}"
            yield error("unbound-tool", HARNESS, f"bindings.{tool.name}", "nothing", allowed)
        elif binding.capability == Capability.RECORDED:
            yield from _recorded_findings(tool, binding)
        elif binding.capability != Capability.DECOY:
            yield from _binding_findings(tool, binding)
        for name, schema in tool.parameters.get("properties", {}).items():
            if _refers(schema):
                found = f"{{'$ref': {_refers(schema)!r}}}, of which the prompt shows no more"
                yield warning("schema-reference", TOOLS, f"{tool.name}.parameters.{name}", found, "the schema itself")


def name_findings(names: Iterable[str], file: str, field: str) -> Iterator[Finding]:
    """Faults of names that share one space: empty, too long, odd signs, two that become one when cleaned."""
    cleaned: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        cleaned[clean_name(name)].append(name)
        if not name.strip():
            yield error("empty-name", file, field, repr(name), "a name")
        elif len(name) > MAX_NAME:
            yield error("long-name", file, field, f"{len(name)} characters in {name[:30]!r}...", f"at most {MAX_NAME}")
        elif re.fullmatch(r"[A-Za-z0-9_.-]+", name) is None:
            yield warning("odd-name", file, field, repr(name), "letters, digits, _ - . (servers replace other signs)")
    for clean, same in cleaned.items():
        if len(same) > 1:
            yield error("name-collision", file, field, f"{same} all become {clean!r}", "names that differ when cleaned")


def _binding_findings(tool: Tool, binding: Binding) -> Iterator[Finding]:
    canonical = CAPABILITY_ARGUMENTS[binding.capability]
    field = f"bindings.{tool.name}.arguments"
    properties = tool.parameters.get("properties", {})
    for name, meaning in binding.arguments.items():
        if name not in properties:
            yield error(
                "unknown-argument", HARNESS, f"{field}.{name}", "no such parameter", f"one of {list(properties)}"
            )
        if meaning not in canonical:
            yield error("unknown-meaning", HARNESS, f"{field}.{name}", repr(meaning), f"one of {list(canonical)}")
        elif name in properties and not _may_be(properties[name].get("type"), canonical[meaning][0]):
            found = f"type {properties[name].get('type')!r}"
            yield warning("argument-type", TOOLS, f"{tool.name}.parameters.{name}", found, repr(canonical[meaning][0]))
    bound = list(binding.arguments.values())
    for meaning, (_, required) in canonical.items():
        if bound.count(meaning) > 1:
            yield error("argument-bound-twice", HARNESS, field, f"two parameters mean {meaning}", "one")
        if required and meaning not in bound:
            yield error("argument-missing", HARNESS, field, "nothing", f"a parameter that means {meaning}")
    for name in properties:
        if name in binding.arguments:
            continue
        if name in tool.required():
            yield error("argument-unbound", HARNESS, f"{field}.{name}", "nothing", f"one of {list(canonical)}")
        else:
            yield warning("argument-unbound", HARNESS, f"{field}.{name}", "nothing", "a meaning, or no such parameter")


def _recorded_findings(tool: Tool, binding: Binding) -> Iterator[Finding]:
    """Fixtures are found by the tool's name and by arguments, named as the binding maps them."""
    field, names = f"bindings.{tool.name}.arguments", tool.argument_names()
    if fixture_file(tool.name) is None:
        yield error("fixture-name", HARNESS, f"bindings.{tool.name}", repr(tool.name), "a name that a file can have")
    for name in binding.arguments:
        if name not in names:
            yield error("unknown-argument", HARNESS, f"{field}.{name}", "no such parameter", f"one of {list(names)}")
    for name in names:
        if name not in binding.arguments:
            yield warning("argument-unbound", HARNESS, f"{field}.{name}", "nothing", "its name in the fixtures")


def _may_be(given: object, kind: str) -> bool:
    """Whether a schema's `type` (a name, a list of names, or none) allows `kind`."""
    return given is None or given == kind or (isinstance(given, list) and kind in given)


def _refers(schema: object) -> str | None:
    """The first reference to another schema in `schema`."""
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        return schema["$ref"]
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return next((found for part in parts if (found := _refers(part)) is not None), None)
