"""KFP wrapper of the harness_gate step; the work stands in run.py."""

from kfp import dsl

from components.integrations.component import component


@component
def harness_gate(
    merchant: str,
    merchant_digest: str,
    settings: str,
    seed: int,
    code: str,
    context: str,
    output: dsl.Output[dsl.Dataset],
) -> None:
    """Validate and snapshot a merchant's folder and decide whether to retrain.

    Args:
        merchant: merchant folder.
        merchant_digest: content digest of the merchant folder, part of the cache key.
        settings: the step's Settings as JSON.
        seed: seed of everything random in the step.
        code: digest of the step's code, part of the cache key.
        context: task.Context as JSON.
        output: folder with merchant/ and gate.json.
    """
    from pathlib import Path

    from components.harness_gate.run import run
    from components.harness_gate.settings import Settings
    from components.integrations.task import run_task

    run_task(
        "harness_gate",
        run,
        output=output.path,
        context=context,
        settings=Settings.model_validate_json(settings),
        seed=seed,
        inputs=lambda where: {
            "merchant": where.folder(merchant),
            "tracking_uri": where.tracking_uri,
            "experiment": where.experiment,
            "cache": Path(where.cache_dir),
        },
    )
