"""KFP wrapper of the teacher_generation step; the work stands in run.py."""

from kfp import dsl

from components.integrations.component import component


@component
def teacher_generation(
    gate: dsl.Input[dsl.Dataset],
    settings: str,
    seed: int,
    code: str,
    context: str,
    output: dsl.Output[dsl.Dataset],
) -> None:
    """Generate verified trajectories with the teacher.

    Args:
        gate: output of harness_gate.
        settings: the step's Settings as JSON.
        seed: seed of everything random in the step.
        code: digest of the step's code, part of the cache key.
        context: task.Context as JSON.
        output: folder with trajectories.jsonl.
    """
    from pathlib import Path

    from components.integrations.task import run_task
    from components.teacher_generation.run import attempts_place, run
    from components.teacher_generation.settings import Settings

    run_task(
        "teacher_generation",
        run,
        output=output.path,
        context=context,
        settings=Settings.model_validate_json(settings),
        seed=seed,
        inputs=lambda where: {
            "merchant": Path(gate.path) / "merchant",
            "attempts": attempts_place(where.run_dir, where.storage_uri, where.parent_run),
            "storage_encryption": where.storage_encryption,
        },
    )
