"""How a model does under a harness of your own: T1, T2 under held-out surfaces, and every failed case as it was.

python -m components.evaluation --harness DIR --model DIR [--out DIR]
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from components.avatar.agent.surfaces import Surfaces, surfaces_of
from components.avatar.simulator.merchant import load_merchant
from components.evaluation.run import run
from components.evaluation.settings import Settings
from components.integrations.cli import exit_status
from components.integrations.metrics import read_json, write_json, write_metrics
from components.integrations.progress import Progress
from components.integrations.weights import check_model_folder

FAILURES_FILE = "failures.txt"
SHOWN = 3  # failed cases in the terminal
MODEL = "model"  # the key of the one model in evaluation.json
ROWS = {
    "T1": "quality under this harness",
    "T2": "quality under held-out names and wordings",
    "gap": "T1 - T2",
    "T3": "quality with faults, a missing tool, decoys",
    "absent_name_rate": "calls by a name that the prompt lacks",
    "selection_error_rate": "calls that select the wrong tool or skill",
    "copy_error_rate": "calls that mean the right one and miswrite it",
    "persona_rate": "replies that keep the persona",
    "violation_rate": "replies that break a hook",
}


def evaluate_harness(
    harness: Path, model: Path, out: Path, settings: Settings, seed: int = 0, surfaces: Path | None = None
) -> dict[str, Any]:
    """The content of evaluation.json for one model under merchant folder `harness`; writes it, cases.jsonl,
    metrics.json and failures.txt into `out`.

    `surfaces`: surfaces.json of the model's training; with it T2 is proven to be new to the model, without it only to
    differ from the harness at hand. Raises InputError with all faults of the folders.
    """
    world = load_merchant(harness)
    check_model_folder(model)
    out.mkdir(parents=True, exist_ok=True)
    if surfaces is None:
        surfaces = out / "surfaces.json"
        own: Surfaces = surfaces_of([world.harness])
        write_json(surfaces, own.model_dump(mode="json"))
    progress = Progress("evaluation", out / "progress.jsonl")
    metrics = run(
        merchant=harness,
        models={MODEL: model},
        surfaces=surfaces,
        output=out,
        settings=settings,
        seed=seed,
        progress=progress,
    )
    write_metrics(out, metrics)
    (out / FAILURES_FILE).write_text("\n\n".join(map(as_text, failed_cases(out))) + "\n", encoding="utf-8")
    return read_json(out / "evaluation.json")


def failed_cases(out: Path) -> list[dict[str, Any]]:
    """Rows of cases.jsonl that failed, those of T1 first: what fails under the harness as it is comes before what fails
    when it changes."""
    lines = (out / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    failed = [row for row in map(json.loads, lines) if row["failed"]]
    return sorted(failed, key=lambda row: (row["decoding"] != "free", row["suite"]))


def as_text(row: dict[str, Any]) -> str:
    """One case for a person: who said what, and what the verifiers found."""
    found = []
    for reply in row["replies"]:
        found += [f"false: {claim}" for claim in reply["false_claims"]]
        found += [f"missing: {fact}" for fact in reply["missing_facts"]]
        found += [f"broken rule: {rule}" for rule in reply["broken_rules"]]
    found += [f"no such name: {call['name']}" for call in row["calls"] if not call["known"]]
    found += [f"ended: {row['stop']}"] if not row["replies"] else []
    lines = [
        f"== {row['suite']} {row['decoding']}  {row['scenario']}  ({', '.join(row['families'])})",
        f"   tools: {', '.join(row['tools'])}",
        *(f"   {part['kind']:>10} | {' '.join(part['text'].split())}" for part in row["transcript"]),
        f"   {'found':>10} | {'; '.join(found) or 'a call that was not needed, or a detail missing'}",
    ]
    return "\n".join(lines)


def table(report: dict[str, Any]) -> str:
    """Figures of both decodings, each with its n."""
    decodings = report["models"][MODEL]
    lines = [f"{'':52}" + "".join(f"{decoding:>28}" for decoding in decodings)]
    for name, label in ROWS.items():
        cells = "".join(f"{_cell(metrics.get(name)):>28}" for metrics in decodings.values())
        lines.append(f"{label:52}{cells}")
    return "\n".join(lines)


def _cell(metric: dict[str, Any] | None) -> str:
    if metric is None or metric["value"] is None:
        return "-"
    interval = metric.get("ci")
    shown = f" [{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]" if interval else ""
    return f"{100 * metric['value']:.1f}%{shown} (n={metric['n']})"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0, 1 for a fault of ours or the machine's, 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m components.evaluation", description="Evaluate a model under a harness of your own."
    )
    parser.add_argument("--harness", type=Path, required=True, metavar="DIR", help="merchant folder")
    parser.add_argument("--model", type=Path, required=True, metavar="DIR", help="model folder (transformers)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: runs/evaluation-<name of the harness folder>")
    parser.add_argument("--surfaces", type=Path, metavar="FILE", help="surfaces.json of the model's training")
    parser.add_argument("--cases", type=int, default=60, help="cases of T1 and of T2 (default: 60)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    out = options.out or Path("runs") / f"evaluation-{options.harness.resolve().name}"
    if options.cases < 1:
        parser.error("--cases: at least 1")

    def work() -> None:
        settings = Settings(
            cases=options.cases, robustness_cases=options.cases // 4, general_prompts=0, latency_cases=0
        )
        report = evaluate_harness(options.harness, options.model, out, settings, options.seed, options.surfaces)
        print(f"\n{table(report)}\n")
        _show(failed_cases(out), out)

    return exit_status(work)


def _show(failed: Sequence[dict[str, Any]], out: Path) -> None:
    shown: Iterable[str] = map(as_text, failed[:SHOWN])
    print("\n\n".join(shown) if failed else "no case failed")
    print(f"\n{len(failed)} failed cases of both decodings: {out / FAILURES_FILE}; all cases: {out / 'cases.jsonl'}")
