"""KFP wrapper of the simulator_rl step; the work stands in run.py."""

from kfp import dsl

from components.integrations.component import component


@component
def simulator_rl(
    model: dsl.Input[dsl.Model],
    gate: dsl.Input[dsl.Dataset],
    base_model: str,
    base_digest: str,
    settings: str,
    seed: int,
    code: str,
    context: str,
    output: dsl.Output[dsl.Model],
) -> None:
    """Train the model by reinforcement learning in the live-stream simulator.

    Args:
        model: output of the training stage before.
        gate: output of harness_gate.
        base_model: spec of the base model (weights.py).
        base_digest: content digest of the base model, part of the cache key.
        settings: the step's Settings as JSON.
        seed: seed of everything random in the step.
        code: digest of the step's code, part of the cache key.
        context: task.Context as JSON.
        output: folder with model/, rollouts.jsonl and curves.jsonl.
    """
    from pathlib import Path

    from components.integrations.task import run_task
    from components.simulator_rl.run import run
    from components.simulator_rl.settings import Settings

    run_task(
        "simulator_rl",
        run,
        output=output.path,
        context=context,
        settings=Settings.model_validate_json(settings),
        seed=seed,
        inputs=lambda where: {
            "model": where.model(model.path),
            "base_model": where.base_model(base_model),
            "merchant": Path(gate.path) / "merchant",
        },
    )
