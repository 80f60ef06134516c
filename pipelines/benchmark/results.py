"""From the evaluations of the arms to `hat.json`: every figure with its n, comparisons paired and with their interval,
and which of the goals are met."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.avatar.agent.metrics import paired_difference
from components.integrations.metrics import read_json

DECODINGS = ("free", "constrained")
Qualities = dict[str, float]
"""Scenario -> quality of its reply."""


@dataclass(frozen=True)
class Evaluated:
    """What the evaluation of one arm left: metrics by decoding, general outcomes by prompt, quality by (decoding,
    suite) and scenario."""

    metrics: dict[str, dict[str, Any]]
    general: list[int]
    quality: dict[tuple[str, str], Qualities]


@dataclass(frozen=True)
class Comparison:
    """A difference that the method claims: `arm` minus `other`."""

    arm: str
    other: str
    suites: tuple[str, ...]
    why: str


COMPARISONS = (
    Comparison("hat", "fixed_sft", ("T1", "T2", "T3", "general"), "the whole method against its baseline"),
    Comparison("hsa_sft", "fixed_sft", ("T1", "T2"), "what augmentation brings"),
    Comparison("hsa_sft_opd", "hsa_sft", ("T1", "T2", "general"), "what distillation brings"),
    Comparison("hat", "hsa_sft_opd", ("T1", "T2", "T3"), "what reinforcement learning brings"),
    Comparison("fixed_rl", "fixed_sft", ("T1", "T2"), "what reinforcement learning on one harness does"),
    Comparison("hat", "base", ("general",), "what is left of the base model's abilities"),
)


def read_evaluation(folder: Path, arm: str) -> Evaluated:
    """What the evaluation step wrote about `arm`. Raises InputError when a file is missing."""
    report = read_json(folder / "evaluation.json")
    quality: dict[tuple[str, str], Qualities] = {}
    with (folder / "cases.jsonl").open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            if row["score"] is not None:  # an episode that our own side failed is no reply of the model
                score = (row["score"]["accuracy"] + row["score"]["effectiveness"]) / 2
                quality.setdefault((row["decoding"], row["suite"]), {})[row["scenario"]] = score
    return Evaluated(report["models"][arm], report["general"][arm], quality)


def compare(evaluated: Mapping[str, Evaluated], seed: int) -> list[dict[str, Any]]:
    """Paired differences with a 95% bootstrap interval, by decoding; general answers have one decoding."""
    rows = []
    for comparison in COMPARISONS:
        if comparison.arm not in evaluated or comparison.other not in evaluated:
            continue
        first, second = evaluated[comparison.arm], evaluated[comparison.other]
        for suite in comparison.suites:
            for decoding in DECODINGS if suite != "general" else ("free",):
                a, b = _pairs(first, second, suite, decoding)
                if a:
                    found = paired_difference(a, b, seed=seed)
                    rows.append(
                        {
                            "arm": comparison.arm,
                            "other": comparison.other,
                            "metric": suite,
                            "decoding": decoding,
                            "value": found.value,
                            "ci": [found.low, found.high],
                            "n": found.n,
                            "why": comparison.why,
                        }
                    )
    return rows


def _pairs(first: Evaluated, second: Evaluated, suite: str, decoding: str) -> tuple[list[float], list[float]]:
    if suite == "general":
        return [float(x) for x in first.general], [float(x) for x in second.general]
    a, b = first.quality.get((decoding, suite), {}), second.quality.get((decoding, suite), {})
    shared = [scenario for scenario in a if scenario in b]
    return [a[scenario] for scenario in shared], [b[scenario] for scenario in shared]


def goals(arms: Mapping[str, Mapping[str, Any]], comparisons: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the benchmark wants to show, what it found, and whether that is enough; `met` is None where an arm is
    missing."""

    def value(arm: str, decoding: str, metric: str) -> float | None:
        cell = arms.get(arm, {}).get(decoding, {}).get(metric)
        return None if cell is None else cell["value"]

    def gap_end(arm: str, decoding: str, end: int) -> float | None:
        cell = arms.get(arm, {}).get(decoding, {}).get("gap")
        return None if cell is None else cell["ci"][end]

    def difference(arm: str, other: str, metric: str, decoding: str, field: str) -> float | None:
        for row in comparisons:
            if (row["arm"], row["other"], row["metric"], row["decoding"]) == (arm, other, metric, decoding):
                return row["value"] if field == "value" else row["ci"][0]
        return None

    rows = [
        ("T1, constrained", value("hat", "constrained", "T1"), ">=", 0.90),
        ("T2, constrained", value("hat", "constrained", "T2"), ">=", 0.85),
        ("gap, constrained, upper bound", gap_end("hat", "constrained", 1), "<=", 0.06),
        ("gap of fixed_sft, free", value("fixed_sft", "free", "gap"), ">=", 0.20),
        ("stale names, free", value("hat", "free", "stale_name_rate"), "<=", 0.005),
        ("decoy calls, free", value("hat", "free", "decoy_call_rate"), "<=", 0.01),
        ("fabricated answers, free", value("hat", "free", "fabricated_rate"), "<=", 0.01),
        ("recovery, free", value("hat", "free", "recovery_rate"), ">=", 0.90),
        ("persona, free", value("hat", "free", "persona_rate"), ">=", 0.95),
        ("general, hat - base", difference("hat", "base", "general", "free", "value"), ">=", -0.01),
        ("general, hat - fixed_sft", difference("hat", "fixed_sft", "general", "free", "value"), ">=", 0.02),
        (
            "general, distillation, lower bound",
            difference("hsa_sft_opd", "hsa_sft", "general", "free", "low"),
            ">",
            0.0,
        ),
        ("T3, reinforcement learning, lower bound", difference("hat", "hsa_sft_opd", "T3", "free", "low"), ">", 0.0),
        *(
            (f"T2, hat - fixed_sft, {decoding}", difference("hat", "fixed_sft", "T2", decoding, "value"), ">", 0.0)
            for decoding in DECODINGS
        ),
    ]
    return [
        {
            "goal": name,
            "found": found,
            "needed": f"{sign} {limit:g}",
            "met": None if found is None else _holds(found, sign, limit),
        }
        for name, found, sign, limit in rows
    ]


