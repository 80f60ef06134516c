"""Changes are typed and marked; equal harnesses have none and unequal ones have some."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from components.avatar.harness.augment import augment
from components.avatar.harness.diff import diff
from components.avatar.harness.edits import rename_arguments, rename_skills, rename_tools, withdraw_tool
from components.avatar.harness.operators import OPERATORS
from components.avatar.harness.schema import Harness, Limits
from components.avatar.harness.words import word_bank


def kinds(old: Harness, new: Harness) -> list[tuple[str, str]]:
    return [(change.kind, change.effect) for change in diff(old, new)]


def test_renames_are_seen_as_renames(harness: Harness) -> None:
    assert kinds(harness, rename_tools(harness, {"stockCount": "left"})) == [("tool_renamed", "surface")]
    assert ("skill_renamed", "surface") in kinds(harness, rename_skills(harness, {"talk": "chat"}))
    assert kinds(harness, rename_arguments(harness, {"delivery": {"city": "town"}})) == [
        ("argument_renamed", "surface")
    ]


def test_what_changes_behaviour_says_so(harness: Harness) -> None:
    limits = Limits(reply_words=40, tool_calls=4, turns=6)
    assert kinds(harness, harness.model_copy(update={"limits": limits})) == [("limit_changed", "behaviour")]
    assert kinds(harness, withdraw_tool(harness, "now")) == [("tool_removed", "behaviour")]
    fewer = harness.model_copy(update={"hooks": harness.hooks[1:]})
    assert kinds(harness, fewer) == [("hook_removed", "behaviour")]
    assert kinds(fewer, harness) == [("hook_added", "behaviour")]


def test_reordering_is_surface(harness: Harness) -> None:
    for module in ("prompt", "tools", "skills", "hooks"):
        changed = harness.model_copy(update={module: tuple(reversed(getattr(harness, module)))})
        assert [change.effect for change in diff(harness, changed)] == ["surface"]


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), strength=st.floats(0, 1))
def test_no_change_exactly_when_digests_are_equal(harness: Harness, seed: int, strength: float) -> None:
    new = augment(harness, random.Random(seed), bank=word_bank("train"), strength=strength).harness
    assert bool(diff(harness, new)) == (harness.digest != new.digest)
    assert diff(new, new.model_copy()) == []


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_renaming_reordering_and_decoys_show_no_behaviour(harness: Harness, seed: int) -> None:
    names = [name for name, operator in OPERATORS.items() if operator.kind == "surface" and "rule" not in name]
    # A mention of a renamed tool changes a rule's text, and a changed rule counts as behaviour.
    names.remove("rename_tools")
    new = augment(harness, random.Random(seed), bank=word_bank("train"), strength=1, operators=names).harness
    assert {change.effect for change in diff(harness, new)} == {"surface"}
