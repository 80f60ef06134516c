"""KFP wrapper of the registration step; the work stands in run.py."""

from kfp import dsl

from components.integrations.component import component


@component
def registration(
    gate: dsl.Input[dsl.Dataset],
    examples: dsl.Input[dsl.Dataset],
    hat: dsl.Input[dsl.Model],
    fixed_sft: dsl.Input[dsl.Model],
    evaluation: dsl.Input[dsl.Artifact],
    code_version: str,
    settings: str,
    seed: int,
    code: str,
    context: str,
    output: dsl.Output[dsl.Artifact],
) -> None:
    """Register the model when its gates pass.

    Args:
        gate: output of harness_gate: the merchant and its harness digest.
        examples: output of harness_augmentation.
        hat: output of simulator_rl.
        fixed_sft: output of sft, arm fixed.
        evaluation: output of evaluation.
        code_version: digest of the code of all steps.
        settings: the step's Settings as JSON.
        seed: seed of everything random in the step.
        code: digest of the step's code, part of the cache key.
        context: task.Context as JSON.
        output: folder with registration.json.
    """
    from pathlib import Path

    from components.integrations.lineage import made_by
    from components.integrations.metrics import read_json
    from components.integrations.storage import describe
    from components.integrations.task import run_task
    from components.registration.run import run
    from components.registration.settings import Settings

    run_task(
        "registration",
        run,
        output=output.path,
        context=context,
        settings=Settings.model_validate_json(settings),
        seed=seed,
        inputs=lambda where: {
            "hat": where.model(hat.path),
            "fixed_sft": where.model(fixed_sft.path),
            "evaluation": Path(evaluation.path),
            "merchant": Path(gate.path) / "merchant",
            "lineage": {
                "harness_digest": read_json(Path(gate.path) / "gate.json")["harness_digest"],
                "data_digest": describe(where.artifact(Path(examples.path) / "hsa.jsonl")).digest,
                "code_version": code_version,
                "pipeline_run": where.parent_run or "",
                "harness_run": made_by(Path(gate.path)),
                "data_run": made_by(Path(examples.path)),
                "training_run": made_by(Path(hat.path)),
                "evaluation_run": made_by(Path(evaluation.path)),
            },
            "first_lineage": {
                "data_digest": describe(where.artifact(Path(examples.path) / "fixed.jsonl")).digest,
                "training_run": made_by(Path(fixed_sft.path)),
            },
            "tracking_uri": where.tracking_uri,
            "experiment": where.experiment,
            "storage_uri": where.storage_uri,
            "storage_encryption": where.storage_encryption,
            "run_id": where.step_run,
        },
    )
