"""The merchants of infra/harnesses are sound: lint finds nothing, every question can be drawn, and the oracle solves
every family that a viewer can ask."""

import random
from pathlib import Path

import pytest

from components.avatar.harness.augment import augment
from components.avatar.harness.lint import lint
from components.avatar.harness.schema import Family
from components.avatar.harness.words import word_bank
from components.avatar.simulator.families import FACT_FAMILIES
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.oracle import solve
from components.avatar.simulator.sampling import Pool, Split, sample_scenarios
from components.avatar.simulator.session import Session
from components.avatar.simulator.stream import changes_until
from components.avatar.simulator.types import StopReason

HARNESSES = Path(__file__).parents[3] / "infra/harnesses"
NAMES = ("lumi-beauty", "peak-sport", "ohm-house", "yunwu-tea")
SPLITS: tuple[Split, ...] = ("train", "test")
ASKED = [family for family in Family if family != Family.OUTAGE]  # an outage is made of any other family's question


@pytest.fixture(scope="module", params=NAMES)
def shipped(request: pytest.FixtureRequest) -> Merchant:
    return load_merchant(HARNESSES / request.param)


def assert_solved(session: Session) -> None:
    assert session.stop == StopReason.DONE
    for reply, score in zip(session.replies, session.scores, strict=True):
        found = (score.accuracy, score.effectiveness, score.tool_rationality, score.skill_selection)
        assert found == (1, 1, 1, 1), (session.scenario.questions, session.scenario.faults, reply)
        assert not reply.broken_rules and not reply.fabricated and reply.persona_kept


def test_lint_has_no_findings(shipped: Merchant) -> None:
    assert lint(shipped.harness) == []


def test_every_family_is_handled_by_one_reply_skill(shipped: Merchant) -> None:
    handled = sorted(family for skill in shipped.harness.skills if skill.kind == "reply" for family in skill.handles)
    assert handled == sorted(Family)


@pytest.mark.parametrize("split", SPLITS)
def test_both_splits_have_questions_of_every_family(shipped: Merchant, split: Split) -> None:
    pool = Pool(shipped, split)
    assert pool.drawable() == list(Family)
    answered = {family for family in FACT_FAMILIES if family in pool.families()}
    assert Family.PRICE in answered and Family.OUTAGE in pool.families()


@pytest.mark.parametrize("split", SPLITS)
def test_the_oracle_solves_every_family(shipped: Merchant, split: Split) -> None:
    """Also the families without a tool, where the right answer is that it can't be checked."""
    for family in Family:
        for chosen in sample_scenarios(shipped, 25, 7, split, [family], fault_rate=0.3):
            assert_solved(solve(shipped.harness, shipped.catalogue, chosen))


def test_the_oracle_solves_every_family_through_the_evening(shipped: Merchant) -> None:
    """Prices, stock and flash sales as the events leave them; edits of the harness arrive during the episode."""
    edits = [event.model_copy(update={"at_s": 1.0}) for event in shipped.events if event.at_s <= 700]
    for at in (0.0, 300.0, 900.0):
        events = (*changes_until(shipped.events, at), *(edits if at else ()))
        for chosen in sample_scenarios(shipped, 60, 8, "train", ASKED, questions_per_episode=3, events=events):
            assert_solved(solve(shipped.harness, shipped.catalogue, chosen))


def test_only_a_beauty_shop_speaks_of_skin(shipped: Merchant) -> None:
    texts = [
        solve(shipped.harness, shipped.catalogue, chosen).replies[0].text
        for chosen in sample_scenarios(shipped, 40, 3, "train", [Family.FORBIDDEN_CLAIM])
    ]
    assert any("skin differs from person to person" in text for text in texts) == (shipped.name == "lumi-beauty")
    assert any("it differs from person to person" in text for text in texts) == (shipped.name == "peak-sport")


def test_the_oracle_solves_variants(shipped: Merchant) -> None:
    for seed in range(12):
        variant = augment(shipped.harness, random.Random(seed), bank=word_bank("train"), strength=1.0)
        for chosen in sample_scenarios(shipped, len(Family), seed, "train", list(Family)):
            assert_solved(solve(variant.harness, shipped.catalogue, chosen))


def test_ohm_house_wastes_no_question() -> None:
    """A question whose product or attribute only the other split has can never be drawn."""
    merchant = load_merchant(HARNESSES / "ohm-house")
    usable = {q.id for split in SPLITS for rows in Pool(merchant, split).questions.values() for q in rows}
    assert usable == {question.id for question in merchant.questions}
    asked = [question.family for question in merchant.questions]
    assert min(asked.count(family) for family in ASKED) >= 12
