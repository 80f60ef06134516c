"""KFP wrapper of the harness_augmentation step; the work stands in run.py."""

from kfp import dsl

from components.integrations.component import component


@component
def harness_augmentation(
    gate: dsl.Input[dsl.Dataset],
    trajectories: dsl.Input[dsl.Dataset],
    base_model: str,
    base_digest: str,
    settings: str,
    seed: int,
    code: str,
    context: str,
    output: dsl.Output[dsl.Dataset],
) -> None:
    """Render trajectories under the merchant's own harness and under augmented ones.

    Args:
        gate: output of harness_gate.
        trajectories: output of teacher_generation.
        base_model: spec of the base model (weights.py).
        base_digest: content digest of the base model, part of the cache key.
        settings: the step's Settings as JSON.
        seed: seed of everything random in the step.
        code: digest of the step's code, part of the cache key.
        context: task.Context as JSON.
        output: folder with fixed.jsonl, hsa.jsonl and surfaces.json.
    """
    from pathlib import Path

    from components.harness_augmentation.run import run
    from components.harness_augmentation.settings import Settings
    from components.integrations.task import run_task

    run_task(
        "harness_augmentation",
        run,
        output=output.path,
        context=context,
        settings=Settings.model_validate_json(settings),
        seed=seed,
        inputs=lambda where: {
            "merchant": Path(gate.path) / "merchant",
            "trajectories": Path(trajectories.path),
            "base_model": where.base_model(base_model),
        },
    )
