"""Training and test scenarios share neither questions nor products, and are what was asked for."""

import dataclasses
from collections import Counter

import pytest

from components.avatar.harness.schema import Family
from components.avatar.simulator.families import LINK_FAMILIES, needs_of
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.sampling import Pool, part, sample_scenarios


def test_splits_are_disjoint(merchant: Merchant) -> None:
    questions, products = {}, {}
    for split in ("train", "test"):
        drawn = sample_scenarios(merchant, 400, 1, split)
        questions[split] = {q.id for s in drawn for q in s.questions}
        products[split] = {q.link_id for s in drawn for q in s.questions if q.family in LINK_FAMILIES}
        products[split] |= {s.on_air for s in drawn}
    assert not questions["train"] & questions["test"]
    assert not products["train"] & products["test"]
    assert questions["test"] and products["test"]


def test_a_split_does_not_depend_on_order_or_company() -> None:
    rows = [f"row-{n}" for n in range(40)]
    test = set(part(rows, "test", str))
    assert test == set(part(rows[::-1], "test", str)) and test.isdisjoint(part(rows, "train", str))
    grown = set(part([*rows, "new"], "test", str))
    assert len(test ^ grown) <= 2


def test_same_seed_same_scenarios(merchant: Merchant) -> None:
    assert sample_scenarios(merchant, 50, 3, "train") == sample_scenarios(merchant, 50, 3, "train")
    assert sample_scenarios(merchant, 50, 3, "train") != sample_scenarios(merchant, 50, 4, "train")


def test_families_in_equal_shares(merchant: Merchant) -> None:
    drawn = sample_scenarios(merchant, 360, 1, "train")
    counts = Counter(q.family for s in drawn for q in s.questions)
    assert set(counts) == set(Pool(merchant, "train").families())
    assert max(counts.values()) - min(counts.values()) <= 1


def test_texts_name_the_link_and_city_that_are_asked_for(merchant: Merchant) -> None:
    seen = set()
    for chosen in sample_scenarios(merchant, 500, 1, "train"):
        for question in chosen.questions:
            if question.link_id is not None:
                assert str(question.link_id) in question.text.replace("-", " ").split()
            if "city" in question.slots:
                assert question.slots["city"] in question.text
            seen.add((question.id, question.link_id, question.slots.get("city")))
    assert len(seen) > len(merchant.questions)


def test_fault_rate_and_outages(merchant: Merchant) -> None:
    drawn = sample_scenarios(merchant, 600, 1, "train", fault_rate=0.5)
    plain = [s for s in drawn if s.questions[0].family not in (Family.OUTAGE, Family.CHIT_CHAT)]
    share = sum(bool(s.faults) for s in plain) / len(plain)
    assert 0.4 < share < 0.6
    for chosen in drawn:
        question = chosen.questions[0]
        needed = {call.capability for need in needs_of(question, merchant.harness) for call in need.calls[:1]}
        assert {fault.capability for fault in chosen.faults} <= needed
        if question.family == Family.OUTAGE:
            assert chosen.faults and "asks" in question.slots
    assert not any(s.faults for s in sample_scenarios(merchant, 100, 1, "train", families=[Family.PRICE]))


def test_an_empty_family_is_refused(merchant: Merchant) -> None:
    fewer = tuple(q for q in merchant.questions if q.family != Family.ORDER_STATUS)
    with pytest.raises(ValueError, match="order_status"):
        sample_scenarios(dataclasses.replace(merchant, questions=fewer), 1, 1, "train", families=[Family.ORDER_STATUS])
