"""References within a tool's schema are written out on import: the same values pass, circles end in a fault."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from components.avatar.errors import Fault, InputError
from components.avatar.harness.files import load_harness
from components.avatar.harness.importing import import_harness
from components.avatar.harness.references import MAX_LEVELS, MAX_VALUES, inlined
from components.avatar.harness.tool_lists import mcp_list

CITY = {"type": "string", "minLength": 2}


def written(schema: dict[str, Any]) -> dict[str, Any]:
    faults: list[Fault] = []
    result = inlined(schema, Path("t.json"), "parameters", faults)
    assert not faults, faults
    return result


def fault_of(schema: dict[str, Any]) -> str:
    faults: list[Fault] = []
    assert inlined(schema, Path("t.json"), "parameters", faults) is schema
    (fault,) = faults
    return str(fault)


def parameters(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (parameters({"to": {"$ref": "#/$defs/City"}}, **{"$defs": {"City": CITY}}), parameters({"to": CITY})),
        (
            parameters({"to": {"$ref": "#/definitions/City"}}, definitions={"City": CITY}),
            parameters({"to": CITY}),
        ),
        (  # a definition that refers to another one
            parameters(
                {"stops": {"$ref": "#/$defs/Stops"}},
                **{"$defs": {"Stops": {"type": "array", "items": {"$ref": "#/$defs/City"}}, "City": CITY}},
            ),
            parameters({"stops": {"type": "array", "items": CITY}}),
        ),
        (  # to a sibling, by a pointer with escaped signs
            parameters({"a/b": CITY, "same": {"$ref": "#/properties/a~1b"}, "too": {"$ref": "#/properties/a%7E1b"}}),
            parameters({"a/b": CITY, "same": CITY, "too": CITY}),
        ),
        (  # words beside a reference are nearer than the definition's own
            parameters(
                {"to": {"$ref": "#/$defs/City", "description": "Where to"}},
                **{"$defs": {"City": CITY | {"description": "A city"}}},
            ),
            parameters({"to": CITY | {"description": "Where to"}}),
        ),
        (  # what contradicts the definition narrows it
            parameters({"to": {"$ref": "#/$defs/City", "minLength": 5}}, **{"$defs": {"City": CITY}}),
            parameters({"to": {"minLength": 5, "allOf": [CITY]}}),
        ),
        (  # the whole list of arguments
            {"$ref": "#/$defs/Args", "type": "object", "$defs": {"Args": parameters({"to": CITY}, required=["to"])}},
            parameters({"to": CITY}, required=["to"]),
        ),
        (  # before 2019 what stands beside a reference does not count, besides words about it
            parameters(
                {"to": {"$ref": "#/definitions/City", "minLength": 5, "description": "Where"}},
                definitions={"City": CITY},
                **{"$schema": "http://json-schema.org/draft-07/schema#"},
            ),
            parameters(
                {"to": CITY | {"description": "Where"}}, **{"$schema": "http://json-schema.org/draft-07/schema#"}
            ),
        ),
        (parameters({"x": {"$ref": "#/$defs/Any"}}, **{"$defs": {"Any": True}}), parameters({"x": {}})),
        (parameters({"x": {"$ref": "#/$defs/No"}}, **{"$defs": {"No": False}}), parameters({"x": {"not": {}}})),
    ],
)
def test_what_a_reference_leads_to_stands_in_its_place(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert written(schema) == expected
    assert written(written(schema)) == expected


@pytest.mark.parametrize(
    "schema",
    [
        parameters({"$ref": {"type": "string"}}),  # a parameter of that name
        parameters({"x": {"enum": [{"$ref": "#/$defs/gone"}], "default": {"$ref": "#"}}}),  # a value
        parameters({"x": {"$ref": "https://example.com/city.json"}}, **{"$defs": {"City": CITY}}),
        parameters({"x": {"$ref": "#city"}}, **{"$defs": {"City": CITY | {"$anchor": "city"}}}),
        parameters({"x": {"$id": "https://example.com/x", "$ref": "#/$defs/own", "$defs": {"own": CITY}}}),
    ],
)
def test_what_is_no_reference_into_the_schema_stays(schema: dict[str, Any]) -> None:
    assert written(schema) is schema


@pytest.mark.parametrize(
    ("properties", "defs", "said"),
    [
        ({"x": {"$ref": "#"}}, {}, "found a schema that contains itself: # -> #;"),
        (
            {"x": {"$ref": "#/$defs/A"}},
            {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"anyOf": [{"$ref": "#/$defs/A"}]}},
            "found a schema that contains itself: #/$defs/A -> #/$defs/B -> #/$defs/A;",
        ),
        ({"x": {"properties": {"y": {"$ref": "#/properties/x"}}}}, {}, "contains itself: #/properties/x -> #/prop"),
        (
            {"x": {"$ref": "#/$defs/gone"}},
            {},
            "found the reference '#/$defs/gone', which leads nowhere; allowed: a sch",
        ),
        ({"x": {"$ref": "#/type"}}, {}, "found the reference '#/type' to a text; allowed: a schema of this tool"),
        (
            {"x": {"$ref": "#/$defs/d0"}},
            {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(20)} | {"d20": {}},
            f"more than {MAX_VALUES} values or {MAX_LEVELS} levels once its references are written out",
        ),
        (
            {"x": {"$ref": "#/$defs/d0"}},
            {f"d{n}": {"items": {"$ref": f"#/$defs/d{n + 1}"}} for n in range(90)} | {"d90": {}},
            f"more than {MAX_VALUES} values or {MAX_LEVELS} levels once its references are written out",
        ),
    ],
)
def test_one_fault_where_references_do_not_end(properties: dict, defs: dict, said: str) -> None:
    assert said in fault_of(parameters(properties, **{"$defs": defs}))


NAMES = ("a", "b", "c")
LEAF = st.sampled_from(
    [{}, {"type": "integer"}, {"type": "string"}, {"enum": [1, "x", None]}, {"minimum": 2}, {"required": ["p"]}]
)


def schemas(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas that refer to definitions of `names`."""
    pieces = LEAF
    if names:
        reference = st.sampled_from([{"$ref": f"#/$defs/{name}"} for name in names])
        pieces = pieces | reference | st.builds(lambda ref, beside: {**beside, **ref}, reference, LEAF)
    return st.recursive(
        pieces,
        lambda inner: (
            st.builds(lambda part: {"items": part}, inner)
            | st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner)
            | st.builds(lambda part, more: {"properties": {"p": part}, **more}, inner, st.sampled_from(pieces_beside))
        ),
        max_leaves=3,
    )


