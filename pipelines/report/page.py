"""RUN_DIR/report.html: the run for a person. One file, no request to anywhere."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup

from components.avatar.errors import Fault, InputError
from components.integrations.html import render_page
from components.integrations.metrics import read_json
from components.integrations.progress import duration
from components.integrations.task import read_states
from pipelines.report import plots
from pipelines.report.benchmark import FILE as BENCHMARK_FILE
from pipelines.report.benchmark import read_benchmark
from pipelines.report.rollouts import rollout_viewer
from pipelines.report.table import COLUMNS, format_metric, result_rows
from pipelines.report.validation import FILE, read_validation
from pipelines.steps import MODELS, STEPS
from pipelines.summary import output_of

STAGES = {
    "sft_fixed": ("fixed-harness SFT", plots.COLORS["fixed_sft"]),
    "sft_hsa": ("HSA-SFT", plots.COLORS["hsa_sft"]),
    "distillation": ("distillation", plots.COLORS["hsa_sft_opd"]),
    "simulator_rl": ("simulator RL", plots.COLORS["hat"]),
}

DETAIL_METRICS = (
    "accuracy",
    "effectiveness",
    "tool_rationality",
    "skill_selection",
    "stale_name_rate",
    "absent_name_rate",
    "selection_error_rate",
    "copy_error_rate",
    "decoy_call_rate",
    "fabricated_rate",
    "recovery_rate",
    "persona_rate",
    "violation_rate",
    "strict_parse_rate",
    "repaired_parse_rate",
    "reward_agreement",
)


def write_report(run_dir: Path, summary: dict[str, Any], lineage: dict[str, str]) -> Path:
    """Write the report of a run, finished or not, from its summary and the steps' outputs; `lineage` names what went
    in.
    """
    return _write(
        run_dir,
        "page.jinja",
        run=run_dir.name,
        summary=summary,
        verdict=_verdict(summary),
        cards=_cards(summary["metrics"]),
        columns=list(COLUMNS.values()),
        rows=result_rows(summary["metrics"]),
        details=_details(summary["metrics"]),
        plots=[Markup(svg) for svg in _plots(run_dir, summary) if svg],
        canary=_canary(run_dir),
        validation=read_validation(run_dir),
        benchmark=read_benchmark(run_dir),
        rollouts=rollout_viewer(
            _jsonl(run_dir, "evaluation", "cases.jsonl"), _jsonl(run_dir, "simulator_rl", "rollouts.jsonl")
        ),
        lineage=lineage,
        minutes=duration(sum(_seconds(run_dir).values())),
    )


def rewrite_report(folder: Path) -> Path:
    """Write the report of a run folder again, or, where no run ended, of the arms' benchmark or the canary's
    validation.

    Raises InputError when the folder holds none of them.
    """
    if (folder / "summary.json").is_file():
        return write_report(
            folder, read_json(folder / "summary.json"), read_json(folder / "run.json").get("inputs", {})
        )
    validation, benchmark = read_validation(folder), read_benchmark(folder)
    if benchmark is not None:
        return _write(folder, "benchmark_page.jinja", benchmark=benchmark)
    if validation is None:
        allowed = f"the folder of a run, or one with {BENCHMARK_FILE} or {FILE}"
        raise InputError([Fault(str(folder), "folder", "no summary.json", allowed)])
    return _write(folder, "validation_page.jinja", validation=validation)


def _write(folder: Path, template: str, **values: Any) -> Path:
    path = folder / "report.html"
    path.write_text(render_page(Path(__file__).with_name(template), **values), encoding="utf-8")
    return path


def _verdict(summary: dict[str, Any]) -> dict[str, str]:
    """Word, colour class and reason for the head of the page."""
    failed = [step for step, row in summary["steps"].items() if row["status"] == "failed"]
    closed = [f"{name}: {gate['why']}" for name, gate in summary["gates"].items() if not gate["passed"]]
    canary = summary["canary"]
    if failed:
        return {"word": "failed", "tone": "bad", "why": f"step {failed[0]} failed; the run can be resumed"}
    if summary["steps"]["teacher_generation"]["status"] == "skipped":
        return {"word": "no retraining", "tone": "good", "why": summary["gates"]["harness_gate"]["why"]}
    if summary["model_version"] is None and closed:
        return {"word": "not registered", "tone": "warn", "why": "; ".join(closed)}
    if canary["verdict"] is None:
        return {"word": "no rollout", "tone": "warn", "why": canary["why"]}
    tone = {"promote": "good", "hold": "warn", "rollback": "bad"}[canary["verdict"]]
    return {"word": canary["verdict"], "tone": tone, "why": canary["why"]}


def _cards(metrics: dict[str, dict[str, Any]]) -> list[dict[str, str]]:
    wanted = (
        ("hat.T1", "T1", "new model, merchants' own harnesses, free decoding"),
        ("hat.T2", "T2", "new model, the same cases under surfaces never seen in training"),
        ("hat.lead_T2", "T2 lead", "points over the fixed-harness baseline, 95% interval"),
        ("hat.gap", "T1 - T2", "points lost when the harness changes, 95% interval"),
    )
    cards = []
    for key, heading, meaning in wanted:
        if key in metrics:
            shown = format_metric(key.partition(".")[2], metrics[key])
            value, _, interval = shown.partition(" [")
            cards.append(
                {
                    "heading": heading,
                    "value": value,
                    "interval": f"[{interval}" if interval else f"n = {metrics[key]['n']:g}",
                    "meaning": meaning,
                }
            )
    return cards


def _details(metrics: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Every further rate by model and decoding, each with its n."""
    columns = [(m, d) for m in MODELS for d in ("", "_constrained") if f"{m}.T1{d}" in metrics]
    rows = [
        (name.replace("_", " "), [metrics.get(f"{model}.{name}{decoding}") for model, decoding in columns])
        for name in DETAIL_METRICS
    ]
    return {
        "columns": [(MODELS[model], decoding.removeprefix("_") or "free") for model, decoding in columns],
        "rows": [
            (name, [(format_metric(name, cell), "" if cell is None else f"n={cell['n']:g}") for cell in cells])
            for name, cells in rows
            if any(cells)
        ],
    }


