"""Trials: what each setting of supervised fine-tuning brings, on the same share of a run's augmented examples.

    python -m pipelines.benchmark.trials --from RUN_DIR --run-dir DIR [--trials FILE] [--share 0.33] [--only NAME ...]

One budget of examples, one seed, one evaluation; a trial's time stands beside its figures, to be read as a ratio to the
first trial's. Finished stages are kept: the same command goes on where it was stopped. Writes DIR/trials.json.
"""

import argparse
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from components.avatar.agent.examples import Example, read_rows, write_rows
from components.avatar.errors import Fault, InputError
from components.avatar.harness.schema import content_digest
from components.evaluation.settings import Settings as Evaluation
from components.integrations.cli import exit_status, validate_settings
from components.integrations.metrics import METRICS_FILE, read_json, write_json
from components.sft.settings import Settings as Sft
from pipelines.benchmark.arms import Arm, Plan, evaluation_stage
from pipelines.benchmark.results import percent
from pipelines.benchmark.run import CACHE
from pipelines.benchmark.stages import RECORD, Stage, run_stage
from pipelines.digests import code_digest
from pipelines.environment import step_environment
from pipelines.preflight import preflight, refuse_cluster_profile
from pipelines.profile import Profile, load_profile
from pipelines.summary import output_of

TRIALS = Path(__file__).with_name("trials.yaml")
RESULT_FILE = "trials.json"
METRICS = ("T1", "T2", "skill_selection", "selection_error_rate", "copy_error_rate", "stale_name_rate", "general")


def load_trials(path: Path, profile: Profile, share: float) -> dict[str, Sft]:
    """Name -> settings: the profile's, with what the trial sets instead. General replay shrinks with the examples.

    Raises InputError for a file that cannot be read and for every setting that is not one."""
    try:
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError([Fault(str(path), "file", str(error), "a YAML file of trials")]) from error
    if not isinstance(read, dict) or not read or not all(isinstance(changes, dict) for changes in read.values()):
        raise InputError([Fault(str(path), "trials", repr(read)[:80], "a mapping: name -> settings that differ")])
    own = profile.sft.model_dump(exclude_unset=True)
    own["general_tokens"] = round(share * profile.sft.general_tokens)
    faults: list[Fault] = []
    trials: dict[str, Sft] = {}
    for name, changes in read.items():
        try:
            trials[str(name)] = validate_settings(Sft, own | changes, f"{path}: {name}")
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    return trials


def share_of(examples: Path, share: float) -> list[Example]:
    """About `share` of the examples, in their order: whole stretches of one harness, so that rows stay as full as they
    were, spread evenly over the curriculum."""
    groups = [list(group) for _, group in itertools.groupby(read_rows(examples, Example), lambda e: e.harness_digest)]
    kept = (group for number, group in enumerate(groups) if int((number + 1) * share) > int(number * share))
    return [example for group in kept for example in group]


def trial_plan(profile: Profile, root: Path, run_dir: Path, trials: dict[str, Sft], share: float) -> tuple[Plan, Path]:
    """One training stage a trial, below `root`, on a share of the examples of the finished pipeline run `run_dir`;
    second, its merchant's folder. Raises InputError when the run is not whole or of another merchant or base model."""
    prepared = preflight(profile, root, CACHE)
    source = output_of(run_dir, "harness_augmentation")
    if source is None:
        raise InputError([Fault(str(run_dir), "harness_augmentation", "no complete output", "a pipeline run")])
    examples = share_of(source / "hsa.jsonl", share)
    root.mkdir(parents=True, exist_ok=True)
    write_rows(root / "examples.jsonl", examples)
    inputs = content_digest([prepared.base_digest, [example.content for example in examples]])
    options = ("--model", str(prepared.base_model), "--examples", str(root / "examples.jsonl"))
    arms = {}
    for name, settings in trials.items():
        text = settings.model_dump_json(exclude_unset=True)
        stage = Stage(root / name, "sft", options, text, profile.seed, (), inputs)
        arms[name] = Arm(stage.folder / "model", stage)
    stages = tuple(arm.stage for arm in arms.values() if arm.stage)
    return Plan(profile.seed, arms, source / "surfaces.json", stages, inputs), prepared.merchant


