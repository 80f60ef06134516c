"""What every Kubeflow task does around a step's `run`: progress, state, MLflow child run, and an output that is whole
or absent.

The same code runs under `kfp.local` and on a cluster. Locally the task leaves its state in RUN_DIR/steps/<step>.json,
which is how the runner knows what ran, what was taken from the cache and why a step failed even when its process was
killed.
"""

import json
import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from components.avatar.errors import Fault, InputError, SystemFault
from components.integrations.artifacts import move_to_store, readable
from components.integrations.hardware import peak_memory_gib
from components.integrations.lineage import DONE_FILE, log_inputs, log_outputs
from components.integrations.metrics import Metric, read_json, write_json, write_metrics
from components.integrations.objects import Encryption, S3Settings, open_objects
from components.integrations.progress import Progress, duration
from components.integrations.registry import MODEL_NAME
from components.integrations.storage import Store, fetch
from components.integrations.traces import log_cases
from components.integrations.tracking import StepRun, Tracking
from components.integrations.weights import resolve_base_model

LOGGED_BYTES = 8 * 1024**2
DATA_DOCS = "docs"
MONITORED = ("teacher_generation", "sft_fixed", "sft_hsa", "distillation", "simulator_rl", "evaluation")
"""Steps that take minutes and more: CPU, memory and GPU are sampled while they run."""


class Context(BaseModel):
    """Where a run keeps its things; one JSON string parameter of every task.

    `run_dir` is empty on a cluster, where the store, logs and MLflow hold what the folder holds locally. `storage_uri`
    (`s3://...`) is where registered weights go and, on a cluster, everything big that a step writes (artifacts.py); a
    run folder keeps its own. `storage_encryption` is asked for with all of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_dir: str = ""
    tracking_uri: str = ""
    experiment: str = "harness-aware-training"
    storage_uri: str = ""
    storage_encryption: Encryption = ""
    cache_dir: str = ".cache"
    parent_run: str | None = None  # MLflow run of the pipeline; run_task fills in this one and the next
    step_run: str | None = None

    def store(self) -> Store:
        """The object store of `storage_uri`."""
        return Store(self.storage_uri, S3Settings(encryption=self.storage_encryption))

    def base_model(self, spec: str) -> Path:
        """The folder of the base model; see weights.py for the forms of `spec`."""
        return resolve_base_model(spec, Path(self.cache_dir))

    def folder(self, place: str) -> Path:
        """A folder on this machine, or the copy of one that a store's URI names."""
        return stored_folder(place, Path(self.cache_dir))

    def artifact(self, place: Path) -> Path:
        """Where an artifact, or a file or folder of one, can be read; see artifacts.readable."""
        return readable(place, Path(self.cache_dir))

    def model(self, artifact: str) -> Path:
        """The transformers folder of a model artifact."""
        return self.artifact(Path(artifact) / "model")


def stored_folder(uri: str, cache: Path) -> Path:
    """The folder that `<root>/<digest>` names in a content-addressed store: where it lies if that is on this machine,
    else a copy in `cache`.

    A `uri` that ends in `.json` is a pointer, `{"uri"}`, and is read anew each time: a recurring run follows a merchant
    by it (`pipelines.watch` moves it to each version that it accepts).

    Raises InputError for a pointer that is missing or malformed.
    """
    if uri.endswith(".json"):
        uri = _pointed_at(uri)
    if not uri.startswith("s3://"):
        return Path(uri.removeprefix("file://"))
    return fetch(uri, cache / "stored" / uri.rpartition("/")[2])


def _pointed_at(pointer: str) -> str:
    root, _, key = pointer.rpartition("/")
    try:
        return str(json.loads(open_objects(root, None).read(key))["uri"])
    except (KeyError, TypeError, ValueError) as error:
        found = (
            "nothing" if isinstance(error, KeyError) and error.args == (key,) else f"{type(error).__name__}: {error}"
        )
        raise InputError([Fault(pointer, "pointer", found, 'a JSON object with "uri": <root>/<digest>')]) from None


