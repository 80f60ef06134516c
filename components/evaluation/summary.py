"""From judged episodes to the numbers of one model under one decoding."""

from typing import Any

from components.avatar.agent.metrics import (
    Judged,
    Rate,
    episode_metrics,
    paired_difference,
    paired_qualities,
    rate,
)
from components.evaluation.naming import Naming, naming_rates
from components.evaluation.playing import Played
from components.evaluation.settings import Decoding


def summarise(
    played: Played, named: dict[str, list[list[Naming]]], known: frozenset[str], others: dict[str, Rate], seed: int
) -> dict[str, Any]:
    """Metrics of T1, T2 and T3 together under their own names, quality per suite as T1, T2, T3, and the paired gap.

    `named`: what was wrong about the calls' names, by suite; `known`: names that training has shown;
    `others`: rates that rest on more than the episodes."""
    rates = {
        f"{suite}.{name}": value
        for suite, episodes in played.items()
        for name, value in (episode_metrics(episodes, known) | naming_rates(named[suite])).items()
    }
    together = ("T1", "T2", "T3")
    rates |= episode_metrics([e for suite in together for e in played[suite]], known)
    rates |= naming_rates([calls for suite in together for calls in named[suite]])
    rates |= {suite: rates[f"{suite}.quality"] for suite in together} | others
    if "T2_again" in played:
        rates["pass3"] = pass_rate(played["T2"], played["T2_again"])
    gap = paired_difference(*paired_qualities(played["T1"], played["T2"]), seed=seed)
    return {
        **{name: {"value": value, "n": n} for name, (value, n) in rates.items()},
        "gap": {"value": gap.value, "ci": [gap.low, gap.high], "n": gap.n},
    }


def pass_rate(first: list[Judged], again: list[Judged]) -> Rate:
    """Share of cases whose answer is right under all harness states; `again` holds two more states of each of the first
    cases of `first`. A case that our own side failed under one of them is left out."""
    triples = [(first[i], again[2 * i], again[2 * i + 1]) for i in range(len(again) // 2)]
    scored = [triple for triple in triples if all(e.result.score is not None for e in triple)]
    return rate(all(e.quality == 1 for e in triple) for triple in scored)


def leads(judged: dict[tuple[str, Decoding], Played], seed: int) -> dict[str, Any]:
    """Paired difference in T1 and T2 quality of every arm over `fixed_sft`, by decoding."""
    found: dict[str, Any] = {}
    for (arm, decoding), played in judged.items():
        if arm != "fixed_sft" and ("fixed_sft", decoding) in judged:
            for suite in ("T1", "T2"):
                difference = paired_difference(
                    *paired_qualities(played[suite], judged["fixed_sft", decoding][suite]), seed=seed
                )
                found.setdefault(arm, {}).setdefault(decoding, {})[suite] = {
                    "value": difference.value,
                    "ci": [difference.low, difference.high],
                    "n": difference.n,
                }
    return found
