"""KFP wrapper of the distillation step; the work stands in run.py."""

from kfp import dsl

from components.integrations.component import component


@component
def distillation(
    model: dsl.Input[dsl.Model],
    base_model: str,
    base_digest: str,
    settings: str,
    seed: int,
    code: str,
    context: str,
    output: dsl.Output[dsl.Model],
) -> None:
    """Distil the base model's general skill back into the fine-tuned model, on-policy.

    Args:
        model: output of the training stage before.
        base_model: spec of the base model (weights.py).
        base_digest: content digest of the base model, part of the cache key.
        settings: the step's Settings as JSON.
        seed: seed of everything random in the step.
        code: digest of the step's code, part of the cache key.
        context: task.Context as JSON.
        output: folder with model/ and curves.jsonl.
    """
    from components.distillation.run import run
    from components.distillation.settings import Settings
    from components.integrations.task import run_task

    run_task(
        "distillation",
        run,
        output=output.path,
        context=context,
        settings=Settings.model_validate_json(settings),
        seed=seed,
        inputs=lambda where: {"model": where.model(model.path), "base_model": where.base_model(base_model)},
    )
