"""KFP wrapper of the canary_deploy step; the work stands in run.py."""

from kfp import dsl

from components.integrations.component import component


@component
def canary_deploy(
    registration: dsl.Input[dsl.Artifact],
    gate: dsl.Input[dsl.Dataset],
    settings: str,
    seed: int,
    code: str,
    context: str,
    output: dsl.Output[dsl.Artifact],
) -> None:
    """Roll the challenger out to a share of the live rooms and decide by the A/B evidence.

    Args:
        registration: output of registration.
        gate: output of harness_gate.
        settings: the step's Settings as JSON.
        seed: seed of everything random in the step.
        code: digest of the step's code, part of the cache key.
        context: task.Context as JSON.
        output: folder with canary.json, events.jsonl and ledger.jsonl.
    """
    from pathlib import Path

    from components.canary_deploy.promotion import roll_out
    from components.canary_deploy.settings import Settings
    from components.integrations.task import run_task

    run_task(
        "canary_deploy",
        roll_out,
        output=output.path,
        context=context,
        settings=Settings.model_validate_json(settings),
        seed=seed,
        inputs=lambda where: {
            "registration": Path(registration.path),
            "merchant": Path(gate.path) / "merchant",
            "tracking_uri": where.tracking_uri,
            "experiment": where.experiment,
            "cache": Path(where.cache_dir),
        },
    )
