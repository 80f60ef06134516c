"""What the tests of the watcher share: a merchant to edit, and a gate and runs that answer at once.

As a program it watches once and kills itself at a chosen place: `python -m tests.unit.pipelines.watch_parts FOLDER
PLACE`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import yaml

from pipelines.profile import load_profile
from pipelines.watch.gate import Question
from pipelines.watch.queue import Queue, Verdict
from pipelines.watch.scan import FolderSource
from pipelines.watch.trigger import Ended
from pipelines.watch.versions import Versions
from pipelines.watch.watcher import Config, Watcher

ROOT = Path(__file__).parents[3]
MERCHANT = ROOT / "infra/harnesses/lumi-beauty"
KEEP = Verdict(retrain=False, why="good enough", champion="1", quality=0.9, cases=120, seconds=3.0)
RETRAIN = Verdict(retrain=True, why="too weak", champion="1", quality=0.2, cases=120, seconds=3.0)


class Gate:
    """Answers with what it was told; `asked` are the questions so far."""

    def __init__(self, *verdicts: Verdict | Exception) -> None:
        self.verdicts, self.asked, self.busy = list(verdicts), [], False

    def ask(self, question: Question, folder: Path) -> None:
        self.asked.append(question)
        self.busy = True

    def answer(self) -> Verdict | None:
        self.busy = False
        found = self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]
        if isinstance(found, Exception):
            raise found
        return found.model_copy(update={"asked": self.asked[-1].asked})

    def close(self) -> None:
        self.busy = False


class Runs:
    """A run starts when it is first asked for and goes on until `finish`; starts are lines of a file, so that they
    outlive a killed process.
    """

    def __init__(self, folder: Path, ended: Ended | None = None) -> None:
        self.log, self.ended = folder / "starts", ended

    @property
    def started(self) -> list[str]:
        return self.log.read_text().split() if self.log.is_file() else []

    def where(self, change) -> str:
        return f"run-{change.id}"

    def advance(self, change, version: Path, uri: str) -> Ended | None:
        assert (version / "harness.yaml").is_file() and uri
        if self.where(change) not in self.started:
            with self.log.open("a") as file:
                file.write(self.where(change) + "\n")
            return None
        return self.ended

    def measured(self) -> list[float]:
        return [120.0, 240.0, 660.0]


def make_watcher(folder: Path, gate: Gate, runs: Runs, clock=None, **config) -> Watcher:
    state = folder / "state"
    settings = Config(
        state, load_profile("smoke"), "sqlite:///nowhere", **({"debounce_s": 0, "interval_s": 0.05} | config)
    )
    return Watcher(
        settings,
        FolderSource(folder / "merchants"),
        Queue(state / "queue.db"),
        Versions(state, str(state / "store")),
        gate,  # type: ignore[arg-type]
        runs,
        **({"clock": clock} if clock else {}),
    )


def put_merchant(folder: Path, name: str = "lumi") -> Path:
    return Path(shutil.copytree(MERCHANT, folder / "merchants" / name))


def edit(merchant: Path, old: str = "reply_words: 30", new: str = "reply_words: 20") -> None:
    text = (merchant / "harness.yaml").read_text(encoding="utf-8")
    assert old in text
    (merchant / "harness.yaml").write_text(text.replace(old, new), encoding="utf-8")


def watch(folder: Path, profile: dict[str, Any]) -> tuple[int, str]:
    """`python -m pipelines.watch --once` as a user gives it; its exit status and output."""
    (folder / "profile.yaml").write_text(yaml.safe_dump(profile))
    command = [sys.executable, "-m", "pipelines.watch", "--once", "--debounce", "0", "--interval", "0.2",
               "--merchants", str(folder / "merchants"), "--profile", str(folder / "profile.yaml"),
               "--state", str(folder / "state"), "--runs-dir", str(folder / "runs")]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def newest(folder: Path) -> dict[str, Any]:
    """The newest change in the merchant's report."""
    return json.loads((folder / "state/reports/lumi.json").read_text())["changes"][0]


def register_champion(folder: Path, harness_digest: str) -> Any:
    """A tiny model as champion of the registry that `watch` uses; the registry."""
    from components.integrations.registry import Lineage, Registry
    from components.integrations.release import release_of
    from components.integrations.tracking import Tracking
    from components.integrations.weights import resolve_base_model
    from pipelines.run import CACHE

    model = resolve_base_model("random:tiny", CACHE)
    tracking = Tracking(f"sqlite:///{folder}/runs/mlflow.db", "harness-aware-training")
    registry = Registry(tracking, f"{folder}/runs/models")
    lineage = Lineage(harness_digest=harness_digest, data_digest="d", code_version="c")
    with registry.changes() as changes:
        version = changes.register(model, arm="base", release=release_of(model), lineage=lineage)
        changes.set_alias("champion", version.version)
    return registry


def main(folder: Path, place: str) -> None:
    """Watch once and die by SIGKILL: at `after STATE`, when the transition is on the disk and nothing of what follows
    has happened, or at `before NAME`/`within NAME`, around a step that touches the world.
    """
    when, name = place.split()
    watcher = make_watcher(folder, Gate(RETRAIN), Runs(folder, Ended(True, "promoted", 60.0)))

    def killing(function, *, first: bool):
        def killed(*arguments, **named):
            if not first:
                function(*arguments, **named)
            os.kill(os.getpid(), signal.SIGKILL)

        return killed

    places = {"gate": (watcher.gate, "ask"), "run": (watcher.runs, "advance"), "report": (watcher, "report"),
              "keep": (watcher.versions, "keep"), "serve": (watcher.versions, "serve"),
              "take": (watcher.staging, "take")}  # fmt: skip
    if when == "after":
        move, observe = watcher.queue.move, watcher.queue.observe

        def moving(change, to, *arguments, **facts):
            moved = move(change, to, *arguments, **facts)
            if to == name:
                os.kill(os.getpid(), signal.SIGKILL)
            return moved

        watcher.queue.move = moving  # type: ignore[method-assign]
        if name == "seen":
            watcher.queue.observe = killing(observe, first=False)  # type: ignore[method-assign]
    else:
        owner, method = places[name]
        setattr(owner, method, killing(getattr(owner, method), first=when == "before"))
    for _ in range(3):  # a run ends at the second look
        watcher.run(threading.Event(), once=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