def _holds(found: float, sign: str, limit: float) -> bool:
    return {">=": found >= limit, "<=": found <= limit, ">": found > limit}[sign]


def table(result: Mapping[str, Any]) -> str:
    """What a person reads at the end: arms, comparisons, goals."""
    columns = (
        "T1",
        "T2",
        "gap",
        "T3",
        "general",
        "pass3",
        "selection_error_rate",
        "copy_error_rate",
        "stale_name_rate",
    )
    lines = [
        "  ".join(("arm".ljust(12), "decoding".ljust(12), *(name.removesuffix("_rate").rjust(16) for name in columns)))
    ]
    for arm, decodings in result["arms"].items():
        for decoding, metrics in decodings.items():
            cells = (percent(metrics.get(name)).rjust(16) for name in columns)
            lines.append("  ".join((arm.ljust(12), decoding.ljust(12), *cells)))
    lines.append("")
    for row in result["comparisons"]:
        difference = f"{row['arm']} - {row['other']}, {row['metric']}, {row['decoding']}"
        lines.append(f"{difference}: {percent(row)} (n={row['n']}) - {row['why']}")
    lines.append("")
    for row in result["goals"]:
        found = "not measured" if row["found"] is None else f"{row['found']:.3f}"
        verdict = {True: "met", False: "NOT met", None: "-"}[row["met"]]
        lines.append(f"{row['goal']:42} {found:>12}  needed {row['needed']:8} {verdict}")
    return "\n".join(lines)


def percent(cell: Mapping[str, Any] | None) -> str:
    """A rate in percent, a difference in points with its interval; a dash for what was not measured."""
    if cell is None or cell["value"] is None:
        return "-"
    interval = cell.get("ci")
    if interval is None:
        return f"{100 * cell['value']:.1f}%"
    return f"{100 * cell['value']:+.1f} [{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]"
