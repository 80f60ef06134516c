"""From verdicts to figures: accuracy, surface gap, all variants correct; each with the n that it rests on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.avatar.agent.metrics import paired_difference, rate
from components.evaluation.bfcl.checker import Verdict
from components.evaluation.bfcl.data import CATEGORIES, Category

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
    """Figures over all cases; in `categories` those of each category and of `calls`, the cases that need a call; in
    `failures` how often each failure occurred.

    A model that never calls passes every irrelevance case, so a gap needs LEAST_CLEAN accuracy on `calls` as well.
    """
    calls = [outcome for outcome in outcomes if outcome.category != "irrelevance"]
    value, n = rate(outcome.clean_right for outcome in calls)
    hardly_calls = None
    if not n or value < LEAST_CLEAN:
        hardly_calls = f"clean accuracy on the cases that need a call is {value:.1%}, below {LEAST_CLEAN:.0%}"
        if not n:
            hardly_calls = "no case that needs a call"
    groups = {category: [o for o in outcomes if o.category == category] for category in CATEGORIES} | {"calls": calls}
    return {
        **_figures(outcomes, hardly_calls, seed),
        "categories": {name: _figures(group, hardly_calls, seed) for name, group in groups.items()},
        "failures": {
            "clean": _failures(o.clean for o in outcomes),
            "perturbed": _failures(verdict for o in outcomes for verdict in o.perturbed),
        },
    }


def _figures(outcomes: Sequence[Outcome], hardly_calls: str | None, seed: int) -> dict[str, Any]:
    """`perturbed` is the mean over cases of the share of variants that are right; `n` counts cases everywhere."""
    clean = [float(outcome.clean_right) for outcome in outcomes]
    perturbed = [outcome.perturbed_right for outcome in outcomes]
    figures: dict[str, Any] = {
        "clean": _cell(clean),
        "perturbed": _cell(perturbed),
        "all_variants_correct": _cell([float(share == 1) for share in perturbed]),
        "gap": None,
    }
    accuracy = figures["clean"]["value"]
    if accuracy is None:
        return figures | {"gap_why": "no case"}
    if accuracy < LEAST_CLEAN:
        return figures | {"gap_why": f"clean accuracy is {accuracy:.1%}, below {LEAST_CLEAN:.0%}"}
    if hardly_calls:
        return figures | {"gap_why": hardly_calls}
    gap = paired_difference(clean, perturbed, seed=seed)
    return figures | {"gap": {"value": gap.value, "ci": [gap.low, gap.high], "n": gap.n}}


def _cell(values: Sequence[float]) -> dict[str, Any]:
    value, n = rate(values)
    return {"value": value if n else None, "n": n}


def _failures(verdicts) -> dict[str, int]:
    return dict(Counter(str(verdict) for verdict in verdicts if verdict != Verdict.RIGHT).most_common())


def table(report: dict[str, Any]) -> str:
    """The report for a person: one line an arm, decoding and group of cases."""
    rows = [("model", "decoding", "cases", "n", "clean", "perturbed", "gap [95% CI]", "all variants")]
    for arm, decodings in report["arms"].items():
        for decoding, figures in decodings.items():
            for name, group in {"all": figures, **figures["categories"]}.items():
                rows.append((arm, decoding, name, str(group["clean"]["n"]), *_shown(group)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _shown(group: dict[str, Any]) -> tuple[str, str, str, str]:
    clean, perturbed, every = (
        "-" if group[name]["value"] is None else f"{group[name]['value']:.1%}"
        for name in ("clean", "perturbed", "all_variants_correct")
    )
    gap = group["gap"]
    if gap is None:
        return clean, perturbed, f"none: {group['gap_why']}", every
    low, high = gap["ci"]
    return clean, perturbed, f"{100 * gap['value']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]", every
