"""Plots of a run as inline SVG: text stays text, nothing is fetched."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLORS = {
    "base": "#94a3b8",
    "fixed_sft": "#e08a3c",
    "hsa_sft": "#5aa9a4",
    "hsa_sft_opd": "#3f7fc1",
    "hat": "#2446a8",
    "fixed_rl": "#a8617a",
}

pyplot.rcParams |= {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#94a3b8",
    "axes.labelcolor": "#475569",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e2e8f0",
    "xtick.color": "#475569",
    "ytick.color": "#475569",
    "legend.frameon": False,
    "legend.fontsize": 8,
}


def line_plot(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: str,
    y: str,
    colors: dict[str, str] | None = None,
) -> str | None:
    """Curves of (x, y) points by name; None when there is no point."""
    series = {name: points for name, points in series.items() if points}
    if not series:
        return None
    figure, axes = _figure(title)
    for name, points in series.items():
        xs, ys = zip(*points, strict=True)
        axes.plot(
            xs, ys, label=name, linewidth=1.6, color=(colors or {}).get(name), marker="o" if len(xs) < 4 else None
        )
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if len(series) > 1:
        axes.legend()
    return _svg(figure, title)


def grouped_bars(
    title: str,
    groups: Sequence[str],
    bars: Mapping[str, Sequence[float | None]],
    *,
    y: str,
    colors: dict[str, str],
    percent: bool = False,
) -> str | None:
    """One cluster a group, one bar a name in it; a None leaves a gap. None when nothing was measured."""
    bars = {name: values for name, values in bars.items() if any(value is not None for value in values)}
    if not bars:
        return None
    figure, axes = _figure(title)
    width = 0.8 / len(bars)
    for place, (name, values) in enumerate(bars.items()):
        for group, value in enumerate(values):
            if value is None:
                continue
            at = group + (place - (len(bars) - 1) / 2) * width
            axes.bar(at, value, width * 0.92, color=colors.get(name), label=name if group == 0 else None)
            text = f"{100 * value:.0f}" if percent else f"{value:.2g}"
            axes.text(at, value, text, ha="center", va="bottom", fontsize=7, color="#475569")
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylabel(y)
    if percent:
        axes.set_ylim(0, 1.12)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1.0], ["0%", "25%", "50%", "75%", "100%"])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
    return _svg(figure, title)


def stacked_shares(
    title: str,
    groups: Sequence[str],
    shares: Mapping[str, Sequence[float]],
    *,
    x: str,
    y: str,
    colors: dict[str, str],
) -> str | None:
    """One bar a group, made of the shares (fractions that add up to 1) of each name."""
    if not groups:
        return None
    figure, axes = _figure(title)
    bottom = [0.0] * len(groups)
    for name, values in shares.items():
        axes.bar(range(len(groups)), values, 0.8, bottom=bottom, color=colors[name], label=name)
        bottom = [low + value for low, value in zip(bottom, values, strict=True)]
    axes.set_xticks(range(len(groups)), groups)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_yticks([0, 0.5, 1.0], ["0%", "50%", "100%"])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=len(shares))
    return _svg(figure, title)


def step_bars(title: str, seconds: dict[str, float]) -> str | None:
    """Horizontal bars: how long each step took."""
    if not seconds:
        return None
    figure, axes = _figure(title, height=0.32 * len(seconds) + 0.9)
    names = list(seconds)
    axes.barh(names, [value / 60 for value in seconds.values()], color="#3f7fc1", height=0.62)
    for place, value in enumerate(seconds.values()):
        axes.text(value / 60, place, f"  {value:.0f} s", va="center", fontsize=7, color="#475569")
    axes.invert_yaxis()
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("minutes")
    return _svg(figure, title)


def interval_plot(title: str, rows: Sequence[dict[str, Any]], *, x: str) -> str | None:
    """Estimates with their intervals, one a line: rows of {"name", "effect", "low", "high"}."""
    if not rows:
        return None
    figure, axes = _figure(title, height=0.34 * len(rows) + 0.9)
    for place, row in enumerate(rows):
        axes.plot([row["low"], row["high"]], [place, place], color="#3f7fc1", linewidth=3, solid_capstyle="round")
        axes.plot(row["effect"], place, "o", color="#2446a8", markersize=5)
    axes.axvline(0, color="#94a3b8", linewidth=1)
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(x)
    return _svg(figure, title)


def _figure(title: str, height: float = 2.9) -> tuple[Figure, Axes]:
    figure, axes = pyplot.subplots(figsize=(5.4, height), layout="constrained")
    axes.set_title(title)
    return figure, axes


def _svg(figure: Figure, title: str) -> str:
    # The salt makes ids of clip paths differ between the figures of one page, and be the same for the same figure.
    with pyplot.rc_context({"svg.hashsalt": title}):
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    label = title.replace("&", "and").replace('"', "'")
    return re.sub(
        r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', rf'<svg \1role="img" aria-label="{label}"', text, count=1
    )
