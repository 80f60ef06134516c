"""The table of models and metrics: the same rows for the terminal and for the report."""

from dataclasses import dataclass
from typing import Any

from pipelines.steps import MODELS

DECODINGS = ("free", "constrained")

COLUMNS = {
    "T1": "T1",
    "T2": "T2",
    "gap": "T1 - T2 [95% CI]",
    "lead_T2": "T2 lead over baseline [95% CI]",
    "T3": "T3",
    "general": "general",
    "p95_s": "P95",
}
"""Metric -> heading. T1: own harnesses, T2: the same cases under held-out surfaces, T3: faults and decoys."""


@dataclass(frozen=True)
class Row:
    """One model under one decoding; `cells` run parallel to the columns."""

    model: str
    label: str
    decoding: str
    cells: tuple[str, ...]


def result_rows(metrics: dict[str, dict[str, Any]]) -> list[Row]:
    """Rows in the order in which the models come to be; a model that was not evaluated has none."""
    rows = []
    for model, label in MODELS.items():
        for decoding in DECODINGS:
            suffix = "" if decoding == "free" else f"_{decoding}"
            cells = [metrics.get(f"{model}.{name}{suffix}") for name in COLUMNS]
            if any(cells):
                shown = tuple(format_metric(name, cell) for name, cell in zip(COLUMNS, cells, strict=True))
                rows.append(Row(model, label, decoding, shown))
    return rows


def format_metric(name: str, metric: dict[str, Any] | None) -> str:
    """Rates as percent, differences in points with their interval, times in seconds; a dash for what was not
    measured.
    """
    if metric is None or metric["value"] is None:
        return "-"
    value = metric["value"]
    if name in ("gap", "lead_T1", "lead_T2"):
        interval = metric.get("ci")
        shown = f"{100 * value:+.1f}"
        return shown + (f" [{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]" if interval else "")
    if name.endswith("_s"):
        return f"{value:.2f} s"
    return f"{100 * value:.1f}%"


def result_table(summary: dict[str, Any]) -> str:
    """What a person reads at the end of a run: models, gates, canary."""
    lines = []
    rows = result_rows(summary["metrics"])
    if rows:
        cells = [("model", "decoding", *COLUMNS.values()), *((row.label, row.decoding, *row.cells) for row in rows)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(cells[0]))]
        lines += [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        lines.insert(1, "  ".join("-" * width for width in widths))
        sizes = ", ".join(f"{suite} {_cases(summary['metrics'], suite):g}" for suite in ("T1", "T2", "T3", "general"))
        lines += [f"cases: {sizes}; P95: seconds of one viewer's turn answered alone on this machine", ""]
    lines += [
        f"gate {name}: {'passed' if gate['passed'] else 'NOT passed'} - {gate['why']}"
        for name, gate in summary["gates"].items()
    ]
    if summary["model_version"]:
        lines.append(f"registered: avatar-agent version {summary['model_version']}")
    canary = summary["canary"]
    lines.append(f"canary: {canary['verdict'] or 'not run'} - {canary['why']}")
    return "\n".join(lines)


def _cases(metrics: dict[str, dict[str, Any]], suite: str) -> float:
    return max((metric["n"] for key, metric in metrics.items() if key.endswith(f".{suite}")), default=0)
