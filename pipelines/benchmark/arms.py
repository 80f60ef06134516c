"""The arms of the benchmark and the stages that make them, for one seed.

All arms share one base model, one set of trajectories and one budget of tokens and steps; they differ in augmentation,
distillation, reinforcement learning, and in the harness of the latter.
"""

from dataclasses import dataclass
from pathlib import Path

from components.avatar.errors import Fault, InputError
from components.avatar.harness.schema import content_digest
from components.integrations.metrics import read_json
from pipelines.benchmark.stages import Stage
from pipelines.preflight import Prepared
from pipelines.profile import Profile
from pipelines.steps import MODELS
from pipelines.summary import output_of

ARMS = tuple(MODELS)
STEP_OF = {"fixed_sft": "sft_fixed", "hsa_sft": "sft_hsa", "hsa_sft_opd": "distillation", "hat": "simulator_rl"}
"""Arm -> the step of the pipeline that makes it; `base` needs none, and the pipeline makes no `fixed_rl`."""


@dataclass(frozen=True)
class Arm:
    """A model folder and the stage that makes it; None where it exists already."""

    model: Path
    stage: Stage | None = None


@dataclass(frozen=True)
class Plan:
    """One seed: its arms, the surfaces that its training showed, and the stages in their order. `inputs` is the digest
    of what lies outside the benchmark's folder."""

    seed: int
    arms: dict[str, Arm]
    surfaces: Path
    stages: tuple[Stage, ...]
    inputs: str


def training_plan(profile: Profile, prepared: Prepared, root: Path, seed: int, arms: tuple[str, ...] = ARMS) -> Plan:
    """The stages that `arms` need, each below `root`, with the training settings of `profile`."""
    inputs = content_digest([prepared.merchant_digest, prepared.base_digest])
    merchant, base = prepared.merchant, prepared.base_model

    def stage(name: str, step: str, *needs: Stage, **options: Path) -> Stage:
        return Stage(root / name, step, _options(**options), profile.settings_json(step), seed, needs, inputs)

    teacher = stage("teacher", "teacher_generation", merchant=merchant)
    data = stage(
        "data", "harness_augmentation", teacher, merchant=merchant, trajectories=teacher.folder, base_model=base
    )
    made = {
        f"{arm}_sft": stage(f"{arm}_sft", "sft", data, model=base, examples=data.folder / f"{arm}.jsonl")
        for arm in ("fixed", "hsa")
    }
    made["hsa_sft_opd"] = stage(
        "hsa_sft_opd", "distillation", made["hsa_sft"], model=made["hsa_sft"].folder / "model", base_model=base
    )
    distilled = made["hsa_sft_opd"]
    made["hat"] = stage(
        "hat", "simulator_rl", distilled, model=distilled.folder / "model", base_model=base, merchant=merchant
    )
    made["fixed_rl"] = _fixed_rl(
        profile, prepared, root, seed, Arm(made["fixed_sft"].folder / "model", made["fixed_sft"])
    )
    stages: dict[str, Stage] = {}
    for wanted in (data, *(made[arm] for arm in arms if arm in made)):
        _collect(wanted, stages)
    folders = {arm: Arm(made[arm].folder / "model", made[arm]) if arm in made else Arm(base) for arm in arms}
    return Plan(seed, folders, data.folder / "surfaces.json", tuple(stages.values()), inputs)


def plan_of_run(
    profile: Profile, prepared: Prepared, root: Path, run_dir: Path, chosen: tuple[str, ...] = ARMS
) -> Plan:
    """The models that a finished pipeline run has trained, under its seed; only `fixed_rl` is trained here.

    Raises InputError when the run lacks one of them, or ran on another merchant or base model.
    """
    faults = []
    outputs = {arm: output_of(run_dir, step) for arm, step in STEP_OF.items()}
    examples = output_of(run_dir, "harness_augmentation")
    for name, folder in (*outputs.items(), ("harness_augmentation", examples)):
        if folder is None:
            faults.append(Fault(str(run_dir), name, "no complete output", "a finished pipeline run"))
    record = read_json(run_dir / "run.json")
    for name, digest in (("merchant_digest", prepared.merchant_digest), ("base_digest", prepared.base_digest)):
        if record["inputs"].get(name) != digest:
            faults.append(
                Fault(str(run_dir / "run.json"), name, str(record["inputs"].get(name)), f"{digest}, the profile's")
            )
    if faults or examples is None:
        raise InputError(faults)
    arms = {"base": Arm(prepared.base_model)} | {a: Arm(folder / "model") for a, folder in outputs.items() if folder}
    inputs = content_digest([record["mlflow_run_id"], record["attempt"], record["inputs"]])
    fixed_rl = _fixed_rl(profile, prepared, root, profile.seed, arms["fixed_sft"], inputs)
    arms["fixed_rl"] = Arm(fixed_rl.folder / "model", fixed_rl)
    stages = (fixed_rl,) if "fixed_rl" in chosen else ()
    return Plan(profile.seed, arms, examples / "surfaces.json", stages, inputs)


def evaluation_stage(plan: Plan, arm: str, merchant: Path, root: Path, settings: str) -> Stage:
    """The evaluation of one arm; T2's surfaces are checked against what this seed's training showed."""
    made = plan.arms[arm]
    options = (*_options(merchant=merchant, surfaces=plan.surfaces), "--models", f"{arm}={made.model}")
    needs = tuple(stage for stage in plan.stages if stage is made.stage or stage.folder == plan.surfaces.parent)
    return Stage(root / f"evaluation-{arm}", "evaluation", options, settings, plan.seed, needs, plan.inputs)


def _fixed_rl(profile: Profile, prepared: Prepared, root: Path, seed: int, start: Arm, inputs: str = "") -> Stage:
    """Reinforcement learning from the fixed-harness SFT model with every group under the merchant's own harness."""
    settings = profile.simulator_rl.model_copy(update={"original_share": 1.0})
    return Stage(
        root / "fixed_rl",
        "simulator_rl",
        _options(model=start.model, base_model=prepared.base_model, merchant=prepared.merchant),
        settings.model_dump_json(exclude_unset=True),
        seed,
        (start.stage,) if start.stage else (),
        inputs or content_digest([prepared.merchant_digest, prepared.base_digest]),
    )


def _options(**paths: Path) -> tuple[str, ...]:
    return tuple(part for name, path in paths.items() for part in (f"--{name.replace('_', '-')}", str(path)))


def _collect(stage: Stage, stages: dict[str, Stage]) -> None:
    """Add a stage after everything that it needs."""
    for need in stage.needs:
        _collect(need, stages)
    stages.setdefault(stage.key, stage)
