"""Run the pipeline on this machine with Kubeflow's local runner.

    python -m pipelines.run --profile local [--run-dir DIR]
    python -m pipelines.run --resume DIR

Exit status: 0 done (a gate that does not pass is a result), 1 a step failed, 2 bad input. A run folder holds everything
of a run; resuming it takes finished steps from its cache, whose keys are the steps' settings, inputs, seed and code.
"""

import argparse
import contextlib
import os
import signal
import sys
import time
import warnings
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from components.avatar.errors import Fault, InputError, SystemFault
from components.integrations.metrics import read_json, write_json
from components.integrations.progress import duration
from components.integrations.task import Context, is_complete, read_states
from pipelines.environment import step_environment
from pipelines.profile import Profile, load_profile

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache"


class RunRecord(BaseModel):
    """RUN_DIR/run.json. `attempt` counts the invocations on this folder; `pid` is the process that works, or worked, in
    it, and `started` says which of the processes that may bear that number in time; `inputs` are the digests of what
    went in.
    """

    model_config = ConfigDict(frozen=True)

    profile: str
    attempt: int
    pid: int
    started: str = ""
    mlflow_run_id: str
    inputs: dict[str, str] = Field(default_factory=dict)


def main(argv: list[str] | None = None) -> int:
    """Parse arguments, run, and turn the error model into exit statuses."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.run", description="Run the pipeline on this machine.")
    parser.add_argument("--profile", help="a name in pipelines/profiles or a YAML file; default: local")
    parser.add_argument("--run-dir", type=Path, help="folder of the run; default: runs/<profile>-<time>")
    parser.add_argument("--resume", type=Path, metavar="RUN_DIR", help="go on with a run that failed or was stopped")
    options = parser.parse_args(argv)
    try:
        if options.resume is not None:
            run_dir = options.resume.resolve()
            if not (run_dir / "run.json").is_file():
                raise InputError([Fault("--resume", "RUN_DIR", str(options.resume), "the folder of an earlier run")])
            profile = load_profile(options.profile or str(run_dir / "profile.yaml"))
        else:
            profile = load_profile(options.profile or "local")
            stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
            run_dir = (options.run_dir or Path("runs") / f"{profile.name}-{stamp}").resolve()
            if (run_dir / "run.json").exists():
                allowed = f"a new folder, or RESUME={options.run_dir} to go on with it"
                raise InputError([Fault("--run-dir", "RUN_DIR", f"{options.run_dir} holds a run already", allowed)])
        return run_pipeline(profile, run_dir)
    except InputError as error:
        print(f"\n{error}\nNothing was started.", file=sys.stderr)
        return 2
    except SystemFault as error:
        print(f"\nFAILED: {error}\nNothing was run.", file=sys.stderr)
        return 1


def run_pipeline(profile: Profile, run_dir: Path) -> int:
    """Check the inputs, run or resume the DAG in `run_dir`, write summary and report; returns the exit status."""
    from pipelines.preflight import preflight, refuse_cluster_profile

    refuse_cluster_profile(profile)
    print(f"checking the inputs of profile {profile.name} ...", flush=True)
    prepared = preflight(profile, run_dir, CACHE)
    os.environ.update(step_environment())
    warnings.filterwarnings("ignore", message=r".*have no effect in the current local runner.*")

    from pipelines.digests import code_digest
    from pipelines.estimate import estimate, measure_gflops
    from pipelines.report.table import result_table
    from pipelines.summary import failed_step, summarise

    context = Context(
        run_dir=str(run_dir),
        tracking_uri=profile.tracking_uri.replace("{runs}", str(run_dir.parent)),
        experiment=profile.experiment,
        storage_uri=profile.storage_uri,
        storage_encryption=profile.storage_encryption,
        cache_dir=str(CACHE),
    )
    digests = {
        "merchant_digest": prepared.merchant_digest,
        "base_digest": prepared.base_digest,
        "code_version": code_digest(),
    }
    run = _open_run(run_dir, profile, context, prepared.harness_digest, digests)
    guess = estimate(profile.minutes, measure_gflops())
    print(
        f"run folder {run_dir}\n"
        f"merchant   {prepared.merchant.name}, harness {prepared.harness_digest}\n"
        f"base model {profile.base_model}\n"
        f"estimate   about {duration(guess.minutes * 60)} in all (an estimate: this machine does {guess.speed:.2g}x "
        "the matrix products of the reference machine)",
        flush=True,
    )
    started = time.monotonic()
    arguments = {
        "merchant": str(prepared.merchant),
        **digests,
        "context": context.model_dump_json(),
    }
    fault = _execute(profile, run_dir, arguments)
    summary = summarise(run_dir, profile.name, prepared.harness_digest, run.attempt)
    _close_run(run, run_dir, context, summary, failed=fault is not None)
    if fault is not None:
        step, reason = failed_step(run_dir, run.attempt, fault)
        print(f"\nFAILED in step {step}: {reason}", file=sys.stderr)
        print(f"log: {run_dir}/run.log\nresume with: make pipeline-run RESUME={run_dir}", file=sys.stderr, flush=True)
        return 1
    print(f"\nfinished in {duration(time.monotonic() - started)}\n\n{result_table(summary)}\n")
    print(f"summary  {run_dir}/summary.json\nreport   {run_dir}/report.html  (open it in a browser)")
    print(f"MLflow   make mlflow-up TRACKING_URI={context.tracking_uri}", flush=True)
    return 0


def _execute(profile: Profile, run_dir: Path, arguments: dict[str, Any]) -> str | None:
    """Run the DAG with kfp's local runner; returns why it failed, or None."""
    from kfp import local

    from pipelines.console import COLOR, Console
    from pipelines.dag import build_pipeline
    from pipelines.summary import STOPPED

    _forget_incomplete(run_dir)
    local.init(
        runner=local.SubprocessRunner(use_venv=False),
        pipeline_root=str(run_dir / "artifacts"),
        enable_caching=True,
        cache_root=str(run_dir / "cache"),
    )
    pipeline = build_pipeline(profile)
    signal.signal(signal.SIGTERM, _interrupt)
    with contextlib.closing(Console(sys.stdout, run_dir / "run.log")) as console, contextlib.redirect_stdout(console):
        try:
            pipeline(**arguments)
        except KeyboardInterrupt:
            return STOPPED
        except Exception as error:  # whatever kfp raises: the run is closed, reported, and can be resumed
            return COLOR.sub("", str(error))
    return None


