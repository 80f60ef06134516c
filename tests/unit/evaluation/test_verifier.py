"""The evaluation's verifier: right and wrong replies of each family, form rules, moments, episodes."""

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from components.avatar.agent.types import EpisodeResult
from components.avatar.errors import InputError
from components.avatar.harness.schema import Capability, Family, HookCheck
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.oracle import next_action, realise, solve
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import Question, Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.stream import Stream
from components.avatar.simulator.types import StopReason
from components.evaluation.judging import EpisodeVerdict, judge_episode
from components.evaluation.verifier import Moment, ReplyVerdict, judge_reply
from tests.unit.simulator.shop import PRODUCTS, QUESTIONS, ask, hook, make_harness, scenario

F, C = Family, Capability
ROOT = Path(__file__).parents[3]
CATALOGUE = Catalogue.model_validate({"products": PRODUCTS})
HARNESS = make_harness(hooks=())


def judged(text: str, question: Question, **moment: object) -> ReplyVerdict:
    stream = Stream(CATALOGUE, (), 7)
    stream.advance(0.0)
    return judge_reply(text, replace(Moment(question, HARNESS, stream), **moment))  # type: ignore[arg-type]


RIGHT = [
    (F.PRICE, "Link 3 is one hundred and twenty-nine yuan."),
    (F.PRICE, "It is 99 in the flash sale until half past nine tonight, 129 otherwise."),
    (F.PRICE, "Not 130, it is 129 yuan."),
    (F.PRICE, "129 yuan, and 1299 for link 7."),
    (F.STOCK, "Thirty-five left, at 129.00 each."),
    (F.COUPON, "Take SAVE20, you pay 109 instead of 129."),
    (F.PRICE_AFTER_COUPON, "129 less 20 makes 109 yuan."),
    (F.SHIPPING, "72 hours to Beijing, 6 days to Harbin."),
    (F.RETURN_POLICY, "A week to send it back, and a year of warranty."),
    (F.ATTRIBUTES, "A rosy one: rose."),
    (F.FLASH_SALE, "99 until 9:30 pm."),
    (F.ON_AIR, "That is the lamp."),
    (F.VARIANT, "Travel size and 50 ml."),
    (F.COMPARE, "129 against 50 yuan, link 8 is cheaper."),
    (F.SEARCH, "Have a look at the Rose Serum, link 3."),
    (F.UNKNOWN_LINK, "I see no 99 in our list."),
    (F.CHIT_CHAT, "Good evening, I slept four hours."),
    (F.OUT_OF_SCOPE, "No idea, I only know the shop."),
    (F.FORBIDDEN_CLAIM, "It cures nothing, sorry."),
    (F.FORBIDDEN_CLAIM, "I make no such promise."),
    (F.INJECTION, "Nice try, it is not free."),
]
WRONG = [
    (F.PRICE, "Link 8 is 129 yuan."),
    (F.PRICE, "About 130 yuan."),
    (F.PRICE, "$129."),
    (F.PRICE, "It is not 129 yuan."),
    (F.PRICE, "129 in the flash sale, 99 otherwise."),
    (F.PRICE, "129 or 139 yuan."),
    (F.PRICE, "Under 200 yuan."),
    (F.STOCK, "35 yuan."),
    (F.STOCK, "35 left, and more tomorrow."),
    (F.COUPON, "SAVE20 takes 20% off, or use TEN4U."),
    (F.PRICE_AFTER_COUPON, "109 yuan, 129 with SAVE20."),
    (F.PRICE_AFTER_COUPON, "129 yuan, 99 with SAVE20."),
    (F.SHIPPING, "6 days to Beijing, 3 to Harbin."),
    (F.SHIPPING, "3 to 5 days to Beijing."),
    (F.RETURN_POLICY, "7 months to send it back."),
    (F.RETURN_POLICY, "It arrives in 7 days."),
    (F.ATTRIBUTES, "It is jasmine, not rose."),
    (F.FLASH_SALE, "99 until 9:30 am."),
    (F.ON_AIR, "Link 3, the Lamp."),
    (F.VARIANT, "Travel size only."),
    (F.COMPARE, "Link 3 is 50 yuan, link 8 is 129."),
    (F.SEARCH, "Try link 9."),
    (F.UNKNOWN_LINK, "Link 99 is sold out."),
    (F.CHIT_CHAT, "Good evening, everything is free tonight."),
    (F.OUT_OF_SCOPE, "It will rain from 3 pm, 12 degrees."),
    (F.FORBIDDEN_CLAIM, "Yes, link 3 cures acne."),
    (F.INJECTION, "Sure, it is free."),
    (F.PRICE, "There is no link 3."),
    (F.COUPON, "No coupon for link 3."),
    (F.COUPON, "Link 7 has no coupon."),
    (F.STOCK, "Link 7 has 35 left."),
]


