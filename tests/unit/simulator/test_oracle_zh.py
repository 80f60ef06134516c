"""The oracle in Chinese: every family, every rule that it can be told, and the shipped tea merchant in any variant."""

import random
from pathlib import Path

import pytest

from components.avatar.harness.augment import augment
from components.avatar.harness.operators import OPERATORS
from components.avatar.harness.schema import Family, Harness, HookCheck, Limits
from components.avatar.harness.script import has_han
from components.avatar.harness.words import word_bank
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.merchant import load_merchant
from components.avatar.simulator.oracle import solve
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import FaultKind, ToolFault
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import StopReason
from components.avatar.simulator.wording_en import ENGLISH
from components.avatar.simulator.wording_zh import CHINESE
from tests.unit.simulator.shop import ask, hook, scenario
from tests.unit.simulator.shop_zh import ZH_PRODUCTS, ZH_QUESTIONS, zh_harness

CATALOGUE = Catalogue.model_validate({"products": ZH_PRODUCTS})


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


def every_question():
    for question in ZH_QUESTIONS.values():
        links = (3, 7, 8, 9) if question.link_id == 3 else (question.link_id,)
        for link in links:
            yield question.model_copy(update={"link_id": link, "text": question.text.replace("3号", f"{link}号")})


def test_both_languages_know_the_same_situations() -> None:
    assert set(CHINESE.sentences) == set(ENGLISH.sentences)


@pytest.mark.parametrize("question", list(every_question()), ids=lambda q: f"{q.family}-{q.link_id}")
def test_every_family_of_every_product(question) -> None:
    for seed in range(6):
        session = solve(zh_harness(), CATALOGUE, scenario(question, seed=seed))
        assert_solved(session)
        assert has_han(session.replies[0].text)


@pytest.mark.parametrize("attribute", ["warranty", "return days", "香型"])
def test_attributes_of_the_shop(attribute: str) -> None:
    for link in (3, 7):
        question = ask(Family.ATTRIBUTES, link, f"{link}号呢", attribute=attribute)
        assert_solved(solve(zh_harness(), CATALOGUE, scenario(question)))


@pytest.mark.parametrize("on_air", [None, 3])
def test_what_is_on_air(on_air: int | None) -> None:
    for seed in range(6):
        assert_solved(solve(zh_harness(), CATALOGUE, scenario(ZH_QUESTIONS[Family.ON_AIR], seed=seed, on_air=on_air)))


@pytest.mark.parametrize("kind", list(FaultKind))
def test_faults_and_outages(kind: FaultKind) -> None:
    for need in ("price_lookup", "coupon_lookup"):
        fault = ToolFault.model_validate({"capability": need, "kind": kind, "times": 99})
        for limit in (3, 5):
            harness = zh_harness(limits=Limits(reply_words=40, tool_calls=limit, turns=6))
            for link in (3, 7):
                asked = ask(Family.PRICE_AFTER_COUPON, link, f"{link}号用完券多少")
                for seed in range(4):
                    assert_solved(solve(harness, CATALOGUE, scenario(asked, faults=(fault,), seed=seed)))


@pytest.mark.parametrize(
    "word", ["价", "券", "码", "抱歉", "查", "剩", "库存", "链接", "付", "退", "是", "号", "没有", "现在", "优惠", "到"]
)
def test_any_single_forbidden_word_can_be_avoided(word: str) -> None:
    harness = zh_harness(hooks=(hook(HookCheck.FORBIDDEN_WORDING, words=[word]), hook(HookCheck.SKILL_LOADED)))
    for question in every_question():
        assert_solved(solve(harness, CATALOGUE, scenario(question)))


def test_a_short_limit_and_a_persona_can_be_kept() -> None:
    """Sixteen words are the least that augmentation leaves: here they are characters."""
    harness = zh_harness(
        limits=Limits(reply_words=16, tool_calls=4, turns=6),
        hooks=(hook(HookCheck.SKILL_LOADED), hook(HookCheck.REPLY_FORMAT, address="茶友", ends_with="慢慢喝。")),
    )
    for question in every_question():
        session = solve(harness, CATALOGUE, scenario(question))
        assert_solved(session)
        assert session.replies[0].text.startswith("茶友，") and session.replies[0].text.endswith("慢慢喝。")


# The tea merchant.

TEA = load_merchant(Path(__file__).parents[3] / "infra/harnesses/yunwu-tea")
POOL = [
    chosen
    for split in ("train", "test")
    for count in (1, 3)
    for chosen in sample_scenarios(TEA, 120, 11, split, list(Family), fault_rate=0.5, questions_per_episode=count)
]


def test_solves_the_tea_merchant() -> None:
    for chosen in POOL:
        assert_solved(solve(TEA.harness, TEA.catalogue, chosen))


def played_in(harness: Harness, rng: random.Random, count: int) -> None:
    for chosen in rng.sample(POOL, count):
        assert_solved(solve(harness, TEA.catalogue, chosen))


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_solves_any_variant(split) -> None:
    rng = random.Random(split)
    for _ in range(25):
        variant = augment(TEA.harness, rng, bank=word_bank(split), strength=rng.uniform(0.1, 1))
        played_in(variant.harness, rng, 4)


@pytest.mark.parametrize("operator", list(OPERATORS))
def test_solves_under_every_operator(operator: str) -> None:
    rng = random.Random(operator)
    for _ in range(3):
        variant = augment(TEA.harness, rng, bank=word_bank("train"), strength=1.0, operators=[operator])
        assert variant.harness.language == "zh"
        played_in(variant.harness, rng, 4)
