"""One real run of the smoke profile for all tests of this folder, by the command that a user runs."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    """A finished invocation of pipelines.run."""

    run_dir: Path
    status: int
    output: str

    @property
    def summary(self) -> dict[str, Any]:
        return json.loads((self.run_dir / "summary.json").read_text())

    def artifact(self, step: str) -> Path:
        state = json.loads((self.run_dir / "steps" / f"{step}.json").read_text())
        return self.run_dir / state["output"]


def pipeline(*arguments: str, run_dir: Path, kill_at: str | None = None) -> Run:
    """Run `python -m pipelines.run`; with `kill_at`, SIGKILL it once that text was printed."""
    command = [sys.executable, "-m", "pipelines.run", *arguments]
    lines = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if kill_at is not None and kill_at in line:
                os.kill(process.pid, signal.SIGKILL)
                break
        status = process.wait()
    return Run(run_dir, status, "".join(lines))


@pytest.fixture(scope="session")
def smoke(tmp_path_factory) -> Run:
    run_dir = tmp_path_factory.mktemp("runs") / "smoke"
    run = pipeline("--profile", "smoke", "--run-dir", str(run_dir), run_dir=run_dir)
    assert run.status == 0, run.output
    return run
