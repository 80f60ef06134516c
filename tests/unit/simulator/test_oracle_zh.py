"""The oracle in Chinese: every family, every rule that it can be told, and the shipped tea merchant in any variant."""

import json
import random
import re
from pathlib import Path

import pytest

from components.avatar.agent.parser import ParsedCall, call_text, parse
from components.avatar.errors import InputError
from components.avatar.harness.augment import augment, descriptions, names
from components.avatar.harness.files import load_harness
from components.avatar.harness.lint import lint
from components.avatar.harness.operators import OPERATORS
from components.avatar.harness.render import system_prompt, tools_of
from components.avatar.harness.schema import Family, Harness, HookCheck, Limits
from components.avatar.harness.script import has_han
from components.avatar.harness.words import word_bank
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.merchant import load_merchant
from components.avatar.simulator.oracle import next_action, realise, situation_of, solve
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import FaultKind, Question, ToolFault
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import Reply, StopReason
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


@pytest.mark.parametrize(("link", "variant"), [(3, "小罐"), (8, "大铁罐"), (8, "罐"), (8, "100克")])
def test_one_variant(link: int, variant: str) -> None:
    """Sold out or not, and with digits in its name, which state nothing."""
    for seed in range(6):
        question = ask(Family.VARIANT, link, f"{link}号{variant}还有吗", variant=variant)
        assert_solved(solve(zh_harness(), CATALOGUE, scenario(question, seed=seed)))


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


def changed(text: str) -> list[str]:
    """`text` with each of its numbers made another one in turn."""
    return [
        f"{text[: match.start()]}{int(match[0]) + 1}{text[match.end() :]}"
        for match in re.finditer(r"(?<![.\d:])\d+", text)
    ]


def judged(question: Question, text: str) -> Reply:
    session = Session(zh_harness(hooks=()), CATALOGUE, scenario(question))
    session.begin()
    while (realised := realise(session, next_action(session)))[0] == "call":
        session.call(realised[1], realised[2])
    session.reply(text)
    return session.replies[0]


@pytest.mark.parametrize("question", list(every_question()), ids=lambda q: f"{q.family}-{q.link_id}")
def test_every_wording_is_right_and_with_another_number_wrong(question: Question) -> None:
    session = Session(zh_harness(), CATALOGUE, scenario(question))
    session.begin()
    while (realised := realise(session, next_action(session)))[0] == "call":
        session.call(realised[1], realised[2])
    situation, values = situation_of(session)
    for wording in CHINESE.sentences[situation]:
        text = wording.format_map(CHINESE.blanks(values))
        assert judged(question, text).accuracy == 1, text
        if question.family in (Family.ON_AIR, Family.SEARCH):
            continue  # in any language the title alone answers them
        for wrong in changed(text):
            assert judged(question, wrong).accuracy == 0, wrong


# The tea merchant.

FOLDER = Path(__file__).parents[3] / "infra/harnesses/yunwu-tea"
TEA = load_merchant(FOLDER)
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


@pytest.mark.parametrize("operator", [name for name, operator in OPERATORS.items() if operator.worded])
def test_english_word_banks_leave_a_chinese_harness_alone(operator: str) -> None:
    for seed in range(5):
        variant = augment(TEA.harness, random.Random(seed), bank=word_bank("train"), strength=1.0, operators=[operator])
        assert variant.harness == TEA.harness and variant.operators == ()


def test_a_variant_has_new_names_and_no_english_text() -> None:
    for seed in range(20):
        new = augment(TEA.harness, random.Random(seed), bank=word_bank("heldout"), strength=1.0).harness
        assert descriptions(new) <= descriptions(TEA.harness)
        assert all(name.isascii() for name in names(new))
        assert not [finding for finding in lint(new) if finding.severity == "error"]


def test_lint_render_and_parse() -> None:
    """The harness is sound, is shown whole, and every call of the oracle is read back as it was written."""
    assert lint(TEA.harness) == []
    shown = system_prompt(TEA.harness) + json.dumps(tools_of(TEA.harness), ensure_ascii=False)
    assert all(name in shown for name in names(TEA.harness) | descriptions(TEA.harness))
    for chosen in POOL[:60]:
        session = Session(TEA.harness, TEA.catalogue, chosen)
        session.begin()
        while session.stop is None:
            realised = realise(session, next_action(session))
            if realised[0] == "reply":
                session.reply(realised[1])
                continue
            assert parse(call_text(realised[1], realised[2])) == ParsedCall(realised[1], realised[2])
            session.call(realised[1], realised[2])


def test_a_language_that_nobody_speaks_is_named(tmp_path: Path) -> None:
    for path in FOLDER.iterdir():
        if path.is_file():
            text = path.read_text(encoding="utf-8").replace("language: zh", "language: fr")
            (tmp_path / path.name).write_text(text, encoding="utf-8")
    for load in (load_harness, load_merchant):
        with pytest.raises(InputError) as caught:
            load(tmp_path)
        fault = next(fault for fault in caught.value.faults if fault.field == "language")
        assert fault.found == "'fr'" and "'en'" in fault.allowed and "'zh'" in fault.allowed
