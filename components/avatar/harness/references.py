"""Local references of a JSON schema (`{"$ref": "#/$defs/Tier"}`) written out: the prompt shows a parameter's schema and
nothing else, so that what a reference leads to has to stand in its place.

References to other documents and to anchors stay as they are (lint names them): nothing is ever fetched.
"""

from pathlib import Path
from typing import Any
from urllib.parse import unquote

from components.avatar.errors import Fault
from components.avatar.harness.strict import kind_of, shorten

MAX_VALUES = 20_000  # of one schema once it is written out; a few nested definitions can stand for millions
MAX_LEVELS = 48  # so that tools.json, in which a schema stands some levels deep, can be read again (strict.MAX_DEPTH)

_DATA = frozenset({"enum", "const", "default", "examples", "example"})  # values, in which `$ref` is a word like others
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})  # name -> schema
_NOTES = frozenset({"title", "description", "default", "examples", "example", "deprecated", "$comment"})
_WITH_SIBLINGS = frozenset(  # what these say depends on each other
    "properties patternProperties additionalProperties unevaluatedProperties if then else "
    "items prefixItems additionalItems unevaluatedItems contains minContains maxContains".split()
)
_REF_ALONE = ("draft-03", "draft-04", "draft-06", "draft-07")  # what stands beside a `$ref` there does not count


def inlined(schema: dict[str, Any], path: Path, field: str, faults: list[Fault]) -> dict[str, Any]:
    """A well-formed `schema` (which stands at `field`) without references into itself, and without definitions that
    nothing needs any more. The same object where it has none.

    A reference that leads in a circle or nowhere, and a schema that would grow out of bounds, add one fault; `schema`
    is returned as it is then.
    """
    if not _refers(schema):
        return schema
    try:
        writer = _Writer(schema)
        written = writer.schema(schema, (), 1)
    except _Fault as fault:
        faults.append(Fault(str(path), field, *fault.args))
        return schema
    if not writer.followed:
        return schema
    rest = {key: part for key, part in written.items() if key not in ("$defs", "definitions")}
    return written if _refers(rest) else rest  # an anchor may stand in a definition


class _Fault(Exception):
    """(found, allowed) of the fault that ends the work; caught inside this module only."""


class _Writer:
    def __init__(self, root: dict[str, Any]) -> None:
        self.root = root
        self.followed = 0
        self._values = 0
        self._ref_alone = any(draft in str(root.get("$schema")) for draft in _REF_ALONE)

    def schema(self, value: Any, trail: tuple[str, ...], level: int) -> Any:
        """`value`, a schema, written out. `trail`: the references that lead here."""
        self._values += 1
        if self._values > MAX_VALUES or level > MAX_LEVELS:
            found = f"more than {MAX_VALUES} values or {MAX_LEVELS} levels once its references are written out"
            raise _Fault(found, "a smaller schema")
        if isinstance(value, list):
            return [self.schema(part, trail, level + 1) for part in value]
        if not isinstance(value, dict) or ("$id" in value and level > 1):  # with an id it is a document of its own
            return value
        parts = {key: self._keyword(key, part, trail, level) for key, part in value.items()}
        reference = parts.get("$ref")
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return parts
        if reference in trail:
            circle = " -> ".join([*trail[trail.index(reference) :], reference])
            raise _Fault(f"a schema that contains itself: {circle}", "references that come to an end")
        self.followed += 1
        target = self.schema(self._at(reference), (*trail, reference), level)
        del parts["$ref"]
        return self._beside(target, parts)

    def _keyword(self, key: str, part: Any, trail: tuple[str, ...], level: int) -> Any:
        if key in _DATA or (key in ("$defs", "definitions") and level == 1):
            return part  # the definitions are written out where they are referred to
        if key in _NAMED and isinstance(part, dict):
            return {name: self.schema(schema, trail, level + 2) for name, schema in part.items()}
        return self.schema(part, trail, level + 1)

    def _at(self, reference: str) -> Any:
        """The schema that a JSON pointer in a URI fragment (RFC 6901) leads to."""
        found: Any = self.root
        for step in unquote(reference).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                raise _Fault(f"the reference {shorten(reference)}, which leads nowhere", "a schema of this tool")
        if not isinstance(found, dict | bool):
            raise _Fault(f"the reference {shorten(reference)} to {kind_of(found)}", "a schema of this tool")
        return {"not": {}} if found is False else {} if found is True else found

    def _beside(self, target: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
        """What a reference's target and the keywords beside the reference say together. The latter's words about it
        (a description, say) are nearer to the place and win.
        """
        if self._ref_alone:
            beside = {key: part for key, part in beside.items() if key in _NOTES or key in ("$schema", "$id")}
        both = any(key in target and target[key] != part for key, part in beside.items() if key not in _NOTES)
        if both or not (_WITH_SIBLINGS.isdisjoint(target) or _WITH_SIBLINGS.isdisjoint(beside)):
            return beside | {"allOf": [*beside.get("allOf", []), target]}
        return target | beside


def _refers(value: Any) -> bool:
    """Whether any mapping in `value` may be a reference of any kind."""
    if isinstance(value, dict):
        refers = not {"$ref", "$dynamicRef", "$recursiveRef"}.isdisjoint(value)
        return refers or any(_refers(part) for key, part in value.items() if key not in _DATA)
    return isinstance(value, list) and any(map(_refers, value))
