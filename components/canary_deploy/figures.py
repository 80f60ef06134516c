"""Plot of a validation: which verdict, how often, at which true effect."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

COLOURS = {"promote": "#2a9d8f", "hold": "#d9d9d9", "rollback": "#e76f51"}
PANELS = {
    "statistic": "GMV statistic (superior)",
    "decision": "decide() (superior)",
    "decision_non_inferior": "decide() (non-inferior)",
    "naive_t_test": "naive viewer t-test, 20 peeks",
}


def verdict_bars(result: dict, path: Path) -> None:
    """Stacked shares of verdicts by true effect, one panel a judge."""
    effects = list(result["effects"])
    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(14, 3.6), sharey=True)
    for axis, (judge, title) in zip(axes, PANELS.items(), strict=True):
        bottom = [0.0] * len(effects)
        for verdict, colour in COLOURS.items():
            shares = [result["effects"][effect][judge][verdict] for effect in effects]
            axis.bar(effects, shares, bottom=bottom, color=colour, label=verdict, width=0.8)
            bottom = [low + share for low, share in zip(bottom, shares, strict=True)]
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("true effect on GMV per viewer")
        axis.tick_params(axis="x", rotation=45)
    axes[0].set_ylabel("share of rollouts")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="upper right", fontsize=8)
    figure.tight_layout(rect=(0, 0, 0.93, 1))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
