"""Policies without sense must earn little: else reinforcement learning would find them."""

from collections.abc import Callable

import pytest

from components.avatar.harness.schema import Capability, Family, Harness
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.oracle import next_action, realise, solve
from components.avatar.simulator.scenario import FaultKind, ToolFault
from components.avatar.simulator.session import Session
from tests.unit.simulator.shop import QUESTIONS, ask, scenario

SCENARIOS = [scenario(question) for question in QUESTIONS.values()] + [
    scenario(
        ask(Family.OUTAGE, asks="price"),
        faults=(ToolFault(capability=Capability.PRICE_LOOKUP, kind=FaultKind.OUTAGE, times=99),),
    )
]
FACTS = [s for s in SCENARIOS if s.questions[0].family != Family.CHIT_CHAT]


def always_retry(session: Session) -> None:
    """Repeats the first useful call for ever."""
    realised = realise(session, next_action(session))
    while session.stop is None:
        if realised[0] == "call":
            session.call(realised[1], realised[2])
        else:
            session.reply(realised[1])


def never_call(session: Session) -> None:
    while session.stop is None:
        session.reply("Sorry, I can't check that right now.")


def guesses(session: Session) -> None:
    while session.stop is None:
        session.reply("It is 129.00 CNY, sold out, no coupon, 7 days.")


def call_everything(session: Session) -> None:
    """Every tool with the link, then whatever the oracle would say."""
    link = session.question.link_id or 3
    values = {"link": link, "town": "Beijing", "what": "scent", "title": "items"}
    for tool in session.harness.tools:
        if session.stop is None:
            session.call(tool.name, {name: values[name] for name in tool.required()})
    while session.stop is None:
        session.reply("Here is everything that I found for you.")


def parrot(session: Session) -> None:
    while session.stop is None:
        session.reply(session.question.text)


def parrot_of_results(session: Session) -> None:
    """Looks the fact up and reads the raw result out."""
    seen = ""
    while session.stop is None:
        realised = realise(session, next_action(session))
        if realised[0] == "call":
            seen = session.call(realised[1], realised[2]).content
        else:
            session.reply(seen)


def rewards(policy: Callable[[Session], None], scenarios: list, harness: Harness, catalogue: Catalogue) -> list[float]:
    """Mean of (accuracy, effectiveness, tool rationality, skill selection) over the scenarios."""
    sums = [0.0] * 4
    for chosen in scenarios:
        session = Session(harness, catalogue, chosen)
        session.begin()
        policy(session)
        score = session.score()
        for index, value in enumerate(
            (score.accuracy, score.effectiveness, score.tool_rationality, score.skill_selection)
        ):
            sums[index] += value / len(scenarios)
    return sums


@pytest.mark.parametrize("policy", [always_retry, never_call, guesses, call_everything, parrot, parrot_of_results])
def test_senseless_policies_score_low(
    policy: Callable[[Session], None], harness: Harness, catalogue: Catalogue
) -> None:
    accuracy, effectiveness, rationality, skill = rewards(policy, FACTS, harness, catalogue)
    assert effectiveness <= 0.2
    if policy is not parrot_of_results:
        assert accuracy <= 0.2 and (rationality <= 0.2 or skill <= 0.2)
        assert (accuracy + effectiveness + rationality + skill) / 4 < 0.4


def test_the_oracle_has_them_all(harness: Harness, catalogue: Catalogue) -> None:
    for chosen in SCENARIOS:
        score = solve(harness, catalogue, chosen).score()
        assert (score.accuracy, score.effectiveness, score.tool_rationality, score.skill_selection) == (1, 1, 1, 1)
        assert score.length_penalty == 0


def test_small_talk_is_neither_an_echo_nor_one_word_for_ever(harness: Harness, catalogue: Catalogue) -> None:
    question = QUESTIONS[Family.CHIT_CHAT]
    for text, good in (
        (question.text, 0),
        ("so so so so so so", 0),
        ("hi", 0),
        ("Welcome, so happy to have you here.", 1),
    ):
        session = Session(harness, catalogue, scenario(question))
        session.begin()
        session.call("open_skill", {"title": "talk"})
        session.reply(text)
        assert session.replies[0].effectiveness == good, text
