"""From verdicts to figures: accuracy, surface gap, all variants correct; each with the n that it rests on."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from components.avatar.agent.metrics import PairedDifference, paired_difference, rate
from components.evaluation.bfcl.checker import Verdict
from components.evaluation.bfcl.data import CATEGORIES, Category

BASELINE = "fixed_sft"  # the arm that leads are measured against, as in evaluation.json
LEAST_CLEAN = 0.2  # below it a gap says nothing: there is hardly anything to lose


@dataclass(frozen=True)
class Outcome:
    """One case under its own surface and under each of its perturbed ones."""

    case_id: str
    category: Category
    clean: Verdict
    perturbed: tuple[Verdict, ...]

    @property
    def clean_right(self) -> bool:
        return self.clean == Verdict.RIGHT

    @property
    def perturbed_right(self) -> float:
        """Share of the variants that are right."""
        return sum(verdict == Verdict.RIGHT for verdict in self.perturbed) / len(self.perturbed)


def summarise(outcomes: Sequence[Outcome], seed: int) -> dict[str, Any]:
    """Figures over all cases; in `categories` those of each category and of `calls`, the cases that need a call.

    A model that never calls passes every irrelevance case, so a gap needs LEAST_CLEAN accuracy on `calls` as well.
    """
    calls = [outcome for outcome in outcomes if outcome.category != "irrelevance"]
    groups = {category: [o for o in outcomes if o.category == category] for category in CATEGORIES} | {"calls": calls}
    too_few = _too_low(calls, "clean accuracy on the cases that need a call")
    return {
        **_figures(outcomes, too_few, seed),
        "categories": {name: _figures(group, too_few, seed) for name, group in groups.items()},
    }


def lead(outcomes: Sequence[Outcome], others: Sequence[Outcome], seed: int) -> dict[str, Any]:
    """Paired difference `outcomes` - `others`, clean and perturbed, over the cases that need a call and that both have.

    Empty when there is no such case.
    """
    other = {outcome.case_id: outcome for outcome in others if outcome.category != "irrelevance"}
    pairs = [(outcome, other[outcome.case_id]) for outcome in outcomes if outcome.case_id in other]
    if not pairs:
        return {}
    clean = paired_difference([a.clean_right for a, _ in pairs], [b.clean_right for _, b in pairs], seed=seed)
    perturbed = paired_difference(
        [a.perturbed_right for a, _ in pairs], [b.perturbed_right for _, b in pairs], seed=seed
    )
    return {"clean": _difference(clean), "perturbed": _difference(perturbed)}


def _figures(outcomes: Sequence[Outcome], too_few_calls: str | None, seed: int) -> dict[str, Any]:
    """`perturbed` is the mean over cases of the share of variants that are right; `n` counts cases, `failures`
    turns."""
    clean = [float(outcome.clean_right) for outcome in outcomes]
    perturbed = [outcome.perturbed_right for outcome in outcomes]
    figures: dict[str, Any] = {
        "clean": _cell(clean),
        "perturbed": _cell(perturbed),
        "all_variants_correct": _cell([float(share == 1) for share in perturbed]),
        "failures": {
            "clean": _failures(outcome.clean for outcome in outcomes),
            "perturbed": _failures(verdict for outcome in outcomes for verdict in outcome.perturbed),
        },
    }
    why_not = _too_low(outcomes, "clean accuracy") or too_few_calls
    if why_not:
        return figures | {"gap": None, "gap_why": why_not}
    return figures | {"gap": _difference(paired_difference(clean, perturbed, seed=seed))}


def _too_low(outcomes: Sequence[Outcome], what: str) -> str | None:
    value, n = rate(outcome.clean_right for outcome in outcomes)
    if not n:
        return f"{what}: no case"
    return f"{what} is {value:.1%}, below {LEAST_CLEAN:.0%}" if value < LEAST_CLEAN else None


def _difference(difference: PairedDifference) -> dict[str, Any]:
    return {"value": difference.value, "ci": [difference.low, difference.high], "n": difference.n}


def _cell(values: Sequence[float]) -> dict[str, Any]:
    value, n = rate(values)
    return {"value": value if n else None, "n": n}


def _failures(verdicts: Iterable[Verdict]) -> dict[str, int]:
    return dict(Counter(str(verdict) for verdict in verdicts if verdict != Verdict.RIGHT).most_common())


def table(report: dict[str, Any]) -> str:
    """The report for a person: one line an arm, decoding and group of cases; then why calls were wrong, and leads."""
    rows = [("model", "decoding", "cases", "n", "clean", "perturbed", "gap [95% CI]", "all variants")]
    notes = []
    for arm, decodings in report["arms"].items():
        for decoding, figures in decodings.items():
            for name, group in {"all": figures, **figures["categories"]}.items():
                rows.append((arm, decoding, name, str(group["clean"]["n"]), *_shown(group)))
            failures = figures["categories"]["calls"]["failures"]
            parts = (f"{when}: {_listed(failures[when])}" for when in ("clean", "perturbed"))
            notes.append(f"{arm} {decoding}, calls that failed, {'; '.join(parts)}")
    for arm, decodings in report["leads"].items():
        for decoding, leads in decodings.items():
            parts = (f"{when} {_points(difference)}" for when, difference in leads.items())
            notes.append(f"{arm} - {BASELINE}, {decoding}, calls: {', '.join(parts)}")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *notes])


def _shown(group: dict[str, Any]) -> tuple[str, str, str, str]:
    clean, perturbed, every = (
        "-" if group[name]["value"] is None else f"{group[name]['value']:.1%}"
        for name in ("clean", "perturbed", "all_variants_correct")
    )
    gap = f"none: {group['gap_why']}" if group["gap"] is None else _points(group["gap"])
    return clean, perturbed, gap, every


def _points(difference: dict[str, Any]) -> str:
    low, high = difference["ci"]
    return f"{100 * difference['value']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def _listed(failures: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in failures.items()) or "none"
