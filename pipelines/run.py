"""Run the pipeline on this machine with Kubeflow's local runner.

    python -m pipelines.run --profile local [--run-dir DIR]
    python -m pipelines.run --resume DIR

Exit status: 0 done (a gate that does not pass is a result), 1 a step failed, 2 bad input. A run folder holds everything of a run; resuming
it takes finished steps from its cache, whose keys are the steps' settings, inputs, seed and code.
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

from components.avatar.errors import Fault, InputError
from components.integrations.metrics import read_json, write_json
from components.integrations.progress import duration
from components.integrations.task import Context, is_complete, read_states
from pipelines.profile import Profile, load_profile

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache"


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


def run_pipeline(profile: Profile, run_dir: Path) -> int:
    """Check the inputs, run or resume the DAG in `run_dir`, write summary and report; returns the exit status."""
    from pipelines.preflight import preflight, refuse_cluster_profile

    refuse_cluster_profile(profile)
    print(f"checking the inputs of profile {profile.name} ...", flush=True)
    prepared = preflight(profile, run_dir, CACHE)
    _quiet_libraries()

    from pipelines.digests import code_digest
    from pipelines.estimate import estimate, measure_gflops
    from pipelines.summary import failed_step, summarise

    attempt = _open_run(run_dir, profile)
    context = Context(
        run_dir=str(run_dir),
        tracking_uri=profile.tracking_uri.replace("{runs}", str(run_dir.parent)),
        experiment=profile.experiment,
        cache_dir=str(CACHE),
    )
    guess = estimate(profile.minutes, measure_gflops())
    print(
        f"run folder {run_dir}\n"
        f"merchant   {prepared.merchant.name}, harness {prepared.harness_digest}\n"
        f"base model {profile.base_model}\n"
        f"estimate   about {duration(guess.minutes * 60)} in all (an estimate: this machine does {guess.speed:.1f}x of the reference "
        "machine's matrix products)",
        flush=True,
    )
    started = time.monotonic()
    arguments = {
        "merchant": str(prepared.merchant),
        "merchant_digest": prepared.merchant_digest,
        "base_digest": prepared.base_digest,
        "code": code_digest(),
        "context": context.model_dump_json(),
    }
    fault = _execute(profile, run_dir, arguments)
    summary = summarise(run_dir, profile.name, prepared.harness_digest, attempt)
    if fault is not None:
        step, reason = failed_step(run_dir, attempt) or ("pipeline", fault)
        print(f"\nFAILED in step {step}: {reason}", file=sys.stderr)
        print(f"log: {run_dir}/run.log\nresume with: make pipeline-run RESUME={run_dir}", file=sys.stderr, flush=True)
        return 1
    _close(run_dir, profile, context, summary, time.monotonic() - started)
    return 0


def _execute(profile: Profile, run_dir: Path, arguments: dict[str, Any]) -> str | None:
    """Run the DAG with kfp's local runner; returns why it failed, or None."""
    from kfp import local

    from pipelines.console import Console
    from pipelines.dag import build_pipeline

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
            return "stopped by a signal"
        except (RuntimeError, OSError) as error:  # kfp raises RuntimeError for a failed task
            return str(error)
    return None


def _open_run(run_dir: Path, profile: Profile) -> int:
    """Start an attempt in `run_dir`; returns its number. Raises InputError if another process works there."""
    record: dict[str, Any] = {"attempt": 0}
    if (run_dir / "run.json").exists():
        record = read_json(run_dir / "run.json")
        if record["pid"] != os.getpid() and _alive(record["pid"]):
            raise InputError(
                [Fault(str(run_dir), "process", f"run by process {record['pid']}", "a run that has stopped")]
            )
    attempt = int(record["attempt"]) + 1
    run_dir.mkdir(parents=True, exist_ok=True)
    write_json(run_dir / "run.json", {"profile": profile.name, "attempt": attempt, "pid": os.getpid()})
    stated = profile.model_dump(mode="json", exclude_unset=True)
    (run_dir / "profile.yaml").write_text(yaml.safe_dump(stated, sort_keys=False), encoding="utf-8")
    return attempt


def _forget_incomplete(run_dir: Path) -> None:
    """Move outputs that lost files out of the way: kfp's cache takes a missing output for a miss, and the step runs again."""
    for state in read_states(run_dir).values():
        folder = run_dir / state.output
        if state.status == "succeeded" and folder.exists() and not is_complete(folder):
            folder.rename(folder.with_name(f"{folder.name}.incomplete-{time.time_ns()}"))


def _close(run_dir: Path, profile: Profile, context: Context, summary: dict[str, Any], seconds: float) -> None:
    from pipelines.report.table import result_table

    print(f"\nfinished in {duration(seconds)}\n")
    print(result_table(summary))
    print(
        f"\nsummary  {run_dir}/summary.json\nreport   {run_dir}/report.html\nMLflow   make mlflow-up TRACKING_URI={context.tracking_uri}"
    )


def _quiet_libraries() -> None:
    """Environment of the step processes: unbuffered lines, no progress bars in a pipe, no telemetry, no look-ups in a hub."""
    os.environ.update(
        PYTHONUNBUFFERED="1",
        TQDM_DISABLE="1",
        TOKENIZERS_PARALLELISM="false",
        HF_HUB_OFFLINE="1",
        HF_HUB_DISABLE_PROGRESS_BARS="1",
        GX_ANALYTICS_ENABLED="false",
        MLFLOW_DISABLE_TELEMETRY="true",
    )
    warnings.filterwarnings("ignore", message=r".*have no effect in the current local runner.*")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    raise SystemExit(main())