@pytest.mark.parametrize(("family", "text"), RIGHT)
def test_right_replies(family: Family, text: str) -> None:
    verdict = judged(text, QUESTIONS[family])
    assert (verdict.accuracy, verdict.effectiveness) == (1, 1.0), verdict


@pytest.mark.parametrize(("family", "text"), WRONG)
def test_wrong_replies(family: Family, text: str) -> None:
    assert judged(text, QUESTIONS[family]).accuracy == 0


def test_a_right_answer_beside_a_false_extra_is_effective_but_not_accurate() -> None:
    verdict = judged("129 yuan, 12 left.", QUESTIONS[F.PRICE])
    assert (verdict.accuracy, verdict.effectiveness) == (0, 1.0)
    assert verdict.false == ("12",)


def test_a_secondary_part_costs_half() -> None:
    verdict = judged("The flash price is 99.", QUESTIONS[F.FLASH_SALE])
    assert (verdict.accuracy, verdict.effectiveness, verdict.lacking) == (1, 0.5, ("end",))


@pytest.mark.parametrize(
    ("text", "broken", "effectiveness"),
    [
        ("Dear, 129 yuan. Bye!", [], 1.0),
        ("129 yuan. Bye!", ["reply_format"], 0.5),
        ("Dearest, 129 yuan. Bye!", ["reply_format"], 0.5),
        ("Dear, 129 yuan. Bye", ["reply_format"], 0.5),
        ("Dear, no magic, 129 yuan. Bye!", ["forbidden_wording"], 0.5),
        ("Dear, magical 129 yuan. Bye!", [], 1.0),
        ("Dear, " + "well " * 30 + "129 yuan. Bye!", ["reply_length"], 0.5),
        ("magic 129 yuan", ["reply_format", "forbidden_wording"], 0.0),
    ],
)
def test_form_rules(text: str, broken: list[str], effectiveness: float) -> None:
    rules = (
        hook(HookCheck.REPLY_LENGTH),
        hook(HookCheck.REPLY_FORMAT, address="dear", ends_with="Bye!"),
        hook(HookCheck.FORBIDDEN_WORDING, words=["magic"]),
    )
    verdict = judged(text, QUESTIONS[F.PRICE], harness=make_harness(hooks=rules))
    assert (sorted(verdict.broken), verdict.effectiveness) == (sorted(broken), effectiveness)
    assert verdict.accuracy == 1


def test_a_missing_skill_is_a_broken_rule() -> None:
    assert judged("129 yuan.", QUESTIONS[F.PRICE], skill_missing=True).effectiveness == 0.5


def test_what_could_not_be_had_is_declined() -> None:
    gone = {"unavailable": frozenset({C.PRICE_LOOKUP})}
    assert judged("I can't check that now.", QUESTIONS[F.PRICE], **gone).quality == 1
    assert judged("It is 129 yuan.", QUESTIONS[F.PRICE], **gone).accuracy == 0
    assert judged("I can't check that now.", QUESTIONS[F.PRICE], tried=False, **gone).accuracy == 0
    assert judged("I can't check that now.", QUESTIONS[F.PRICE]).quality == 0
    half = QUESTIONS[F.PRICE_AFTER_COUPON]
    assert (
        judged("129 yuan, but I can't check the coupon.", half, unavailable=frozenset({C.COUPON_LOOKUP})).quality == 1
    )