class StepState(BaseModel):
    """RUN_DIR/steps/<step>.json. `attempt` counts the invocations of one RUN_DIR; `reason` is set when the step
    failed.
    """

    model_config = ConfigDict(frozen=True)

    step: str
    status: Literal["running", "succeeded", "failed"]
    attempt: int
    seconds: float = 0.0
    peak_memory_gib: float = 0.0  # of the step's process or its largest child, resident
    output: str = ""  # relative to RUN_DIR
    mlflow_run_id: str = ""
    reason: str = ""


def run_task(
    step: str,
    run: Callable[..., dict[str, Metric]],
    *,
    output: str,
    context: str,
    settings: BaseModel,
    seed: int,
    inputs: Callable[[Context], dict[str, Any]],
) -> None:
    """Call `run(**inputs(context), output=, settings=, seed=, progress=)` and publish its folder at `output`.

    `inputs` is called inside, so that a model that cannot be fetched is a failure of this step like any other. Paths
    among its values are those of artifacts; the step gets them where they can be read.

    The step writes to `<output>.partial`, which takes its final name only after metrics and done.json are written: a
    killed step leaves nothing that looks complete. Raises SystemExit(1) after the reason was printed and recorded.
    """
    where = Context.model_validate_json(context)
    target = Path(output)
    partial = target.with_name(target.name + ".partial")
    progress = Progress(step, Path(where.run_dir) / "progress.jsonl" if where.run_dir else None)
    started = time.monotonic()
    attempt = _attempt(where)
    write_state(where, StepState(step=step, status="running", attempt=attempt))
    progress.note("started")
    parent, child = _parent_run(where), ""
    _stop_with_runner(where)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        tracking = Tracking(where.tracking_uri, where.experiment)
        with tracking.step_run(parent, step, system_metrics=step in MONITORED) as tracked:
            child = tracked.run_id
            where = where.model_copy(update={"parent_run": parent, "step_run": child})
            tracked.log_params({"seed": seed, **settings.model_dump(mode="json")})
            named = inputs(where).items()
            given = {name: where.artifact(value) if isinstance(value, Path) else value for name, value in named}
            log_inputs(tracked, step, given, MODEL_NAME)
            metrics = run(**given, output=partial, settings=settings, seed=seed, progress=progress)
            write_metrics(partial, metrics)
            _log_output(tracked, partial, metrics)
            if where.storage_uri and not where.run_dir:
                move_to_store(partial, where.store(), progress)
        write_json(
            partial / DONE_FILE,
            {
                "step": step,
                "seed": seed,
                "settings": settings.model_dump(mode="json"),
                "mlflow_run_id": child,
                "files": tree(partial),
            },
        )
        shutil.rmtree(target, ignore_errors=True)
        partial.rename(target)
    except BaseException as error:  # a stop signal must leave its reason behind as well
        reason = describe(error)
        if not isinstance(error, InputError):
            traceback.print_exc()
        state = StepState(
            step=step,
            status="failed",
            attempt=attempt,
            seconds=time.monotonic() - started,
            mlflow_run_id=child,
            reason=reason,
        )
        write_state(where, state)
        print(f"[{step}] failed: {reason}", flush=True)
        raise SystemExit(1) from None
    seconds = time.monotonic() - started
    relative = str(target.relative_to(where.run_dir)) if where.run_dir else ""
    memory = peak_memory_gib()
    state = StepState(
        step=step,
        status="succeeded",
        attempt=attempt,
        seconds=seconds,
        peak_memory_gib=memory,
        output=relative,
        mlflow_run_id=child,
    )
    write_state(where, state)
    progress.note(f"done in {duration(seconds)}, at most {memory:.1f} GiB of memory")


