"""Whether a call is one of those that BFCL's gold allows: own code from the leaderboard's published rules.

Rules (release blog of BFCL, "AST evaluation"), here for calls written in JSON:
- the function is the gold's, every required parameter is given, and none that the function or the gold does not know;
- a parameter that is left out must have "" among its possible answers;
- values have the declared type: a float parameter takes an integer, nothing else converts (a list of floats takes
  floats only, 3.0 is no integer, true is no number, a tuple is a list);
- strings are compared without regard to case, spaces, the signs , . / - _ * ^ and the kind of quotes;
- lists are compared in order; a dictionary has no key that the gold's has not, and each of its values is one of those
  listed for its key ("" again: the key may be missing);
- a possible answer that is itself not of the declared type (a variable's name for a list) is right all the same.

Differences to the leaderboard's own program: types are checked at every depth of a list, not at the first alone;
strings in a list inside a dictionary are compared as loosely as all others; a type `any` takes any value.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from components.evaluation.bfcl.data import Answer

OPTIONAL = ""
_IGNORED = re.compile(r"[ ,./\-_*^]")


class Verdict(StrEnum):
    """What became of one turn. Everything but `right` is a failure."""

    RIGHT = "right"
    NO_CALL = "no_call"  # a reply where a call was due
    CALLED = "called"  # a call, or an attempt at one, where no function fits
    MALFORMED = "malformed"
    SEVERAL_CALLS = "several_calls"
    ABSENT_TOOL = "absent_tool"  # a name that is not in the prompt
    WRONG_TOOL = "wrong_tool"
    ABSENT_ARGUMENT = "absent_argument"  # a parameter that the tool does not have
    MISSING_ARGUMENT = "missing_argument"
    WRONG_TYPE = "wrong_type"
    WRONG_VALUE = "wrong_value"


def check_call(functions: Sequence[dict[str, Any]], answer: Answer, tool: str, arguments: dict[str, Any]) -> Verdict:
    """The verdict on a call under BFCL's own names. `functions`: the case's functions in BFCL's form."""
    schemas = {function["name"]: function["parameters"] for function in functions}
    if tool not in schemas:
        return Verdict.ABSENT_TOOL
    if tool != answer.tool:
        return Verdict.WRONG_TOOL
    properties = schemas[tool]["properties"]
    if any(name not in properties for name in arguments):
        return Verdict.ABSENT_ARGUMENT
    if any(name not in arguments for name in schemas[tool].get("required", ())):
        return Verdict.MISSING_ARGUMENT
    if any(name not in arguments and OPTIONAL not in options for name, options in answer.arguments.items()):
        return Verdict.MISSING_ARGUMENT
    for name, value in arguments.items():
        options = answer.arguments.get(name)
        if options is None:  # known to the function, never right to give
            return Verdict.WRONG_VALUE
        if not _has_type(value, properties[name], options):
            return Verdict.WRONG_TYPE
        if not _allowed(value, options):
            return Verdict.WRONG_VALUE
    return Verdict.RIGHT


def _has_type(value: Any, schema: dict[str, Any], options: Sequence[Any]) -> bool:
    """Of the declared type, or one of the possible answers that are of another type."""
    if _fits(value, schema):
        return True
    return any(option != OPTIONAL and not _fits(option, schema) and _equal(value, option) for option in options)


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    match schema.get("type"):
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "array" | "tuple":
            return isinstance(value, list) and all(_fits_in_list(item, schema.get("items", {})) for item in value)
        case "dict":
            return isinstance(value, dict)
    return True


def _fits_in_list(item: Any, schema: dict[str, Any]) -> bool:
    return isinstance(item, float) if schema.get("type") == "float" else _fits(item, schema)


def _allowed(value: Any, options: Sequence[Any]) -> bool:
    return any(_equal(value, option) for option in options)


def _equal(value: Any, option: Any) -> bool:
    if isinstance(value, str) and isinstance(option, str):
        return _normal(value) == _normal(option)
    if isinstance(value, list) and isinstance(option, list):
        return len(value) == len(option) and all(map(_equal, value, option))
    if isinstance(value, dict) and isinstance(option, dict):
        if any(key not in option for key in value):
            return False
        return all(_allowed(value[key], some) if key in value else OPTIONAL in some for key, some in option.items())
    if any(thing is None or isinstance(thing, bool) for thing in (value, option)):
        return value is option
    return isinstance(value, int | float) and isinstance(option, int | float) and value == option


def _normal(text: str) -> str:
    return _IGNORED.sub("", text).lower().replace("'", '"')
