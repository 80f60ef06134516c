"""A slip changes one word, never what the answer depends on; test questions have none of ours."""

import random
import re
from pathlib import Path

import pytest

from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.oracle import solve
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.typing_slips import mistyped

HARNESSES = Path(__file__).parents[3] / "infra/harnesses"


@pytest.fixture(scope="module")
def shop() -> Merchant:
    return load_merchant(HARNESSES / "lumi-beauty")


@pytest.mark.parametrize("seed", range(200))
def test_one_word_changes_by_one_slip(seed: int) -> None:
    text = "price of link 47 to Chengdu 😍 plz?"
    typed = mistyped(text, random.Random(seed), keep=["Chengdu"])
    changed = [(old, new) for old, new in zip(text.split(" "), typed.split(" "), strict=True) if old != new]
    assert len(changed) <= 1  # none: two equal letters swapped
    for old, new in changed:
        assert old in ("price", "link") and new[0] == old[0] and new[-1].isalpha()
        assert abs(len(new) - len(old)) <= 1 and new.isalpha()


def test_all_four_slips_are_made() -> None:
    made = {mistyped("coupon", random.Random(seed)) for seed in range(300)}
    assert {"cuopon", "copon", "couupon", "ciupon"} <= made


@pytest.mark.parametrize("text", ["", "多少钱", "rn 12?", "❤️❤️", "to Harbin"])
def test_nothing_to_slip_on(text: str) -> None:
    assert mistyped(text, random.Random(1), keep=["Harbin"]) == text


def test_the_oracle_still_solves_and_numbers_stand(shop: Merchant) -> None:
    plain, typed = (sample_scenarios(shop, 300, seed=3, split="train", mistyped_share=share) for share in (0.0, 1.0))
    for before, after in zip(plain, typed, strict=True):
        [asked], [slipped] = before.questions, after.questions
        assert after.model_copy(update={"questions": before.questions}) == before
        assert re.findall(r"\d+", slipped.text) == re.findall(r"\d+", asked.text)
        for kept in (asked.slots.get(name) for name in ("city", "order_id", "variant")):
            assert kept is None or (kept in slipped.text) == (kept in asked.text)
        assert solve(shop.harness, shop.catalogue, after).score().accuracy == 1
    assert sum(a.questions != b.questions for a, b in zip(plain, typed, strict=True)) > 200


def test_a_share_of_the_questions_is_mistyped(shop: Merchant) -> None:
    plain, some = (sample_scenarios(shop, 400, seed=4, split="train", mistyped_share=share) for share in (0.0, 0.25))
    assert 40 < sum(a.questions != b.questions for a, b in zip(plain, some, strict=True)) < 130
