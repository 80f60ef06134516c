"""The evaluation's verifier has the last word on text, and nothing else of the score changes."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from components.avatar.agent.actors import OracleActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import run_episodes
from components.avatar.agent.metrics import Judged
from components.avatar.agent.surfaces import surfaces_of
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.merchant import load_merchant
from components.evaluation.playing import Played
from components.evaluation.settings import Settings
from components.evaluation.suites import Suites, build_suites
from components.evaluation.verdicts import agreement_rates, by_verifier

ROOT = Path(__file__).parents[3]
SETTINGS = Settings(cases=12, robustness_cases=4, families=("price", "stock", "coupon"))


@pytest.fixture(scope="module")
def chat() -> Chat:
    from transformers import AutoTokenizer

    from components.integrations.weights import resolve_base_model

    return Chat(AutoTokenizer.from_pretrained(resolve_base_model("random:tiny", ROOT / ".cache")))


def solved(chat: Chat) -> tuple[Played, Suites, Catalogue]:
    """The oracle's episodes on all suites of a merchant."""
    merchant = load_merchant(ROOT / "infra/harnesses/lumi-beauty")
    suites = build_suites(merchant, SETTINGS, 1, surfaces_of([merchant.harness]))
    played = {
        suite: [
            Judged(start.harness, result)
            for start, result in zip(
                starts, run_episodes(starts, OracleActor(chat), chat, merchant.catalogue), strict=True
            )
        ]
        for suite, starts in suites.by_name().items()
    }
    return played, suites, merchant.catalogue


def test_both_verifiers_agree_on_the_oracle(chat: Chat) -> None:
    played, suites, catalogue = solved(chat)
    judged, same = by_verifier(played, suites, catalogue)
    assert judged == played
    assert agreement_rates(same)["reward_agreement"] == (1.0, 28)


def test_the_text_decides_and_not_the_score_that_came_with_it(chat: Chat) -> None:
    played, suites, catalogue = solved(chat)
    place, episode = next(
        (i, e) for i, e in enumerate(played["T1"]) if e.result.replies[0].family == "price" and e.quality == 1
    )
    reply = episode.result.replies[0]
    wrong = replace(reply, text=re.sub(r"\d+(\.\d+)?(?=\D*$)", "9876.50", reply.text, count=1))
    assert wrong.text != reply.text
    played["T1"][place] = Judged(episode.harness, replace(episode.result, replies=(wrong,)))
    judged, same = by_verifier(played, suites, catalogue)
    score, before = judged["T1"][place].result.score, episode.result.score
    assert score and before and score.accuracy == 0 and before.accuracy == 1
    assert (score.tool_rationality, score.skill_selection) == (before.tool_rationality, before.skill_selection)
    assert same["T1"].count(False) == 1 and not same["T1"][place]


def test_an_episode_of_our_own_fault_stays_unscored(chat: Chat) -> None:
    played, suites, catalogue = solved(chat)
    first = played["T1"][0]
    played["T1"][0] = Judged(first.harness, replace(first.result, score=None))
    judged, same = by_verifier(played, suites, catalogue)
    assert judged["T1"][0].result.score is None and len(same["T1"]) == len(played["T1"]) - 1


def test_a_language_that_the_verifier_does_not_read_keeps_the_reward_s_scores(chat: Chat) -> None:
    played, suites, catalogue = solved(chat)
    chinese = {
        suite: [replace(start, harness=start.harness.model_copy(update={"language": "zh"})) for start in starts]
        for suite, starts in suites.by_name().items()
    }
    judged, same = by_verifier(played, Suites(chinese["T1"], chinese["T2"], chinese["T3"], []), catalogue)
    assert judged == played and not any(same.values())
    assert agreement_rates(same)["reward_agreement"][1] == 0
