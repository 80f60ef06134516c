"""The section on `canary_validation.json`: what the canary's decision does on simulated rollouts whose true effect is
known."""

from pathlib import Path
from typing import Any

from markupsafe import Markup

from components.integrations.metrics import read_json
from pipelines.report import plots

FILE = "canary_validation.json"
COLORS = {"promote": "#2a9d8f", "hold": "#d9dee7", "rollback": "#e76f51"}
JUDGES = {
    "statistic": "GMV statistic, mode superior",
    "decision": "Whole decision, mode superior",
    "decision_non_inferior": "Whole decision, mode non-inferior",
    "naive_t_test": "Viewer-level t-test with peeking",
}


def read_validation(folder: Path) -> dict[str, Any] | None:
    """What the templates show of the folder's `canary_validation.json`, None when it has none."""
    if not (folder / FILE).is_file():
        return None
    result = read_json(folder / FILE)
    return {
        "plots": [Markup(svg) for svg in _plots(result) if svg],
        "rows": _rows(result),
        "faults": [{"name": name.replace("_", " "), **fault} for name, fault in result["faults"].items()],
        "settings": f"{result['aa']['runs']} A/A rollouts, {result['settings']['effect_runs']} of each other effect, "
        f"{result['settings']['rooms_per_arm']} rooms an arm, seed {result['settings']['seed']}",
    }


def _plots(result: dict[str, Any]) -> list[str | None]:
    names = [f"{100 * float(effect):+.0f}%" if float(effect) else "A/A" for effect in result["effects"]]
    return [
        plots.stacked_shares(
            title,
            names,
            {verdict: [row[judge][verdict] for row in result["effects"].values()] for verdict in COLORS},
            x="true effect on GMV per viewer",
            y="share of rollouts",
            colors=COLORS,
        )
        for judge, title in JUDGES.items()
    ]


def _rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    """One a claim; `held` says whether the interval (or, without one, the value) is compatible with the limit."""
    aa, loss = result["aa"], result["effects"].get("-0.10")
    up, back = aa["promotion_upward_ci"], aa["guardrail_rollback_ci"]
    rows = [
        _row("A/A: GMV boundary crossed upward", aa["promotion_upward"], up, "2.5%", up[0] <= 0.025 <= up[1]),
        _row("A/A: rolled back by any guardrail", aa["guardrail_rollback"], back, "at most 1%", back[0] <= 0.01),
        _row(f"A/A: t-test with {result['settings']['peeks']} peeks is wrong", aa["naive_false_positive"]),
        _row("A/A: t-test with one look is wrong", aa["naive_one_look"]),
    ]
    if loss is not None:
        for key, mode in (("decision", "superior"), ("decision_non_inferior", "non-inferior")):
            share = loss[key]["promote"]
            rows.append(_row(f"GMV -10%: promoted, mode {mode}", share, None, "at most 1%", share <= 0.01))
    if (gain := result["effects"].get("+0.10")) is not None:
        power, fixed = gain["statistic"]["promote"], result["fixed_n_power_plus_10"]
        within = abs(power - fixed) <= 0.03
        rows.append(_row("GMV +10%: power of the statistic", power, None, f"{fixed:.1%} (fixed N) +- 3 points", within))
    for share, events in result["tool_error_burst_events"].items():
        question = f"replies until a burst of {float(share):.0%} tool errors rolls back, most"
        rows.append(_row(question, f"{events['most']:g}", None, "at most 20", events["most"] <= 20))
    joining = result["joining"]
    question, seconds = f"processor seconds to parse and join {joining['events']} events", joining["seconds"]
    rows.append(_row(question, f"{seconds:.1f}", None, "at most 5", seconds <= 5))
    return rows


def _row(
    question: str, value: float | str, interval: list[float] | None = None, limit: str = "", held: bool | None = None
) -> dict[str, Any]:
    return {
        "question": question,
        "value": value if isinstance(value, str) else f"{value:.1%}",
        "interval": "" if interval is None else f"{interval[0]:.1%} to {interval[1]:.1%}",
        "limit": limit,
        "held": held,
    }
