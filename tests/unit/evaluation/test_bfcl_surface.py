"""A perturbed surface changes every name and loses nothing; calls come back to what they mean."""

import json
import random
from typing import Any

import pytest

from components.avatar.agent.parser import ParsedCall, call_text
from components.avatar.harness.banks import banks
from components.avatar.harness.names import clean_name, name_words
from components.avatar.harness.schema import Capability
from components.avatar.harness.words import split_of, word_bank
from components.evaluation.bfcl.checker import Verdict
from components.evaluation.bfcl.data import CATEGORIES, Answer, Case, read_cases
from components.evaluation.bfcl.judge import judge
from components.evaluation.bfcl.surface import (
    ARGUMENT_FRAMES,
    FRAMES,
    VERBS,
    Surface,
    clean_surface,
    json_schema,
    perturbed_surface,
)
from tests.unit.evaluation.bfcl_fixture import write_wheel

VARIANTS = range(20)
HELD_OUT_WORDS = frozenset(word_bank("heldout").words)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    wheel = write_wheel(tmp_path_factory.mktemp("wheel"))
    return [case for category in CATEGORIES for case in read_cases(wheel, category)]


def gold_call(case: Case, surface: Surface) -> str:
    """The gold call, with the first possible value of every parameter that has one, in the surface's names."""
    assert case.answer is not None
    tool = {old: new for new, old in surface.tools.items()}[case.answer.tool]
    new = {old: name for name, old in surface.harness.bindings[tool].arguments.items()}
    given = {name: [o for o in options if o != ""] for name, options in case.answer.arguments.items()}
    return call_text(tool, {new[name]: plain(options[0]) for name, options in given.items() if options})


def plain(option: Any) -> Any:
    return {key: values[0] for key, values in option.items()} if isinstance(option, dict) else option


def test_types_become_json_schema(cases: list[Case]) -> None:
    tool = clean_surface(cases[1]).harness.tools[0]
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "dish": {"type": "string", "description": "A dish or a part of its name."},
            "vegan": {"type": "boolean", "description": "Only vegan ones."},
            "near": {"type": "array", "items": {"type": "number"}, "description": "Coordinates of the building."},
            "extra": {"description": "Anything else to pass on."},
        },
        "required": ["dish"],
    }
    nested = json_schema({"type": "dict", "properties": {"a": {"type": "dict", "properties": {}}}, "required": ["a"]})
    assert nested["properties"]["a"] == {"type": "object", "properties": {}, "required": []}


def test_the_gold_call_is_right_under_every_surface(cases: list[Case]) -> None:
    for case in cases[:3]:
        for surface in (clean_surface(case), *(perturbed_surface(case, number, 0) for number in VARIANTS)):
            assert judge(case, surface, gold_call(case, surface)) == Verdict.RIGHT


def test_the_original_names_are_wrong_under_a_perturbed_surface(cases: list[Case]) -> None:
    for case in cases[:3]:
        clean = clean_surface(case)
        for number in VARIANTS:
            surface = perturbed_surface(case, number, 0)
            assert judge(case, surface, gold_call(case, clean)) == Verdict.ABSENT_TOOL
            new_tool = next(new for new, old in surface.tools.items() if old == case.answer.tool)  # pyright: ignore
            stale = ParsedCall(new_tool, dict.fromkeys(case.answer.arguments, 1))  # pyright: ignore
            assert surface.meaning(stale) == Verdict.ABSENT_ARGUMENT


def test_what_changes_and_what_stays(cases: list[Case]) -> None:
    decoys, first_tools, first_arguments = 0, set(), set()
    for case in cases:
        clean = clean_surface(case).harness
        for number in VARIANTS:
            surface = perturbed_surface(case, number, 0)
            decoys += len(surface.harness.tools) - len(clean.tools)
            names = [tool.name for tool in surface.harness.tools]
            assert len({clean_name(name) for name in names}) == len(names)
            assert not set(names) & {tool.name for tool in clean.tools}
            first_tools.add(surface.tools.get(names[0]))
            for new, old in surface.tools.items():
                changed, original = surface.harness.tool(new), clean.tool(old)
                assert changed and original and changed.description != original.description
                back = surface.harness.bindings[new].arguments
                assert {back[name] for name in changed.required()} == set(original.required())
                first_arguments.add(back[changed.argument_names()[0]])
                for name, schema in changed.parameters["properties"].items():
                    before = original.parameters["properties"][back[name]]
                    assert name != back[name] and schema["description"] != before["description"]
                    assert {**schema, "description": ""} == {**before, "description": ""}
    assert 0 < decoys < 3 * len(cases) * len(VARIANTS)
    assert first_tools >= {"room.book", "menu_search", None}  # None: a decoy stands first
    assert first_arguments == {"floor", "people", "start_hour", "equipment", "dish", "vegan", "near", "extra"}


