"""The benchmark itself: the stages of every seed in their order, then one result."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.evaluation.settings import Settings as Evaluation
from components.integrations.metrics import Metric, read_json, write_json
from components.integrations.tracking import StepRun, Tracking
from pipelines.benchmark.arms import ARMS, Plan, evaluation_stage, plan_of_run, training_plan
from pipelines.benchmark.results import Evaluated, compare, goals, read_evaluation
from pipelines.benchmark.stages import RECORD, Stage, run_stage
from pipelines.digests import code_digest
from pipelines.preflight import Prepared, preflight, refuse_cluster_profile
from pipelines.profile import Profile

CACHE = Path(__file__).parents[2] / ".cache"
RESULT_FILE, BFCL_FILE = "hat.json", "bfcl.json"
FURTHER_ARMS = ("fixed_sft", "hat")
"""What the seeds after the first are asked: does the lead of the method hold?"""


@dataclass(frozen=True)
class Work:
    """One seed: how its models are made, and the evaluation of each of its arms."""

    plan: Plan
    evaluations: dict[str, Stage]

    @property
    def stages(self) -> list[Stage]:
        return [*self.plan.stages, *self.evaluations.values()]


def benchmark(
    profile: Profile,
    run_dir: Path,
    seeds: Sequence[int],
    evaluation: Evaluation,
    *,
    from_run: Path | None = None,
    arms: tuple[str, ...] = ARMS,
) -> dict[str, Any]:
    """Run what is not done yet and write `run_dir`/hat.json; returns its content.

    The first seed evaluates `arms` in full, each further one the baseline and the new model on T1 and T2. `from_run`:
    the pipeline run whose models (and seed) are those of the first. Raises InputError for bad input, SystemFault when a
    stage fails.
    """
    refuse_cluster_profile(profile)
    prepared = preflight(profile, run_dir, CACHE)
    run_dir.mkdir(parents=True, exist_ok=True)
    plans = [_first_plan(profile, prepared, run_dir, seeds[0], from_run, arms)]
    plans += [training_plan(profile, prepared, run_dir / f"seed-{s}", s, FURTHER_ARMS) for s in seeds[1:]]
    short = evaluation.model_copy(
        update={"general_prompts": 0, "latency_cases": 0, "robustness_cases": 0, "pass_cases": 0}
    )
    work = [
        Work(plan, _evaluations(plan, prepared, run_dir, asked, settings))
        for plan, asked, settings in zip(
            plans, [arms] + [FURTHER_ARMS] * len(seeds[1:]), [evaluation] + [short] * len(seeds[1:]), strict=True
        )
    ]
    stages = [stage for seed in work for stage in seed.stages]
    for number, stage in enumerate(stages, start=1):
        ran = run_stage(stage, run_dir / "benchmark.log")
        print(f"[{number}/{len(stages)}] {stage.name} {'done' if ran else 'was done'}", flush=True)
    found = {
        seed.plan.seed: {arm: read_evaluation(stage.folder, arm) for arm, stage in seed.evaluations.items()}
        for seed in work
    }
    result = assemble(found) | {
        "seconds": round(sum(read_json(stage.folder / RECORD)["seconds"] for stage in stages), 1),
        "profile": profile.name,
        "models_from": None if from_run is None else str(from_run),
        "code_version": code_digest(),
        "evaluation": evaluation.model_dump(mode="json"),
    }
    if (run_dir / BFCL_FILE).is_file():
        result["bfcl"] = read_json(run_dir / BFCL_FILE)["arms"]
    write_json(run_dir / RESULT_FILE, result)
    return result


def assemble(found: dict[int, dict[str, Evaluated]]) -> dict[str, Any]:
    """The result of the evaluations by seed and arm; `arms`, comparisons and goals are the first seed's."""
    first = next(iter(found))
    arms = {arm: evaluated.metrics for arm, evaluated in found[first].items()}
    comparisons = compare(found[first], first)
    by_seed = {
        str(seed): {
            arm: {decoding: {suite: cells[suite] for suite in ("T1", "T2")} for decoding, cells in e.metrics.items()}
            for arm, e in evaluated.items()
        }
        for seed, evaluated in found.items()
    }
    return {
        "arms": arms,
        "comparisons": comparisons,
        "goals": goals(arms, comparisons),
        "seeds": list(found),
        "by_seed": by_seed,
    }


def track(profile: Profile, run_dir: Path, result: dict[str, Any]) -> None:
    """The figures as one MLflow run, with hat.json and the report."""
    tracking = Tracking(profile.tracking_uri.replace("{runs}", str(run_dir.parent)), profile.experiment)
    tags = {"profile": profile.name, "kind": "benchmark"}
    run_id = tracking.start_pipeline_run(f"benchmark-{run_dir.name}", tags=tags)
    run = StepRun(tracking, run_id)
    run.log_metrics(
        {
            f"{arm}.{decoding}.{name}": Metric(cell["value"], cell["n"])
            for arm, decodings in result["arms"].items()
            for decoding, cells in decodings.items()
            for name, cell in cells.items()
            if cell["value"] is not None
        }
    )
    for name in (RESULT_FILE, "report.html"):
        run.log_artifacts(run_dir / name)
    tracking.end_pipeline_run(run_id, "FINISHED")


def _first_plan(
    profile: Profile, prepared: Prepared, run_dir: Path, seed: int, from_run: Path | None, arms: tuple[str, ...]
) -> Plan:
    if from_run is None:
        return training_plan(profile, prepared, run_dir / f"seed-{seed}", seed, arms)
    return plan_of_run(profile, prepared, run_dir / f"seed-{profile.seed}", from_run, arms)


def _evaluations(
    plan: Plan, prepared: Prepared, run_dir: Path, arms: tuple[str, ...], settings: Evaluation
) -> dict[str, Stage]:
    root, text = run_dir / f"seed-{plan.seed}", settings.model_dump_json(exclude_unset=True)
    return {arm: evaluation_stage(plan, arm, prepared.merchant, root, text) for arm in arms}
