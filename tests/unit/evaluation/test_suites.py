"""T1 and T2 are the same cases; T2's surfaces are new; T3 disturbs what it says."""

import random
from pathlib import Path

import pytest

from components.avatar.agent.surfaces import Surfaces, surfaces_of
from components.avatar.errors import InputError
from components.avatar.harness.augment import augment
from components.avatar.harness.names import name_words
from components.avatar.harness.schema import Capability, Harness
from components.avatar.harness.words import word_bank
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.oracle import solve
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import FaultKind
from components.evaluation.settings import Settings
from components.evaluation.suites import Suites, build_suites

SETTINGS = Settings(cases=40, robustness_cases=40)


@pytest.fixture(scope="module")
def merchant() -> Merchant:
    return load_merchant(Path(__file__).parents[3] / "infra/harnesses/lumi-beauty")


@pytest.fixture(scope="module")
def seen(merchant: Merchant) -> Surfaces:
    rng = random.Random(0)
    trained = [augment(merchant.harness, rng, bank=word_bank("train"), strength=1.0).harness for _ in range(150)]
    return surfaces_of([merchant.harness, *trained])


@pytest.fixture(scope="module")
def suites(merchant: Merchant, seen: Surfaces) -> Suites:
    return build_suites(merchant, SETTINGS, 5, seen)


def test_t1_and_t2_are_the_same_scenarios(suites: Suites, merchant: Merchant) -> None:
    assert [start.scenario for start in suites.t1] == [start.scenario for start in suites.t2]
    assert all(start.harness == merchant.harness for start in suites.t1)
    assert len({start.harness.digest for start in suites.t2}) == len(suites.t2)


def test_no_surface_of_t2_was_seen_in_training(suites: Suites, seen: Surfaces) -> None:
    held = surfaces_of(start.harness for start in suites.t2)
    assert not set(held.names) & set(seen.names)
    assert not set(held.descriptions) & set(seen.descriptions)
    assert not {word for name in held.names for word in name_words(name)} & set(seen.words)


def test_meaning_of_t2_is_the_merchants(suites: Suites, merchant: Merchant) -> None:
    def meaning(harness: Harness) -> list[str]:
        bound = [b.capability for b in harness.bindings.values() if b.capability != Capability.DECOY]
        return sorted(bound) + sorted(str(sorted(s.handles)) for s in harness.skills if s.handles)

    assert all(meaning(start.harness) == meaning(merchant.harness) for start in suites.t2)


def test_a_leak_stops_the_evaluation(merchant: Merchant, seen: Surfaces, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.evaluation.suites.held_out", lambda harness, *_: harness)
    with pytest.raises(InputError, match="none of the held-out surfaces"):
        build_suites(merchant, SETTINGS, 5, seen)


def test_test_products_and_questions_are_not_training_ones(suites: Suites, merchant: Merchant) -> None:
    trained = sample_scenarios(merchant, 600, seed=9, split="train")
    links = {q.link_id for s in trained for q in s.questions if q.link_id in merchant.catalogue.by_link}
    tested = {
        q.link_id for start in suites.t1 for q in start.scenario.questions if q.link_id in merchant.catalogue.by_link
    }
    assert tested and not tested & links
    assert not {q.text for s in trained for q in s.questions} & {
        q.text for start in suites.t1 for q in start.scenario.questions
    }


def test_t3_holds_all_four_disturbances(suites: Suites, merchant: Merchant) -> None:
    kinds = {fault.kind for start in suites.t3 for fault in start.scenario.faults}
    assert FaultKind.OUTAGE in kinds and kinds & {FaultKind.TIMEOUT, FaultKind.MALFORMED}
    assert any(len(start.harness.tools) < len(merchant.harness.tools) for start in suites.t3)
    assert any(b.capability == Capability.DECOY for start in suites.t3 for b in start.harness.bindings.values())


@pytest.mark.parametrize("name", ["T1", "T2", "T3"])
def test_the_oracle_solves_every_case(suites: Suites, merchant: Merchant, name: str) -> None:
    for start in suites.by_name()[name]:
        score = solve(start.harness, merchant.catalogue, start.scenario).score()
        assert (score.accuracy, score.effectiveness) == (1, 1), start.scenario
