"""Assignment is sticky, balanced, and only ever adds units to an arm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.canary_deploy.assignment import Arm, assign, hash_share, is_held_out

RAMP = (0.01, 0.05, 0.2, 0.5)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_growing_ramp_never_takes_a_unit_out_of_its_arm(unit, salt):
    arms = [assign(unit, salt, step) for step in RAMP]
    inside = [arm for arm in arms if arm is not Arm.OUTSIDE]
    assert len(set(inside)) <= 1
    assert arms == [Arm.OUTSIDE] * (len(arms) - len(inside)) + inside


def test_at_one_half_nobody_is_outside_and_the_arms_are_equal():
    arms = [assign(f"room-{number}", "salt", 0.5) for number in range(20_000)]
    assert Arm.OUTSIDE not in arms
    assert abs(arms.count(Arm.CANARY) - 10_000) < 4 * 71  # 4 binomial standard deviations


@pytest.mark.parametrize("ramp", RAMP)
def test_each_arm_takes_the_share_of_the_ramp(ramp):
    arms = [assign(f"room-{number}", "another", ramp) for number in range(20_000)]
    spread = 4 * (20_000 * ramp * (1 - ramp)) ** 0.5
    assert abs(arms.count(Arm.CANARY) - 20_000 * ramp) < spread
    assert abs(arms.count(Arm.CONTROL) - 20_000 * ramp) < spread


def test_known_answer():
    # sha256("salt:room-1") begins with these 8 bytes; the rule must not change while a rollout runs
    assert hash_share("room-1", "salt") == int("95eb6be5b5191ceb", 16) / 2**64


def test_another_salt_is_another_draw():
    same = sum(assign(f"r{n}", "a", 0.5) is assign(f"r{n}", "b", 0.5) for n in range(4000))
    assert abs(same - 2000) < 4 * 32


@pytest.mark.parametrize("ramp", [-0.1, 0.51, float("nan")])
def test_an_impossible_ramp_is_refused(ramp):
    with pytest.raises(ValueError, match="allowed: 0 to"):
        assign("room", "salt", ramp)


def test_the_holdout_is_one_in_twenty_merchants_and_stays():
    held = {name for name in (f"merchant-{n}" for n in range(10_000)) if is_held_out(name, "holdout")}
    assert abs(len(held) - 500) < 4 * 22
    assert held == {name for name in held if is_held_out(name, "holdout")}
