"""RUN_DIR/summary.json: what a run did, in the form that DESIGN fixes."""

import math
from pathlib import Path
from typing import Any

from components.avatar.errors import InputError
from components.integrations.metrics import read_json, write_json
from components.integrations.task import StepState, is_complete, read_states
from pipelines.steps import STEPS

STOPPED = "stopped by a signal"


def output_of(run_dir: Path, step: str) -> Path | None:
    """The folder of a step's complete output in this run, None if it has none."""
    state = read_states(run_dir).get(step)
    if state is None or state.status != "succeeded":
        return None
    folder = run_dir / state.output
    return folder if is_complete(folder) else None


def step_rows(run_dir: Path, attempt: int) -> dict[str, dict[str, Any]]:
    """Status, seconds and, where it ran, peak memory of every step: `cached` was done by an earlier attempt,
    `skipped` was not reached.
    """
    states = read_states(run_dir)
    return {step: _row(states.get(step), attempt) for step in STEPS}


def _row(state: StepState | None, attempt: int) -> dict[str, Any]:
    if state is None:
        return {"status": "skipped", "seconds": 0.0}
    if state.status == "succeeded" and state.attempt < attempt:
        return {"status": "cached", "seconds": 0.0}
    if state.status == "succeeded":
        return {
            "status": "succeeded",
            "seconds": round(state.seconds, 1),
            "peak_memory_gib": round(state.peak_memory_gib, 2),
        }
    # An older failure that this attempt did not reach again is a step that did not run.
    status = "failed" if state.attempt == attempt else "skipped"
    return {"status": status, "seconds": round(state.seconds, 1)}


def failed_step(run_dir: Path, attempt: int, fault: str) -> tuple[str, str]:
    """The first step of this attempt that did not succeed, and why; `fault` is what the runner itself knows."""
    states = read_states(run_dir)
    for step in STEPS:
        state = states.get(step)
        if state is not None and state.attempt == attempt and state.status != "succeeded":
            killed = fault if fault == STOPPED else "its process was killed (out of memory?)"
            return step, state.reason or killed
    return "pipeline", fault


def summarise(run_dir: Path, profile: str, harness_digest: str, attempt: int) -> dict[str, Any]:
    """Build the summary from what the steps left and write RUN_DIR/summary.json."""
    registration = _result(run_dir, "registration", "registration.json")
    summary = {
        "profile": profile,
        "harness_digest": harness_digest,
        "steps": step_rows(run_dir, attempt),
        "metrics": metrics(_result(run_dir, "evaluation", "evaluation.json")),
        "gates": gates(run_dir, registration),
        "model_version": registration.get("model_version"),
        "canary": _canary(run_dir, registration),
    }
    write_json(run_dir / "summary.json", summary)
    return summary


def _canary(run_dir: Path, registration: dict[str, Any]) -> dict[str, Any]:
    """The rollout's verdict. Without a rollout by a gate's decision, the champion stays: hold."""
    canary = _result(run_dir, "canary_deploy", "canary.json")
    if canary:
        return {"verdict": canary["verdict"], "why": canary["why"]}
    gate = _result(run_dir, "harness_gate", "gate.json")
    if gate and not gate["retrain"]:
        return {"verdict": "hold", "why": "no rollout: the champion needs no retraining"}
    if registration and registration["challenger"] is None:
        return {"verdict": "hold", "why": "no rollout: the new model did not pass every gate"}
    return {"verdict": None, "why": "the run ended before a rollout"}


def gates(run_dir: Path, registration: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Verdict and reason of every gate that was reached, in the order of the pipeline."""
    found: dict[str, dict[str, Any]] = {}
    gate = _result(run_dir, "harness_gate", "gate.json")
    if gate:
        found["harness_gate"] = {"passed": True, "why": gate["why"]}  # whatever it decides, its inputs were sound
    validation = _result(run_dir, "data_validation", "validation.json")
    if validation:
        found["data_validation"] = {"passed": validation["passed"], "why": validation["why"]}
    return found | registration.get("gates", {})


def metrics(evaluation: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """`<model>.<metric>` (free decoding) and `<model>.<metric>_constrained`, with value, n and, where there is one, the
    interval.

    `lead_T1` and `lead_T2` are paired differences from the fixed-harness baseline.
    """
    rows: dict[str, dict[str, Any]] = {}
    for model, decodings in evaluation.get("models", {}).items():
        for decoding, measured in decodings.items():
            for name, metric in measured.items():
                if isinstance(metric, dict) and "value" in metric:
                    suffix = "" if decoding == "free" else f"_{decoding}"
                    rows[f"{model}.{name}{suffix}"] = {key: _finite(value) for key, value in metric.items()}
    for model, decodings in evaluation.get("leads", {}).items():
        for decoding, suites in decodings.items():
            suffix = "" if decoding == "free" else f"_{decoding}"
            rows |= {f"{model}.lead_{suite}{suffix}": lead for suite, lead in suites.items()}
    return rows


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _result(run_dir: Path, step: str, name: str) -> dict[str, Any]:
    folder = output_of(run_dir, step)
    if folder is None:
        return {}
    try:
        return read_json(folder / name)
    except InputError:
        return {}
