"""Calls against gold answers, by hand: what BFCL's rules allow and what they do not."""

from typing import Any

import pytest

from components.evaluation.bfcl.checker import Verdict, check_call
from components.evaluation.bfcl.data import Answer


def checked(schema: dict[str, Any], options: list[Any], *given: Any, required: bool = True) -> Verdict:
    """The verdict on a call of `f` with `x` = given[0], or without x."""
    parameters = {"type": "dict", "properties": {"x": schema}, "required": ["x"] if required else []}
    functions = [{"name": "f", "description": "", "parameters": parameters}]
    return check_call(functions, Answer("f", {"x": options}), "f", {"x": given[0]} if given else {})


def array(inner: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": inner}}


LISTED = {"type": "array", "items": {"type": "dict", "properties": {"field": {"type": "string"}}}}
CONDITIONS = [[{"field": ["age"], "operation": [">"]}, {"field": ["job", "work"], "operation": ["=", ""]}]]


@pytest.mark.parametrize(
    ("schema", "options", "value"),
    [
        ({"type": "integer"}, [10], 10),
        ({"type": "float"}, [5.0], 5),
        ({"type": "float"}, [5], 5.0),
        ({"type": "boolean"}, [True], True),
        ({"type": "string"}, ["New York, NY"], "new york ny"),
        ({"type": "string"}, ["2023-10-01"], "2023/10/01"),
        ({"type": "string"}, ["x^2 + 3*x"], "X^2+3x"),
        ({"type": "string"}, ["the 'best' one"], 'The "best" one'),
        ({"type": "string"}, ["no", ""], ""),
        (array("string"), [["Ann", "Bo"], ["Bo", "Ann"]], ["bo", "ann"]),
        (array("integer"), [[]], []),
        (array("float"), [[85, 90]], [85, 90]),
        ({"type": "array", "items": array("integer")}, [[[10, 20], [30, 40]]], [[10, 20], [30, 40]]),
        ({"type": "tuple", "items": {"type": "float"}}, [[33.4, -112.0]], [33.4, -112.0]),
        ({"type": "dict"}, [{"min": [300000], "max": [400000]}], {"max": 400000.0, "min": 300000}),
        ({"type": "dict"}, [{"name": ["John Doe"], "email": ["j@x.com", ""]}], {"name": "john doe"}),
        ({"type": "dict"}, [{"hand": [["A of spades"]]}], {"hand": ["a of spades"]}),
        ({"type": "dict"}, [{"in": [{"out": [1, 2]}]}], {"in": {"out": 2}}),
        (LISTED, CONDITIONS, [{"field": "age", "operation": ">"}, {"field": "Work"}]),
        ({"type": "any"}, ["my_data"], "my_data"),
        ({"type": "any"}, [7], 7),
        (array("integer"), ["my_list"], "my_list"),
        (array("string"), [["Apple"], [["Apple"]]], [["Apple"]]),
    ],
)
def test_right(schema: dict[str, Any], options: list[Any], value: Any) -> None:
    assert checked(schema, options, value) == Verdict.RIGHT


@pytest.mark.parametrize(
    ("schema", "options", "value"),
    [
        ({"type": "integer"}, [10], 10.0),
        ({"type": "integer"}, [10], "10"),
        ({"type": "integer"}, [1], True),
        ({"type": "integer"}, [10, ""], ""),
        ({"type": "float"}, [1.0], True),
        ({"type": "float"}, [5.0], "5.0"),
        ({"type": "boolean"}, [True], "true"),
        ({"type": "boolean"}, [True], 1),
        ({"type": "string"}, ["10"], 10),
        ({"type": "string"}, ["a"], ["a"]),
        ({"type": "string"}, ["a", ""], None),
        (array("integer"), [[1, 2]], [1, 2.0]),
        (array("integer"), [[1, 2]], "[1, 2]"),
        (array("float"), [[1.0, 3.0]], [1, 3]),
        (array("string"), [["a"]], "a"),
        ({"type": "array", "items": array("integer")}, [[[1], [2]]], [[1], [2.0]]),
        ({"type": "dict"}, [{"a": [1]}], '{"a": 1}'),
        ({"type": "dict"}, [{"a": [1]}], [{"a": 1}]),
        (LISTED, CONDITIONS, {"field": "age", "operation": ">"}),
    ],
)
def test_wrong_type(schema: dict[str, Any], options: list[Any], value: Any) -> None:
    assert checked(schema, options, value) == Verdict.WRONG_TYPE


@pytest.mark.parametrize(
    ("schema", "options", "value"),
    [
        ({"type": "integer"}, [10], 11),
        ({"type": "float"}, [0.05], 0.050001),
        ({"type": "boolean"}, [True, ""], False),
        ({"type": "string"}, ["New York, NY"], "New York"),
        ({"type": "string"}, ["a"], "a;"),  # not one of the signs that are ignored
        ({"type": "string"}, ["a b"], "a\nb"),
        ({"type": "string"}, ["a"], ""),  # left empty is not left out
        (array("integer"), [[1, 2]], [2, 1]),
        (array("integer"), [[1, 2]], [1, 2, 2]),
        (array("integer"), [[1, 2]], []),
        (array("string"), [["Ann", "Bo"]], ["Ann", "Bob"]),
        ({"type": "dict"}, [{"a": [1]}], {"a": 1, "b": 2}),
        ({"type": "dict"}, [{"a": [1], "b": [2]}], {"a": 1}),
        ({"type": "dict"}, [{"a": [1]}], {"a": True}),
        ({"type": "dict"}, [{"a": [1], "b": [2]}, {"a": [3], "b": [4]}], {"a": 1, "b": 4}),  # of two answers
        ({"type": "dict"}, [{"in": [{"out": [1]}]}], {"in": {"out": 1, "more": 1}}),
        (LISTED, CONDITIONS, [{"field": "job", "operation": "="}, {"field": "age", "operation": ">"}]),
        (LISTED, CONDITIONS, [{"field": "age"}, {"field": "job"}]),
        ({"type": "any"}, ["my_data"], "data"),
    ],
)
def test_wrong_value(schema: dict[str, Any], options: list[Any], value: Any) -> None:
    assert checked(schema, options, value) == Verdict.WRONG_VALUE


def test_an_optional_parameter_may_be_left_out_only_where_the_gold_says_so() -> None:
    assert checked({"type": "integer"}, [5, ""], required=False) == Verdict.RIGHT
    assert checked({"type": "integer"}, [5], required=False) == Verdict.MISSING_ARGUMENT
    assert checked({"type": "integer"}, [5, ""], required=True) == Verdict.MISSING_ARGUMENT


def test_names() -> None:
    parameters = {"type": "dict", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x"]}
    functions = [{"name": name, "description": "", "parameters": parameters} for name in ("f", "g.h")]
    answer = Answer("g.h", {"x": [1]})

    def verdict(tool: str, **arguments: int) -> Verdict:
        return check_call(functions, answer, tool, arguments)

    assert verdict("g.h", x=1) == Verdict.RIGHT
    assert verdict("f", x=1) == Verdict.WRONG_TOOL
    assert verdict("g_h", x=1) == Verdict.ABSENT_TOOL
    assert verdict("g.h", x=1, z=1) == Verdict.ABSENT_ARGUMENT
    assert verdict("g.h", x=1, y=1) == Verdict.WRONG_VALUE  # the function knows y, the gold does not
    assert verdict("g.h", y=1) == Verdict.MISSING_ARGUMENT