pieces_beside: list[dict[str, Any]] = [{}, {"additionalProperties": False}, {"$ref": "#/$defs/c"}]
VALUES = st.recursive(
    st.sampled_from([None, 1, 3, "x", "y"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["p", "q"]), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(
    top=schemas(NAMES),
    a=schemas(NAMES[1:]),
    b=schemas(NAMES[2:]),
    c=LEAF,
    values=st.lists(VALUES, min_size=1, max_size=4),
)
def test_the_same_values_pass(top: dict, a: dict, b: dict, c: dict, values: list[Any]) -> None:
    schema = parameters({"x": top}, **{"$defs": {"a": a, "b": b, "c": c}})
    plain = written(schema)
    assert '"$ref"' not in json.dumps(plain["properties"])
    before, after = Draft202012Validator(schema), Draft202012Validator(plain)
    for value in values:
        assert before.is_valid({"x": value}) == after.is_valid({"x": value})


def test_an_import_survives_the_round_trip(tmp_path: Path) -> None:
    schema = parameters({"to": {"$ref": "#/$defs/City", "description": "Where"}}, **{"$defs": {"City": CITY}})
    first = tmp_path / "tools.json"
    first.write_text(json.dumps({"tools": [{"name": "ship", "description": "Days.", "inputSchema": schema}]}))
    imported = import_harness([first], "acme", tmp_path / "one")
    assert any("'ship': references within its schema are written out" in note for note in imported.notes)
    again = tmp_path / "again.json"
    again.write_text(json.dumps(mcp_list(load_harness(tmp_path / "one"))))
    assert import_harness([again], "acme", tmp_path / "two").harness == imported.harness
    assert imported.harness.tools[0].parameters == parameters({"to": CITY | {"description": "Where"}})


def test_a_circle_stops_the_import_and_names_the_tool(tmp_path: Path) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = parameters({"head": {"$ref": "#/$defs/Node"}}, **{"$defs": {"Node": node}})
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": [{"name": "walk", "description": "Walk.", "inputSchema": schema}]}))
    with pytest.raises(InputError) as caught:
        import_harness([path], "acme", tmp_path / "out")
    assert [str(fault) for fault in caught.value.faults] == [
        f"{path}: tools.0.inputSchema: found a schema that contains itself: #/$defs/Node -> #/$defs/Node; "
        "allowed: references that come to an end"
    ]
    assert not (tmp_path / "out").exists()
