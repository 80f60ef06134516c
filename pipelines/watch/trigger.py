"""Training runs: processes on this machine, or runs on a Kubeflow server.

`advance` may be called again at any time, after any crash: it starts what was not started, leaves alone what goes on,
and tells how it ended. What makes that safe is a name that only this change has.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from components.avatar.errors import InputError
from components.integrations.metrics import read_json
from pipelines.profile import Profile
from pipelines.watch.history import runs_of, training_seconds
from pipelines.watch.queue import Change

ROOT = Path(__file__).parents[2]
MAX_STARTS = 3  # of a run whose process vanished without an exit status


@dataclass(frozen=True)
class Ended:
    """`seconds` is what was measured, None when the run was not whole."""

    ok: bool
    why: str
    seconds: float | None = None
    model_version: str | None = None


class Runs(Protocol):
    def where(self, change: Change) -> str:
        """The place of the change's run, for a person."""
        ...

    def advance(self, change: Change, version: Path, uri: str) -> Ended | None:
        """See to it that the run of this accepted version is on its way; how it ended, or None.

        Raises SystemFault when that cannot be said now.
        """
        ...

    def measured(self) -> list[float] | None:
        """Training seconds of earlier runs; None when the queue's own ones are all that is known."""
        ...


def profile_of(profile: Profile, merchant: str) -> Profile:
    """The profile of a triggered run. The decision to train has been taken, so its gate does not measure again."""
    always = profile.harness_gate.model_copy(update={"mode": "always"})
    return profile.model_copy(update={"merchant": merchant, "harness_gate": always})


def run_name(change: Change, token: str) -> str:
    """Unique over all queues: `token` is the queue's."""
    return f"watch-{change.merchant}-{change.digest[:8]}-{token}{change.id}"


class LocalRuns:
    """Processes of `pipelines.run` that outlive the watcher.

    A run holds a lock on JOB/lock for as long as it lives (so that no process id has to be trusted after a restart) and
    leaves its exit status in JOB/status. One that vanished without a status was killed, and is resumed.
    """

    def __init__(
        self,
        profile: Profile,
        jobs: Path,
        runs: Path,
        token: str,
        program: Sequence[str] = (sys.executable, "-m", "pipelines.run"),
    ) -> None:
        self.profile, self.jobs, self.runs, self.token = profile, jobs.absolute(), runs.absolute(), token
        self._program = program
        self._children: list[subprocess.Popen[bytes]] = []

    def where(self, change: Change) -> str:
        return str(self.runs / run_name(change, self.token))

    def advance(self, change: Change, version: Path, uri: str) -> Ended | None:
        self._children = [child for child in self._children if child.poll() is None]  # no zombies
        job, run_dir = self.jobs / str(change.id), Path(self.where(change))
        if (job / "status").is_file():
            return _ended(int((job / "status").read_text()), job, run_dir)
        job.mkdir(parents=True, exist_ok=True)
        with (job / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None  # it runs
            if (job / "status").is_file():  # it ended since we looked
                return _ended(int((job / "status").read_text()), job, run_dir)
            return self._start(job, run_dir, version, lock.fileno())

    def measured(self) -> list[float] | None:
        return runs_of(self.profile.name, self.runs)

    def _start(self, job: Path, run_dir: Path, version: Path, lock: int) -> Ended | None:
        starts = job / "starts"
        count = len(starts.read_text().splitlines()) if starts.is_file() else 0
        if count >= MAX_STARTS:
            return Ended(
                False, f"its process was killed {count} times; resume it with pipelines.run --resume {run_dir}"
            )
        if (run_dir / "run.json").is_file():
            arguments = ["--resume", str(run_dir)]
        else:
            stated = profile_of(self.profile, str(version)).model_dump(mode="json", exclude_unset=True)
            (job / "profile.yaml").write_text(yaml.safe_dump(stated, sort_keys=False), encoding="utf-8")
            arguments = ["--profile", str(job / "profile.yaml"), "--run-dir", str(run_dir)]
        with starts.open("a") as file:
            file.write(" ".join(arguments) + "\n")
            os.fsync(file.fileno())
        script = '"$@"; echo $? > "$0.part"; mv "$0.part" "$0"'
        with (job / "run.log").open("ab") as log:
            child = subprocess.Popen(
                ["/bin/sh", "-c", script, str(job / "status"), *self._program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                start_new_session=True,  # it outlives us and our terminal
                pass_fds=[lock],
            )
        self._children.append(child)
        return None


def _ended(status: int, job: Path, run_dir: Path) -> Ended:
    if status != 0:
        lines = [line for line in _lines(job / "run.log") if line.strip()]
        named = [line for line in lines if line.startswith("FAILED")]
        return Ended(False, (named or lines or ["it left no word"])[-1].strip() + f" (status {status})")
    try:
        summary = read_json(run_dir / "summary.json")
        canary, version = summary["canary"], summary["model_version"]
    except (InputError, KeyError, TypeError) as error:
        return Ended(False, f"it ended well, but its summary cannot be read: {error}")
    why = f"rollout {canary['verdict']}: {canary['why']}" if canary["verdict"] else canary["why"]
    return Ended(True, why, training_seconds(summary), None if version is None else str(version))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []


class KfpRuns:
    """Runs on a Kubeflow Pipelines server, found again by their name."""

    def __init__(self, profile: Profile, host: str, token: str) -> None:
        """Raises InputError for a profile that cannot run on a cluster."""
        from pipelines.kubeflow import PipelineServer
        from pipelines.submit import cluster_of

        self.profile, self.host, self.token = profile, host.rstrip("/"), token
        self._server = PipelineServer(host, cluster_of(profile, host).namespace)

    def where(self, change: Change) -> str:
        return f"{self._name(change)} on {self.host}"

    def advance(self, change: Change, version: Path, uri: str) -> Ended | None:
        from pipelines.submit import submit

        known = self._server.runs_named(self._name(change))
        if not known:
            named = f"{self.profile.name}-{run_name(change, self.token)}"
            submit(profile_of(self.profile, uri).model_copy(update={"name": named}), self.host)
            return None
        return _ended_on_server(known[0])

    def measured(self) -> list[float] | None:
        return None

    def _name(self, change: Change) -> str:
        """As `submit` calls the run of a profile of that name."""
        from pipelines.dag import PIPELINE

        return f"{PIPELINE}-{self.profile.name}-{run_name(change, self.token)}"


def _ended_on_server(run: Any) -> Ended | None:
    from pipelines.kubeflow import FINISHED

    if run.state not in FINISHED:
        return None
    seconds = None
    if run.state == "SUCCEEDED" and run.finished_at and run.created_at:
        seconds = (run.finished_at - run.created_at).total_seconds()
    message = getattr(run.error, "message", None)
    why = f"{run.state.lower()} on the server" + (f": {message}" if message else "")
    return Ended(run.state == "SUCCEEDED", why, seconds)
