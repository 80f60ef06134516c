"""Whose word counts: what a reply is worth is decided by the evaluation's own verifier, not by the code of the reward.

A model that learned to please the reward's verifier must not be judged by it. Calls, skills and length are no matters
of text and stay as the simulator scored them.
"""

from dataclasses import replace

from components.avatar.agent.metrics import Judged, Rate, rate
from components.avatar.simulator.catalogue import Catalogue
from components.evaluation.judging import judge_episode
from components.evaluation.playing import Played
from components.evaluation.suites import Suites
from components.evaluation.verifier import LANGUAGES


def by_verifier(played: Played, suites: Suites, catalogue: Catalogue) -> tuple[Played, dict[str, list[bool]]]:
    """The episodes with accuracy and effectiveness of the evaluation's verifier, and by suite whether the reward's had
    said the same of each.

    A harness in a language that the verifier does not read keeps the reward's scores and has no agreement.
    """
    judged: Played = {}
    same: dict[str, list[bool]] = {}
    for suite, starts in suites.by_name().items():
        judged[suite], same[suite] = [], []
        for start, episode in zip(starts, played[suite], strict=True):
            result = episode.result
            if result.score is None or start.harness.language not in LANGUAGES:
                judged[suite].append(episode)
                continue
            verdict = judge_episode(start.harness, catalogue, start.scenario, result)
            assert verdict is not None, "a scored episode has a verdict"
            score = replace(result.score, accuracy=verdict.accuracy, effectiveness=verdict.effectiveness)
            judged[suite].append(Judged(episode.harness, replace(result, score=score)))
            same[suite].append(score == result.score)
    return judged, same


def agreement_rates(same: dict[str, list[bool]]) -> dict[str, Rate]:
    """`reward_agreement`: episodes of which both verifiers say the same, of all suites and by suite."""
    rates = {f"{suite}.reward_agreement": rate(flags) for suite, flags in same.items()}
    return rates | {"reward_agreement": rate(flag for flags in same.values() for flag in flags)}
