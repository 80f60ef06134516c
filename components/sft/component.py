"""KFP wrapper of the sft step; the work stands in run.py."""

from kfp import dsl

from components.integrations.component import component


@component
def sft(
    examples: dsl.Input[dsl.Dataset],
    base_model: str,
    base_digest: str,
    arm: str,
    settings: str,
    seed: int,
    code: str,
    context: str,
    output: dsl.Output[dsl.Model],
) -> None:
    """Fine-tune the base model on the examples of one arm.

    Args:
        examples: output of harness_augmentation.
        base_model: spec of the base model (weights.py).
        base_digest: content digest of the base model, part of the cache key.
        arm: fixed or hsa: which examples to train on.
        settings: the step's Settings as JSON.
        seed: seed of everything random in the step.
        code: digest of the step's code, part of the cache key.
        context: task.Context as JSON.
        output: folder with model/ and curves.jsonl.
    """
    from pathlib import Path

    from components.integrations.task import run_task
    from components.sft.run import run
    from components.sft.settings import Settings

    run_task(
        f"sft_{arm}",
        run,
        output=output.path,
        context=context,
        settings=Settings.model_validate_json(settings),
        seed=seed,
        inputs=lambda where: {"model": where.base_model(base_model), "examples": Path(examples.path) / f"{arm}.jsonl"},
    )
