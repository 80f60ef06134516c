"""KFP wrapper of the evaluation step; the work stands in run.py."""

from kfp import dsl

from components.integrations.component import component


@component
def evaluation(
    gate: dsl.Input[dsl.Dataset],
    examples: dsl.Input[dsl.Dataset],
    base_model: str,
    base_digest: str,
    fixed_sft: dsl.Input[dsl.Model],
    hsa_sft: dsl.Input[dsl.Model],
    hsa_sft_opd: dsl.Input[dsl.Model],
    hat: dsl.Input[dsl.Model],
    models: list[str],
    settings: str,
    seed: int,
    code: str,
    context: str,
    output: dsl.Output[dsl.Artifact],
) -> None:
    """Evaluate the models on T1, T2, T3 and general prompts.

    Args:
        gate: output of harness_gate.
        examples: output of harness_augmentation.
        base_model: spec of the base model (weights.py).
        base_digest: content digest of the base model, part of the cache key.
        fixed_sft: output of sft, arm fixed.
        hsa_sft: output of sft, arm hsa.
        hsa_sft_opd: output of distillation.
        hat: output of simulator_rl.
        models: which of base and the four models above to evaluate.
        settings: the step's Settings as JSON.
        seed: seed of everything random in the step.
        code: digest of the step's code, part of the cache key.
        context: task.Context as JSON.
        output: folder with evaluation.json and cases.jsonl.
    """
    from pathlib import Path

    from components.evaluation.run import run
    from components.evaluation.settings import Settings
    from components.integrations.task import run_task

    folders = {"fixed_sft": fixed_sft.path, "hsa_sft": hsa_sft.path, "hsa_sft_opd": hsa_sft_opd.path, "hat": hat.path}
    run_task(
        "evaluation",
        run,
        output=output.path,
        context=context,
        settings=Settings.model_validate_json(settings),
        seed=seed,
        inputs=lambda where: {
            "merchant": Path(gate.path) / "merchant",
            "surfaces": Path(examples.path) / "surfaces.json",
            "models": {
                name: where.base_model(base_model) if name == "base" else where.model(folders[name]) for name in models
            },
        },
    )