def test_nothing_that_a_name_or_a_description_said_is_lost(cases: list[Case]) -> None:
    for number in VARIANTS:
        surface = perturbed_surface(cases[0], number, 0)
        tool = surface.harness.tools[[t.name in surface.tools for t in surface.harness.tools].index(True)]
        assert "a meeting room for some people." in tool.description
        said = {back: tool.parameters["properties"][name]["description"] for name, back in
                surface.harness.bindings[tool.name].arguments.items()}  # fmt: skip
        assert "floor: On which level the room is." in said["floor"]
        assert "people: Who comes." in said["people"]
        assert "start hour: When it begins, 0 to 24." in said["start_hour"]


def test_new_names_are_held_out_and_are_no_words_of_the_case(cases: list[Case]) -> None:
    for case in cases:
        said = set(json.dumps([case.question, case.functions]).lower().split())
        for number in VARIANTS:
            surface = perturbed_surface(case, number, 0)
            for tool in surface.harness.tools:
                for name in (tool.name, *tool.argument_names()):
                    words = name_words(name)
                    assert not said & set(words)
                    assert all(map(held_out, words))


def held_out(word: str) -> bool:
    """A held-out word, two of them joined, or an opaque string of that half."""
    halves = ((word[:i], word[i:]) for i in range(1, len(word)))
    return split_of(word) == "heldout" or any({first, second} <= HELD_OUT_WORDS for first, second in halves)


def test_decoys_come_from_the_held_out_bank_and_share_no_word_with_the_case() -> None:
    function = {
        "name": "roll",
        "description": "Roll a dice with some sides.",
        "parameters": {"type": "dict", "properties": {}, "required": []},
    }
    case = Case("a", "simple_python", "Roll a dice, then lock the studio door.", (function,), Answer("roll", {}))
    held = banks().decoys.heldout
    seen = set()
    for number in range(200):
        harness = perturbed_surface(case, number, 0).harness
        for tool in harness.tools_for(Capability.DECOY):
            seen |= {decoy.says for decoy in held if decoy.says.split("{item}")[0].strip() in tool.description}
    assert "a taxi for the crew" in seen and len(seen) > 5
    assert not seen & {"a rolled dice", "the studio door locked"}


def test_a_decoy_is_a_wrong_tool(cases: list[Case]) -> None:
    surface = next(
        surface for number in VARIANTS if (surface := perturbed_surface(cases[0], number, 0)).harness.tools_for(
            Capability.DECOY
        )
    )  # fmt: skip
    decoy = surface.harness.tools_for(Capability.DECOY)[0]
    assert judge(cases[0], surface, call_text(decoy.name, {})) == Verdict.WRONG_TOOL


def test_a_surface_depends_on_case_variant_and_seed_alone(cases: list[Case]) -> None:
    random.seed(1)
    digests = [perturbed_surface(case, v, s).harness.digest for case in cases for v in range(3) for s in range(2)]
    random.seed(2)
    again = [perturbed_surface(case, v, s).harness.digest for case in cases for v in range(3) for s in range(2)]
    assert digests == again and len(set(digests)) == len(digests)


def test_wordings_are_none_of_the_training_ones() -> None:
    assert not {frame.replace("{text}", "{rule}") for frame in (*FRAMES, *ARGUMENT_FRAMES)} & set(banks().frames.train)
    assert all(verb != new for verb, options in VERBS.items() for new in options)


@pytest.mark.parametrize(
    ("turn", "verdict"),
    [
        ("I cannot help with that.", Verdict.RIGHT),
        (call_text("menu_search", {"dish": "mona lisa"}), Verdict.CALLED),
        (call_text("something_else", {}), Verdict.CALLED),
        ('<tool_call>{"name": "menu_search", ', Verdict.CALLED),
        ('{"name": "menu_search", "arguments": {}}', Verdict.CALLED),
        ("", Verdict.MALFORMED),
    ],
)
def test_where_no_function_fits_only_a_reply_is_right(cases: list[Case], turn: str, verdict: Verdict) -> None:
    case = next(case for case in cases if case.category == "irrelevance")
    assert judge(case, clean_surface(case), turn) == verdict


SOUP = call_text("menu_search", {"dish": "Vegan Soup"})


@pytest.mark.parametrize(
    ("turn", "verdict"),
    [
        (SOUP, Verdict.RIGHT),
        (f"Sure. {SOUP}", Verdict.RIGHT),
        (SOUP.removesuffix("}</tool_call>"), Verdict.RIGHT),  # repaired by the parser
        (SOUP + SOUP, Verdict.SEVERAL_CALLS),
        ("There is soup.", Verdict.NO_CALL),
        ("<tool_call>soup", Verdict.MALFORMED),
        (
            '<tool_call>{"name": "menu_search", "arguments": {"dish": "soup", "dish": "soup"}}</tool_call>',
            Verdict.MALFORMED,
        ),
        (call_text("menu_search", {"dish": "soup", "size": 1}), Verdict.ABSENT_ARGUMENT),
        (call_text("menu_search", {"dish": "soup", "near": [1.0, 2.0]}), Verdict.WRONG_VALUE),
    ],
)
def test_turns_where_a_call_is_due(cases: list[Case], turn: str, verdict: Verdict) -> None:
    assert judge(cases[1], clean_surface(cases[1]), turn) == verdict
