"""A run folder belongs to one living process at a time, and a process number that came again is another process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.avatar.errors import InputError
from components.integrations.metrics import write_json
from components.integrations.task import Context
from pipelines.profile import load_profile
from pipelines.run import RunRecord, _open_run, process_start

PROFILE = load_profile("smoke")


def open_again(run_dir: Path, **changes: object) -> RunRecord:
    """What a second invocation on `run_dir` gets when run.json holds `changes`."""
    earlier = {"profile": "smoke", "attempt": 1, "pid": 1, "started": "", "mlflow_run_id": "", **changes}
    context = Context(run_dir=str(run_dir), tracking_uri=f"sqlite:///{run_dir}/mlflow.db", experiment="e", cache_dir="")
    first = _open_run(run_dir, PROFILE, context, "h", {})
    write_json(run_dir / "run.json", {**earlier, "mlflow_run_id": first.mlflow_run_id})
    return _open_run(run_dir, PROFILE, context, "h", {})


def test_a_folder_in_which_a_process_works_is_refused(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with pytest.raises(InputError, match=f"run by process {other.pid}"):
            open_again(tmp_path, pid=other.pid, started=process_start(other.pid))
        other.kill()


def test_a_process_that_only_bears_the_number_is_no_owner(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        record = open_again(tmp_path, pid=other.pid, started="another-boot/4711")
        other.kill()
    assert (record.attempt, record.pid) == (2, os.getpid())


def test_a_dead_process_is_no_owner(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as other:
        started = process_start(other.pid)
        other.wait()
    assert process_start(other.pid) == ""
    assert open_again(tmp_path, pid=other.pid, started=started).attempt == 2