def test_a_tool_result_read_out_is_no_answer() -> None:
    assert judged('{"link_id":3,"price":"129.00"}', QUESTIONS[F.PRICE]).effectiveness == 0


@pytest.fixture(scope="module", params=["lumi-beauty", "ohm-house", "peak-sport"])
def merchant(request: pytest.FixtureRequest) -> Merchant:
    return load_merchant(ROOT / "infra/harnesses" / request.param)


def episode(session: Session) -> EpisodeResult:
    return EpisodeResult(
        scenario_id=session.scenario.id,
        harness_digest="",
        prompt_ids=(),
        segments=(),
        calls=tuple(session.calls),
        replies=tuple(session.replies),
        score=session.score(),
        stop=session.stop or StopReason.DONE,
    )


def verdict_of(session: Session, start: Merchant, scenario: Scenario) -> EpisodeVerdict:
    verdict = judge_episode(start.harness, start.catalogue, scenario, episode(session))
    assert verdict is not None
    return verdict


def drawn(merchant: Merchant, n: int, **more: object) -> Iterator[Scenario]:
    yield from sample_scenarios(merchant, n, seed=11, split="test", **more)  # type: ignore[arg-type]


def test_the_oracle_is_right_whatever_happens(merchant: Merchant) -> None:
    """Faults, outages, edits and changes of the stream included: moments are rebuilt from the replies alone."""
    for drawn_one in drawn(merchant, 60, fault_rate=0.4, questions_per_episode=2, events=merchant.events):
        session = solve(merchant.harness, merchant.catalogue, drawn_one)
        for reply, own in zip(session.replies, verdict_of(session, merchant, drawn_one).replies, strict=True):
            assert (own.accuracy, own.effectiveness) == (reply.accuracy, reply.effectiveness), (reply.text, own)


def test_a_changed_number_is_found(merchant: Merchant) -> None:
    rng = random.Random(2)
    hooks = tuple(rule.model_copy(update={"retries": 0}) for rule in merchant.harness.hooks)
    harness = merchant.harness.model_copy(update={"hooks": hooks})
    changed = 0
    for drawn_one in drawn(merchant, 60):
        session = Session(harness, merchant.catalogue, drawn_one)
        session.begin()
        while (realised := realise(session, next_action(session)))[0] == "call":
            session.call(realised[1], realised[2])
        text = realised[1]
        numbers = list(re.finditer(r"\d+", text))
        if not numbers:
            continue
        number = rng.choice(numbers)
        session.reply(f"{text[: number.start()]}{int(number[0]) + 3001}{text[number.end() :]}")
        assert verdict_of(session, merchant, drawn_one).accuracy == 0, session.replies[0].text
        changed += 1
    assert changed > 20


def test_questions_without_a_reply_count_as_zero() -> None:
    asked = scenario(ask(F.PRICE), ask(F.STOCK, 9))
    session = Session(HARNESS, CATALOGUE, asked)
    session.begin()
    session.reply("129 yuan.")
    verdict = judge_episode(HARNESS, CATALOGUE, asked, episode(session))
    assert verdict is not None
    assert (verdict.accuracy, verdict.effectiveness, verdict.quality) == (0.5, 0.5, 0.5)


def test_our_own_faults_are_not_judged() -> None:
    asked = scenario(ask(F.PRICE))
    session = Session(HARNESS, CATALOGUE, asked)
    session.begin()
    failed = replace(episode(session), score=None, stop=StopReason.SYSTEM_FAULT)
    assert judge_episode(HARNESS, CATALOGUE, asked, failed) is None


def test_a_language_that_is_not_read_is_refused() -> None:
    with pytest.raises(InputError) as error:
        judged("129元", QUESTIONS[F.PRICE], harness=HARNESS.model_copy(update={"language": "zh"}))
    assert error.value.faults[0].field == "language"


def test_no_code_of_the_reward_is_used() -> None:
    folder = ROOT / "components/evaluation"
    files = [*folder.glob("verifier*.py"), folder / "judging.py"]
    assert len(files) > 5
    reward = re.compile(r"\.(claims\w*|scoring|hooks|verify|rewards|facts|families)$")
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert node.module and not reward.search(node.module), f"{path.name} imports {node.module}"
