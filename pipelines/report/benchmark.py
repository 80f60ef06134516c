"""The section on `hat.json`: the arms of the method, what each stage brings, and which goals are met."""

from pathlib import Path
from typing import Any

from markupsafe import Markup

from components.integrations.metrics import read_json
from pipelines.benchmark.results import percent
from pipelines.report import plots
from pipelines.steps import MODELS

FILE = "hat.json"
COLUMNS = {
    "T1": "T1",
    "T2": "T2",
    "gap": "T1 - T2 [95% CI]",
    "T3": "T3",
    "pass3": "pass^3",
    "general": "general",
    "selection_error_rate": "selection errors",
    "copy_error_rate": "copy errors",
    "stale_name_rate": "stale names",
    "p95_s": "P95",
}


def read_benchmark(folder: Path) -> dict[str, Any] | None:
    """What the templates show of the folder's `hat.json`, None when it has none."""
    if not (folder / FILE).is_file():
        return None
    result = read_json(folder / FILE)
    return {
        "plots": [Markup(svg) for svg in _plots(result) if svg],
        "columns": list(COLUMNS.values()),
        "rows": [
            {
                "label": MODELS[arm],
                "decoding": decoding,
                "cells": [_cell(name, metrics.get(name)) for name in COLUMNS],
            }
            for arm, decodings in result["arms"].items()
            for decoding, metrics in decodings.items()
        ],
        "goals": result["goals"],
        "comparisons": [row | {"difference": percent(row)} for row in result["comparisons"]],
        "seeds": _seeds(result),
        "settings": f"profile {result['profile']}, seeds {', '.join(map(str, result['seeds']))}, "
        f"{result['evaluation']['cases']} pairs of T1 and T2, {result['evaluation']['general_prompts']} general prompts"
        + (f", models of {Path(result['models_from']).name}" if result["models_from"] else ""),
    }


def _plots(result: dict[str, Any]) -> list[str | None]:
    arms, colors = result["arms"], {label: plots.COLORS[arm] for arm, label in MODELS.items()}
    drawn = [
        plots.grouped_bars(
            f"Quality by arm, {decoding} decoding",
            ["T1", "T2", "T3"],
            {MODELS[arm]: [_value(arms[arm][decoding], suite) for suite in ("T1", "T2", "T3")] for arm in arms},
            y="quality",
            colors=colors,
            percent=True,
        )
        for decoding in ("free", "constrained")
    ]
    errors = ("selection_error_rate", "copy_error_rate", "stale_name_rate")
    drawn.append(
        plots.grouped_bars(
            "Errors in calls on T2, free decoding",
            ["selection", "copy", "stale name"],
            {MODELS[arm]: [_value(arms[arm]["free"], f"T2.{error}") for error in errors] for arm in arms},
            y="share of calls",
            colors=colors,
            percent=True,
        )
    )
    rows = [
        {
            "name": f"{row['arm']} - {row['other']}, {row['metric']} ({row['decoding']})",
            "effect": 100 * row["value"],
            "low": 100 * row["ci"][0],
            "high": 100 * row["ci"][1],
        }
        for row in result["comparisons"]
    ]
    drawn.append(plots.interval_plot("What each stage brings", rows, x="points, paired (95% interval)"))
    return drawn


def _seeds(result: dict[str, Any]) -> list[dict[str, str]]:
    """T1 and T2 of every seed, one row a seed, arm and decoding."""
    return [
        {
            "seed": seed,
            "label": MODELS[arm],
            "decoding": decoding,
            "T1": percent(cells["T1"]),
            "T2": percent(cells["T2"]),
        }
        for seed, arms in result["by_seed"].items()
        for arm, decodings in arms.items()
        for decoding, cells in decodings.items()
    ]


def _value(metrics: dict[str, Any], name: str) -> float | None:
    return metrics[name]["value"] if name in metrics else None


def _cell(name: str, metric: dict[str, Any] | None) -> tuple[str, str]:
    """Text of a cell and its n."""
    if metric is None or metric["value"] is None:
        return "-", ""
    return f"{metric['value']:.2f} s" if name.endswith("_s") else percent(metric), f"n={metric['n']:g}"