def _open_run(
    run_dir: Path, profile: Profile, context: Context, harness_digest: str, inputs: dict[str, str]
) -> RunRecord:
    """Start an attempt in `run_dir`: its MLflow parent run, run.json, profile.yaml. Raises InputError if another
    process works there.
    """
    from components.integrations.tracking import Tracking

    attempt, parent = 1, None
    if (run_dir / "run.json").exists():
        earlier = RunRecord.model_validate(read_json(run_dir / "run.json"))
        if earlier.pid != os.getpid() and process_start(earlier.pid) == earlier.started != "":
            raise InputError(
                [Fault(str(run_dir), "process", f"run by process {earlier.pid}", "a run that has stopped")]
            )
        attempt, parent = earlier.attempt + 1, earlier.mlflow_run_id
    run_dir.mkdir(parents=True, exist_ok=True)
    parent = Tracking(context.tracking_uri, context.experiment).start_pipeline_run(
        run_dir.name,
        run_id=parent,
        tags={"profile": profile.name, "harness_digest": harness_digest, "run_dir": str(run_dir), **inputs},
    )
    record = RunRecord(
        profile=profile.name,
        attempt=attempt,
        pid=os.getpid(),
        started=process_start(os.getpid()),
        mlflow_run_id=parent,
        inputs=inputs,
    )
    write_json(run_dir / "run.json", record.model_dump())
    stated = profile.model_dump(mode="json", exclude_unset=True)
    (run_dir / "profile.yaml").write_text(yaml.safe_dump(stated, sort_keys=False), encoding="utf-8")
    return record


def _close_run(run: RunRecord, run_dir: Path, context: Context, summary: dict[str, Any], *, failed: bool) -> None:
    """Write the report; put summary, report and final metrics into the parent run, and end it."""
    from components.integrations.metrics import Metric
    from components.integrations.tracking import StepRun, Tracking
    from pipelines.report.page import write_report

    write_report(run_dir, summary, run.inputs)
    tracking = Tracking(context.tracking_uri, context.experiment)
    tracked = StepRun(tracking, run.mlflow_run_id)
    tracked.log_metrics(
        {name: Metric(row["value"], row["n"]) for name, row in summary["metrics"].items() if row["value"] is not None}
    )
    for name in ("summary.json", "report.html"):
        tracked.log_artifacts(run_dir / name)
    tracking.end_pipeline_run(run.mlflow_run_id, "FAILED" if failed else "FINISHED")


def _forget_incomplete(run_dir: Path) -> None:
    """Move outputs that lost files out of the way: kfp's cache takes a missing output for a miss, and the step runs
    again.
    """
    for state in read_states(run_dir).values():
        folder = run_dir / state.output
        if state.status == "succeeded" and folder.exists() and not is_complete(folder):
            folder.rename(folder.with_name(f"{folder.name}.incomplete-{time.time_ns()}"))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def process_start(pid: int) -> str:
    """When process `pid` started: the boot's id and the clock ticks since then (proc(5), field 22 of stat). Empty when
    there is no such process. Process numbers come again, after a reboot for certain; this pair does not.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return f"{boot}/{stat.rpartition(')')[2].split()[19]}"  # the name, field 2, may hold blanks and brackets


if __name__ == "__main__":
    raise SystemExit(main())