def _plots(run_dir: Path, summary: dict[str, Any]) -> Iterator[str | None]:
    metrics = summary["metrics"]
    models = [model for model in MODELS if f"{model}.T1" in metrics or f"{model}.T1_constrained" in metrics]
    for decoding in ("", "_constrained"):
        yield plots.grouped_bars(
            f"Quality by model, {decoding.removeprefix('_') or 'free'} decoding",
            ["T1", "T2", "T3"],
            {MODELS[m]: [_value(metrics, f"{m}.{suite}{decoding}") for suite in ("T1", "T2", "T3")] for m in models},
            y="quality",
            colors={MODELS[m]: plots.COLORS[m] for m in models},
            percent=True,
        )
    curves = {step: _jsonl(run_dir, step, "curves.jsonl") for step in STAGES}
    colors = dict(STAGES.values())
    sft = {STAGES[step][0]: _points(curves[step], "loss") for step in ("sft_fixed", "sft_hsa")}
    yield plots.line_plot("SFT loss", sft, x="optimizer step", y="loss a token", colors=colors)
    opd = {"reverse KL": _points(curves["distillation"], "loss")}
    yield plots.line_plot("Distillation loss", opd, x="optimizer step", y="reverse KL to the base model")
    rewards = {
        name: _points(curves["simulator_rl"], f"rewards/{name}/mean")
        for name in ("accuracy", "effectiveness", "tool_rationality", "skill_selection")
    }
    yield plots.line_plot("RL rewards", rewards, x="optimizer step", y="mean reward of a batch")
    latency = {MODELS[m]: [_value(metrics, f"{m}.p50_s"), _value(metrics, f"{m}.p95_s")] for m in models}
    yield plots.grouped_bars(
        "Latency of one viewer's turn",
        ["P50", "P95"],
        latency,
        y="seconds",
        colors={MODELS[m]: plots.COLORS[m] for m in models},
    )
    yield plots.interval_plot(
        "Canary against control", _canary_intervals(run_dir), x="relative difference, % (95% interval)"
    )
    yield plots.step_bars("Time by step", _seconds(run_dir))


def _seconds(run_dir: Path) -> dict[str, float]:
    """How long each step took when it ran: in this attempt or, for a cached one, in an earlier attempt."""
    states = read_states(run_dir)
    return {step: states[step].seconds for step in STEPS if step in states and states[step].seconds}


def _value(metrics: dict[str, dict[str, Any]], key: str) -> float | None:
    return metrics[key]["value"] if key in metrics else None


def _points(rows: list[dict[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(row["step"], row[name]) for row in rows if name in row]


def _jsonl(run_dir: Path, step: str, name: str) -> list[dict[str, Any]]:
    folder = output_of(run_dir, step)
    if folder is None or not (folder / name).is_file():
        return []
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def _canary(run_dir: Path) -> dict[str, Any] | None:
    folder = output_of(run_dir, "canary_deploy")
    return None if folder is None else json.loads((folder / "canary.json").read_text(encoding="utf-8"))


def _canary_intervals(run_dir: Path) -> list[dict[str, Any]]:
    """Relative effects of the canary arm (GMV, latency) with their fixed-sample intervals, in percent."""
    effects = (_canary(run_dir) or {}).get("effects", {})
    return [
        {"name": name.replace("_", " "), **{key: 100 * row[key] for key in ("effect", "low", "high")}}
        for name, row in effects.items()
        if row["effect"] is not None and row["relative"]
    ]
