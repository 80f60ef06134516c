"""KFP wrapper of the data_validation step; the work stands in run.py."""

from kfp import dsl

from components.integrations.component import component


@component
def data_validation(
    gate: dsl.Input[dsl.Dataset],
    trajectories: dsl.Input[dsl.Dataset],
    examples: dsl.Input[dsl.Dataset],
    base_model: str,
    base_digest: str,
    settings: str,
    seed: int,
    code: str,
    context: str,
    output: dsl.Output[dsl.Dataset],
) -> None:
    """Check the training data with Great Expectations.

    Args:
        gate: output of harness_gate.
        trajectories: output of teacher_generation.
        examples: output of harness_augmentation.
        base_model: spec of the base model (weights.py).
        base_digest: content digest of the base model, part of the cache key.
        settings: the step's Settings as JSON.
        seed: seed of everything random in the step.
        code: digest of the step's code, part of the cache key.
        context: task.Context as JSON.
        output: folder with validation.json and docs/.
    """
    from pathlib import Path

    from components.data_validation.run import run
    from components.data_validation.settings import Settings
    from components.integrations.task import run_task

    run_task(
        "data_validation",
        run,
        output=output.path,
        context=context,
        settings=Settings.model_validate_json(settings),
        seed=seed,
        inputs=lambda where: {
            "merchant": Path(gate.path) / "merchant",
            "trajectories": Path(trajectories.path),
            "examples": Path(examples.path),
            "base_model": where.base_model(base_model),
        },
    )
