"""Thinning keeps what the questions need and a choice, in order; nothing else depends on it."""

import random

import pytest

from components.avatar.harness.schema import Capability, Family, Harness
from components.avatar.harness.thin import LEAST_SKILLS, LEAST_TOOLS, thinned


@pytest.mark.parametrize("seed", range(8))
def test_what_is_needed_stays_and_little_else(harness: Harness, seed: int) -> None:
    thin = thinned(harness, {Capability.PRICE_LOOKUP}, {Family.PRICE}, 0.0, random.Random(seed))
    assert thin.tools_for(Capability.PRICE_LOOKUP) == harness.tools_for(Capability.PRICE_LOOKUP)
    assert thin.tools_for(Capability.LOAD_SKILL) == harness.tools_for(Capability.LOAD_SKILL)
    assert thin.reply_skill_for(Family.PRICE) == harness.reply_skill_for(Family.PRICE)
    assert len(thin.tools) == LEAST_TOOLS and len(thin.skills) == LEAST_SKILLS
    assert set(thin.bindings) == {tool.name for tool in thin.tools}
    assert [tool for tool in harness.tools if tool in thin.tools] == list(thin.tools), "order stays"
    assert thin.digest != harness.digest


def test_a_whole_share_changes_nothing(harness: Harness) -> None:
    whole = thinned(harness, set(), set(), 1.0, random.Random(0))
    assert whole == harness and whole.digest == harness.digest


def test_what_is_kept_beside_varies(harness: Harness) -> None:
    seen = {thinned(harness, set(), {Family.PRICE}, 0.3, random.Random(seed)).digest for seed in range(20)}
    assert len(seen) > 5
