"""From a call's surface (tool name, argument names, loose types) to its meaning (capability, canonical arguments)."""

import json
import re
from typing import Any, NamedTuple

from components.avatar.harness.schema import CAPABILITY_ARGUMENTS, Capability, Harness, Tool

_EXACT = {"integer": int, "number": float, "boolean": bool, "string": str, "array": list, "object": dict}


class Resolved(NamedTuple):
    """`problem` is None for a call that can be executed. `arguments` are canonical."""

    capability: Capability | None
    known: bool  # the name stands in the prompt
    arguments: dict[str, Any]
    problem: str | None = None


def resolve(harness: Harness, name: str, arguments: dict[str, Any]) -> Resolved:
    """Checks a call against the tool's schema and translates it. An integer given as "3" is an integer; nothing else is
    repaired.
    """
    tool = harness.tool(name)
    if tool is None:
        return Resolved(None, False, {}, "unknown_tool")
    binding = harness.bindings.get(name)
    capability = binding.capability if binding is not None else Capability.DECOY  # an unbound tool can do nothing
    schema_problem, values = _checked(tool, arguments)
    if schema_problem is not None:
        return Resolved(capability, True, {}, schema_problem)
    names = binding.arguments if binding is not None else {}
    if capability == Capability.RECORDED:
        return Resolved(capability, True, {names.get(key, key): value for key, value in values.items()})
    canonical = {names[key]: value for key, value in values.items() if key in names}
    for key, (kind, required) in CAPABILITY_ARGUMENTS[capability].items():
        if key not in canonical:
            if required:
                return Resolved(capability, True, {}, f"missing_argument: {key}")
            continue
        problem, canonical[key] = coerce(canonical[key], kind)
        if problem:
            return Resolved(capability, True, {}, f"invalid_argument: {key} must be {kind}")
    if "link_ids" in canonical:
        links = [coerce(link, "integer") for link in canonical["link_ids"]]
        if any(problem for problem, _ in links):
            return Resolved(capability, True, {}, "invalid_argument: link_ids must be integers")
        canonical["link_ids"] = [link for _, link in links]
    return Resolved(capability, True, canonical)


def coerce(value: Any, kind: str) -> tuple[bool, Any]:
    """(whether `value` cannot be read as JSON type `kind`, the value of that type)."""
    if type(value) is _EXACT.get(kind):
        return False, value
    if kind == "integer":
        if isinstance(value, bool):
            return True, value
        if isinstance(value, int):
            return False, value
        if isinstance(value, float) and value.is_integer():
            return False, int(value)
        if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,18}\s*", value):
            return False, int(value)
        return True, value
    if kind == "number":
        return isinstance(value, bool) or not isinstance(value, (int, float)), value
    if kind == "boolean":
        return not isinstance(value, bool), value
    if kind == "string":
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return False, str(value)
        return not isinstance(value, str), value
    if kind in ("array", "object"):
        wanted = list if kind == "array" else dict
        if isinstance(value, str):
            try:
                value = json.loads(value)
                json.dumps(
                    value, ensure_ascii=False, allow_nan=False
                ).encode()  # else it could be neither shown nor kept
            except (ValueError, RecursionError):
                return True, value
        return not isinstance(value, wanted), value
    return False, value


def _checked(tool: Tool, arguments: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    properties = tool.parameters.get("properties", {})
    values: dict[str, Any] = {}
    for key, value in arguments.items():
        schema = properties.get(key)
        if schema is None:
            return f"unknown_argument: {key}", values
        kind = schema.get("type")
        problem, values[key] = coerce(value, kind) if isinstance(kind, str) else (False, value)
        if problem:
            return f"invalid_argument: {key} must be {kind}", values
        if "enum" in schema or isinstance(values[key], (list, dict)):
            outside = _outside_enum(schema, values[key], key)
            if outside is not None:
                return outside, values
    for key in tool.parameters.get("required", ()):
        if key not in arguments:
            return f"missing_argument: {key}", values
    return None, values


def _outside_enum(schema: Any, value: Any, where: str) -> str | None:
    """The first value, at any depth, that its enum does not have."""
    if not isinstance(schema, dict):
        return None
    if "enum" in schema and value not in schema["enum"]:
        return f"invalid_argument: {where} must be one of {schema['enum']}"
    if not isinstance(value, list | dict):
        return None
    inside: list[tuple[Any, Any, str]] = []
    if isinstance(value, list):
        inside = [(schema.get("items"), item, f"{where}[{index}]") for index, item in enumerate(value)]
    elif isinstance(value, dict):
        nested = schema.get("properties", {}).items()
        inside = [(each, value[name], f"{where}.{name}") for name, each in nested if name in value]
    return next((problem for each in inside if (problem := _outside_enum(*each)) is not None), None)
