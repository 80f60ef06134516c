"""Train and evaluate the arms of the method: `make benchmark-hat`.

    python -m pipelines.benchmark --run-dir DIR [--profile local] [--seeds 0 1 2] [--from RUN_DIR]

Finished stages are kept: the same command goes on where it was stopped. Writes DIR/hat.json and DIR/report.html.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from components.evaluation.settings import Settings as Evaluation
from components.integrations.cli import exit_status, validate_settings
from components.integrations.progress import duration
from pipelines.benchmark.arms import ARMS
from pipelines.benchmark.results import table
from pipelines.benchmark.run import RESULT_FILE, benchmark, track
from pipelines.environment import step_environment
from pipelines.profile import load_profile
from pipelines.report.page import rewrite_report

SIZES = {  # setting of the evaluation -> default here, and what it counts
    "cases": (430, "pairs of T1 and T2"),
    "robustness_cases": (120, "cases of T3"),
    "pass_cases": (100, "cases of pass3"),
    "general_prompts": (1400, "general prompts"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 (a goal that is not met is a result), 1 when a stage failed, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.benchmark", description="Measure the method's claim.")
    parser.add_argument("--run-dir", type=Path, default=Path("runs/benchmark-hat"), metavar="DIR")
    parser.add_argument("--profile", default="local", help="whose training settings the arms have (default: local)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--from", dest="from_run", type=Path, metavar="RUN_DIR", help="models of a finished run")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS), help="arms of the first seed")
    for name, (default, meaning) in SIZES.items():
        text = f"{meaning} (default: {default})"
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, metavar="N", help=text)
    options = parser.parse_args(argv)
    os.environ.update(step_environment())
    return exit_status(lambda: _run(options), "go on with the same command")


def _run(options: argparse.Namespace) -> None:
    run_dir = options.run_dir.resolve()
    sizes = {name: getattr(options, name) for name in SIZES}
    evaluation = validate_settings(Evaluation, sizes, "command line")
    profile = load_profile(options.profile)
    arms = tuple(arm for arm in ARMS if arm in options.arms)
    result = benchmark(profile, run_dir, options.seeds, evaluation, from_run=options.from_run, arms=arms)
    report = rewrite_report(run_dir)
    track(profile, run_dir, result)
    print(f"\n{table(result)}\n\nmeasured in {duration(result['seconds'])}")
    print(f"result   {run_dir / RESULT_FILE}\nreport   {report}")


if __name__ == "__main__":
    raise SystemExit(main())
