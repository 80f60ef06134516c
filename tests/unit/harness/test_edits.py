"""Renaming and digests: names follow mentions and nothing else, digests follow content."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from components.avatar.harness.augment import augment
from components.avatar.harness.edits import edit_texts, rename_mentions, rename_tools, texts
from components.avatar.harness.schema import Capability, Harness, Limits
from components.avatar.harness.words import word_bank


def test_a_plain_word_is_a_name_only_in_backticks(harness: Harness) -> None:
    noted = edit_texts(harness, lambda text: text + " Call `now` now, not price_checker.")
    renamed = rename_tools(noted, {"now": "current_link", "price_check": "cost"})
    for text in texts(renamed):
        assert text.endswith("Call `current_link` now, not price_checker.")
    assert "Prices come from `cost`, never" in "\n".join(texts(renamed))


def test_names_can_be_swapped(harness: Harness) -> None:
    swapped = rename_mentions(harness, {"price_check": "coupon.find", "coupon.find": "price_check"})
    assert swapped.skills[0].body.startswith("# Deals\n- Call `price_check`, then `coupon.find`.")


def test_each_module_has_its_own_digest(harness: Harness) -> None:
    assert len(set(harness.digests.values())) == 4
    changed = harness.model_copy(update={"limits": Limits(reply_words=31, tool_calls=4, turns=6)})
    differing = {module for module in harness.digests if harness.digests[module] != changed.digests[module]}
    assert differing == {"prompt"} and changed.digest != harness.digest


@given(words=st.integers(8, 120))
def test_equal_content_equal_digest(harness: Harness, words: int) -> None:
    assert harness.digest  # computed before the copy: a copy must not carry it over
    limits = Limits(reply_words=words, tool_calls=4, turns=6)
    changed = harness.model_copy(update={"limits": limits})
    assert (changed.digest == harness.digest) == (words == harness.limits.reply_words)
    assert Harness.model_validate(changed.model_dump()).digest == changed.digest


def test_a_copy_is_pydantics_without_what_was_computed(harness: Harness) -> None:
    assert harness.digest and harness.tool("now") and harness.reply_hooks
    for part, update in ((harness, {"merchant": "x"}), (harness.tools[0], {"name": "x"}), (harness.prompt[0], {})):
        for deep in (False, True):
            ours, theirs = (
                part.model_copy(update=update, deep=deep),
                BaseModel.model_copy(part, update=update, deep=deep),
            )
            assert ours == theirs and type(ours) is type(theirs)
            assert ours.model_fields_set == theirs.model_fields_set
            assert set(vars(ours)) == set(type(part).model_fields)
            assert ours.model_dump_json() == theirs.model_dump_json()
    deep = harness.model_copy(deep=True)
    assert deep.tools[0] == harness.tools[0] and deep.tools[0] is not harness.tools[0]
    with pytest.raises(ValidationError):
        harness.model_copy().merchant = "x"  # pyright: ignore[reportAttributeAccessIssue] - frozen


def test_of_two_tools_of_one_name_the_first_counts(harness: Harness) -> None:
    first, second = harness.tools[0], harness.tools[0].model_copy(update={"description": "Another."})
    doubled = harness.model_copy(update={"tools": (first, second)})
    assert doubled.tool(first.name) is first
    assert doubled.tools_for(Capability.PRICE_LOOKUP) == (first, second)
    assert doubled.tools_for(Capability.COUPON_LOOKUP) == () and doubled.tool("gone") is None


def test_rewording_leaves_names_alone(harness: Harness) -> None:
    named = rename_tools(harness, {"load_skill": "retrieve", "price_check": "fetch"})
    for seed in range(30):
        new = augment(named, random.Random(seed), bank=word_bank("train"), strength=1, operators=["reword_rule_items"])
        rules = "\n".join(new.harness.prompt[2].items)
        assert "`retrieve`" in rules and "`fetch`" in rules
