"""Laws of the oracle, over seeds, faults, harness states and augmentation operators."""

import itertools
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.avatar.harness.augment import augment
from components.avatar.harness.operators import OPERATORS
from components.avatar.harness.schema import Capability, Family, Harness, HookCheck, Limits
from components.avatar.harness.words import word_bank
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.merchant import load_merchant
from components.avatar.simulator.oracle import next_action, realise, solve, step
from components.avatar.simulator.replay import replay
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import FaultKind, Scenario, ToolFault
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import SemanticAction, StopReason
from components.avatar.simulator.wording import VOICE
from tests.unit.simulator.shop import QUESTIONS, ask, hook, make_harness, scenario

SAMPLE = load_merchant(Path(__file__).parents[3] / "infra/harnesses/lumi-beauty")
POOL = [
    scenario
    for split in ("train", "test")
    for questions in (1, 3)
    for scenario in sample_scenarios(SAMPLE, 300, 11, split, fault_rate=0.5, questions_per_episode=questions)
]


def assert_solved(session: Session) -> None:
    assert session.stop == StopReason.DONE
    for reply, score in zip(session.replies, session.scores, strict=True):
        found = (
            score.accuracy,
            score.effectiveness,
            score.tool_rationality,
            score.skill_selection,
            score.length_penalty,
        )
        assert found == (1, 1, 1, 1, 0), (session.scenario.questions, session.scenario.faults, reply)
        assert not reply.broken_rules and not reply.fabricated and reply.persona_kept


@pytest.mark.parametrize("link", [3, 7, 8, 9])
@pytest.mark.parametrize("family", list(QUESTIONS))
def test_every_family_of_every_product(family: Family, link: int, harness: Harness, catalogue: Catalogue) -> None:
    question = QUESTIONS[family]
    if question.link_id == 3:
        question = ask(family, link, **question.slots)
    for seed in range(10):
        assert_solved(solve(harness, catalogue, scenario(question, seed=seed)))


@pytest.mark.parametrize("attribute", ["warranty", "return days", "Scent"])
@pytest.mark.parametrize("link", [3, 7])
def test_attributes_of_the_shop(attribute: str, link: int, harness: Harness, catalogue: Catalogue) -> None:
    for seed in range(10):
        assert_solved(solve(harness, catalogue, scenario(ask(Family.ATTRIBUTES, link, attribute=attribute), seed=seed)))


@pytest.mark.parametrize("kind", list(FaultKind))
@pytest.mark.parametrize("times", [1, 2, 99])
@pytest.mark.parametrize("limit", [2, 3, 4, 6])
def test_every_fault_at_every_limit(kind: FaultKind, times: int, limit: int, catalogue: Catalogue) -> None:
    harness = make_harness(limits=Limits(reply_words=25, tool_calls=limit, turns=6))
    for capability in (Capability.PRICE_LOOKUP, Capability.COUPON_LOOKUP, Capability.LOAD_SKILL):
        fault = ToolFault(capability=capability, kind=kind, times=times)
        for family in (Family.PRICE, Family.PRICE_AFTER_COUPON):
            session = solve(harness, catalogue, scenario(QUESTIONS[family], faults=(fault,)))
            assert_solved(session)
            assert len(session.calls) <= limit


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(POOL))
def test_solves_the_sample_merchant(chosen: Scenario) -> None:
    assert_solved(solve(SAMPLE.harness, SAMPLE.catalogue, chosen))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 1.0), st.lists(st.sampled_from(POOL), min_size=3, max_size=3))
def test_solves_any_variant(seed: int, strength: float, chosen: list[Scenario]) -> None:
    variant = augment(SAMPLE.harness, random.Random(seed), bank=word_bank("train"), strength=strength)
    for one in chosen:
        assert_solved(solve(variant.harness, SAMPLE.catalogue, one))


@pytest.mark.parametrize("operator", list(OPERATORS))
def test_solves_under_every_operator_and_pair(operator: str) -> None:
    rng = random.Random(operator)
    others = itertools.chain([None], (name for name in OPERATORS if name > operator))
    for other in others:
        names = [operator] if other is None else [operator, other]
        variant = augment(SAMPLE.harness, rng, bank=word_bank("train"), strength=1.0, operators=names)
        for chosen in rng.sample(POOL, 4):
            assert_solved(solve(variant.harness, SAMPLE.catalogue, chosen))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(POOL))
def test_surface_operators_keep_the_meaning(seed: int, chosen: Scenario) -> None:
    """The same semantic actions, replayed under renamed and reordered surfaces, earn the same."""
    actions = actions_of(SAMPLE.harness, chosen)
    surface = [name for name, operator in OPERATORS.items() if operator.kind == "surface"]
    variant = augment(SAMPLE.harness, random.Random(seed), bank=word_bank("train"), strength=1.0, operators=surface)
    session = replay(actions, variant.harness, SAMPLE.catalogue, chosen)
    assert_solved(session)
    original = solve(SAMPLE.harness, SAMPLE.catalogue, chosen)
    assert [call.capability for call in session.calls] == [call.capability for call in original.calls]
    assert [reply.text for reply in session.replies] == [reply.text for reply in original.replies]


def actions_of(harness: Harness, chosen: Scenario) -> list[SemanticAction]:
    session = Session(harness, SAMPLE.catalogue, chosen)
    session.begin()
    actions = []
    while session.stop is None:
        actions.append(step(session))
    return actions


def test_replay_stops_where_a_tool_is_missing() -> None:
    chosen = next(s for s in POOL if s.questions[0].family == Family.PRICE and len(s.questions) == 1)
    actions = actions_of(SAMPLE.harness, chosen)
    tools = tuple(tool for tool in SAMPLE.harness.tools if tool.name != "price_check")
    session = replay(actions, SAMPLE.harness.model_copy(update={"tools": tools}), SAMPLE.catalogue, chosen)
    assert session.stop is None and not session.replies


def test_the_same_scenario_gives_the_same_episode() -> None:
    for chosen in POOL[:20]:
        first, second = (solve(SAMPLE.harness, SAMPLE.catalogue, chosen) for _ in range(2))
        assert first.replies == second.replies and first.calls == second.calls and first.clock == second.clock


def test_the_voice_varies_between_its_first_wordings_only(harness: Harness, catalogue: Catalogue) -> None:
    texts = {
        solve(harness, catalogue, scenario(QUESTIONS[Family.PRICE], seed=seed)).replies[0].text for seed in range(40)
    }
    assert len(texts) == VOICE


@pytest.mark.parametrize(
    "word", ["price", "coupon", "code", "sorry", "check", "left", "stock", "link", "pay", "return", "is"]
)
def test_any_single_forbidden_word_can_be_avoided(word: str, catalogue: Catalogue) -> None:
    harness = make_harness(hooks=(hook(HookCheck.FORBIDDEN_WORDING, words=[word]), hook(HookCheck.SKILL_LOADED)))
    for question in QUESTIONS.values():
        for link in (3, 9):
            about = (
                ask(question.family, link, **question.slots) if question.link_id == 3 and question.family else question
            )
            assert_solved(solve(harness, catalogue, scenario(about)))


def test_the_oracle_states_only_what_tools_said(harness: Harness, catalogue: Catalogue) -> None:
    """Its reply follows the (false) result of a tool, not the truth: it does not peek."""
    session = Session(harness, catalogue, scenario(QUESTIONS[Family.PRICE]))
    session.begin()
    while (realised := realise(session, next_action(session)))[0] == "call":
        session.call(realised[1], realised[2])
    session.results[-1].result["price"] = "1.23"
    assert "1.23" in realise(session, next_action(session))[1]