def run_trials(
    profile: Profile, root: Path, run_dir: Path, trials: dict[str, Sft], share: float, evaluation: Evaluation
) -> dict[str, Any]:
    """Train and evaluate what is not done yet, one trial after the other; writes `root`/trials.json after each and
    returns its content."""
    refuse_cluster_profile(profile)
    plan, merchant = trial_plan(profile, root, run_dir, trials, share)
    result: dict[str, Any] = {
        "models_from": str(run_dir),
        "profile": profile.name,
        "seed": plan.seed,
        "share": share,
        "code_version": code_digest(),
        "evaluation": evaluation.model_dump(mode="json"),
        "trials": {},
    }
    for name, arm in plan.arms.items():
        assert arm.stage is not None
        measured = evaluation_stage(plan, name, merchant, root, evaluation.model_dump_json(exclude_unset=True))
        for stage in (arm.stage, measured):
            run_stage(stage, root / "trials.log")
        trained = read_json(arm.stage.folder / METRICS_FILE)
        result["trials"][name] = {
            "settings": trials[name].model_dump(mode="json", exclude_unset=True),
            "seconds": round(read_json(arm.stage.folder / RECORD)["seconds"], 1),
            "examples": trained["examples"]["value"],
            "tokens": trained["tokens"]["value"] + trained["general_tokens"]["value"],
            "decision_accuracy": trained["decision_accuracy_last"]["value"],
            "metrics": read_json(measured.folder / "evaluation.json")["models"][name],
        }
        write_json(root / RESULT_FILE, result)
        print(f"{table(result)}\n", flush=True)
    return result


def table(result: dict[str, Any]) -> str:
    """A line for each trial and decoding; time is a ratio to the first trial's, decisions their accuracy in the last
    tenth of the training steps."""
    columns = ("time", "tokens", "decisions", *METRICS)
    lines = [
        "  ".join(("trial".ljust(18), "decoding".ljust(11), *(c.removesuffix("_rate").rjust(15) for c in columns)))
    ]
    first = next(iter(result["trials"].values()))["seconds"]
    for name, trial in result["trials"].items():
        for decoding, metrics in trial["metrics"].items():
            cells = [f"{trial['seconds'] / first:.2f}", f"{trial['tokens']:.0f}", f"{trial['decision_accuracy']:.1%}"]
            cells += [percent(metrics.get(metric)) for metric in METRICS]
            lines.append("  ".join((name.ljust(18), decoding.ljust(11), *(cell.rjust(15) for cell in cells))))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0, 1 when a stage failed, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.benchmark.trials", description="Compare SFT settings.")
    parser.add_argument("--from", dest="from_run", type=Path, required=True, metavar="RUN_DIR")
    parser.add_argument("--run-dir", type=Path, default=Path("runs/benchmark-trials"), metavar="DIR")
    parser.add_argument("--profile", default="local")
    parser.add_argument("--trials", type=Path, default=TRIALS, metavar="FILE")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these trials of the file")
    parser.add_argument("--share", type=float, default=0.33, help="of the run's examples (default: 0.33)")
    parser.add_argument("--cases", type=int, default=80, metavar="N", help="pairs of T1 and T2 (default: 80)")
    parser.add_argument("--general-prompts", type=int, default=120, metavar="N")
    options = parser.parse_args(argv)
    os.environ.update(step_environment())
    return exit_status(lambda: _run(options), "go on with the same command")


def _run(options: argparse.Namespace) -> None:
    if not 0 < options.share <= 1:
        raise InputError([Fault("command line", "share", str(options.share), "0 < share <= 1")])
    profile = load_profile(options.profile)
    trials = load_trials(options.trials, profile, options.share)
    if unknown := set(options.only) - set(trials):
        raise InputError([Fault("command line", "only", ", ".join(sorted(unknown)), ", ".join(trials))])
    chosen = {name: settings for name, settings in trials.items() if not options.only or name in options.only}
    sizes = {"cases": options.cases, "general_prompts": options.general_prompts}
    fixed = {"decodings": ("free",), "robustness_cases": 0, "latency_cases": 0}
    evaluation = validate_settings(Evaluation, sizes | fixed, "command line")
    root = options.run_dir.resolve()
    run_trials(profile, root, options.from_run, chosen, options.share, evaluation)
    print(f"result   {root / RESULT_FILE}")


if __name__ == "__main__":
    raise SystemExit(main())