def _log_output(tracked: StepRun, output: Path, metrics: dict[str, Metric]) -> None:
    """Metrics, curves, evaluated cases, Data Docs and the small files of an output; weights are stored once, as the
    output itself or in the store.
    """
    tracked.log_metrics(metrics)
    curves = output / "curves.jsonl"
    if curves.is_file():
        tracked.log_curves([json.loads(line) for line in curves.read_text(encoding="utf-8").splitlines()])
    cases = output / "cases.jsonl"
    if cases.is_file():
        log_cases(tracked, cases)
    log_outputs(tracked, output)
    for path in sorted(output.iterdir()):
        if path.is_file() and path.stat().st_size <= LOGGED_BYTES:
            tracked.log_artifacts(path)
    if (output / DATA_DOCS).is_dir():
        tracked.log_artifacts(output / DATA_DOCS, DATA_DOCS)


def describe(error: BaseException) -> str:
    """The reason of a failure in words that a user can act on."""
    if isinstance(error, OSError) and error.errno == 28:
        return "no space left on the device: free some disk space, then resume"
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, KeyboardInterrupt):
        return "stopped by a signal"
    if isinstance(error, InputError | SystemFault):
        return str(error)
    return f"{type(error).__name__}: {error}"


def tree(folder: Path) -> dict[str, int]:
    """Every file under `folder` with its size in bytes: what a complete output consists of."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}


def is_complete(folder: Path) -> bool:
    """True if `folder` holds every file of its done.json at its recorded size."""
    marker = folder / DONE_FILE
    if not marker.is_file():
        return False
    try:
        files = read_json(marker)["files"]
    except (InputError, KeyError, TypeError):
        return False
    present = tree(folder)
    return all(present.get(name) == size for name, size in files.items())


def state_path(run_dir: Path, step: str) -> Path:
    return run_dir / "steps" / f"{step}.json"


def write_state(where: Context, state: StepState) -> None:
    """Record a step's state locally; on a cluster Kubeflow keeps it."""
    if where.run_dir:
        write_json(state_path(Path(where.run_dir), state.step), state.model_dump())


def read_states(run_dir: Path) -> dict[str, StepState]:
    """States of all steps that ever started in `run_dir`."""
    paths = sorted((run_dir / "steps").glob("*.json"))
    return {path.stem: StepState.model_validate_json(path.read_text(encoding="utf-8")) for path in paths}


def _parent_run(where: Context) -> str | None:
    """The MLflow run of the whole pipeline: the local runner's, or the one that Kubeflow's MLflow plugin hands to each
    pod.
    """
    if where.run_dir:
        return read_json(Path(where.run_dir) / "run.json")["mlflow_run_id"]
    return os.environ.get("MLFLOW_RUN_ID")


def _stop_with_runner(where: Context) -> None:
    """Locally a step must not outlive its runner: it would write into a folder that a resumed run works in."""
    if not where.run_dir:
        return
    runner = int(read_json(Path(where.run_dir) / "run.json")["pid"])

    def watch() -> None:
        while True:
            time.sleep(1.0)
            try:
                os.kill(runner, 0)
            except ProcessLookupError:
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _attempt(where: Context) -> int:
    return int(read_json(Path(where.run_dir) / "run.json")["attempt"]) if where.run_dir else 1


def write_failure_report(context: str, status: dict[str, Any]) -> None:
    """The exit handler's work: RUN_DIR/failure.json (or a line on the log of the cluster) when the pipeline did not
    succeed.
    """
    where = Context.model_validate_json(context)
    if status.get("state") == "SUCCEEDED":
        return
    report: dict[str, Any] = {"state": status.get("state"), "message": status.get("error_message") or ""}
    if where.run_dir:
        run_dir = Path(where.run_dir)
        states = read_states(run_dir)
        # A step that still says "running" when the pipeline has ended was killed (out of memory, a lost node).
        report["steps"] = {name: state.model_dump() for name, state in states.items() if state.status != "succeeded"}
        write_json(run_dir / "failure.json", report)
    else:
        print(f"failure report: {json.dumps(report)}", flush=True)
