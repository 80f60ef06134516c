"""The harness gate in a process of its own: the champion plays the edited harness.

A model needs memory that a watcher should not keep, and may crash. The process answers one question after the other and
ends with its watcher; what it had not answered is asked again. The profile's `harness_gate` section says how much is
measured and what is good enough; its mode is about runs that a person starts, and the watcher always measures.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from components.avatar.errors import InputError, SystemFault
from components.avatar.harness.schema import Frozen
from components.harness_gate.settings import Settings
from components.integrations.metrics import read_json, write_json
from pipelines.watch.queue import Verdict

LOG_LINES = 3


class Question(Frozen):
    """`known`: verdicts on the same content under the same settings (whose digest is `asked`), by version of the
    champion.
    """

    merchant: Path
    tracking_uri: str
    experiment: str
    settings: Settings
    seed: int
    asked: str
    known: dict[str, Verdict]


class GateProcess:
    """One question at a time: measuring uses the whole machine."""

    def __init__(self, program: tuple[str, ...] = (sys.executable, "-m", "pipelines.watch.gate")) -> None:
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._log = Path()

    @property
    def busy(self) -> bool:
        """A question was asked whose answer was not taken."""
        return self._folder is not None

    def ask(self, question: Question, folder: Path) -> None:
        """Start on `question`; `folder` gets question.json and answer.json or fault.json, the one above it the log."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("answer.json", "fault.json"):
            (folder / name).unlink(missing_ok=True)
        write_json(folder / "question.json", question.model_dump(mode="json"))
        self._folder = folder
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._folder = folder
            self._process = self._start(folder.parent / "gate.log")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{folder}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:  # it died: `answer` says why
            pass

    def answer(self) -> Verdict | None:
        """The verdict, None while it is measured. Raises SystemFault when it cannot be had."""
        folder, process = self._folder, self._process
        if folder is None or process is None:
            return None
        status = process.poll()  # before the look at the files: it may end right after it wrote them
        if (folder / "answer.json").is_file():
            self._folder = None
            return Verdict.model_validate(read_json(folder / "answer.json"))
        if (folder / "fault.json").is_file():
            self._folder = None
            raise SystemFault(f"the gate failed: {read_json(folder / 'fault.json')['why']}")
        if status is None:
            return None
        self.close()
        log = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise SystemFault(f"the gate's process died (status {status}): " + " | ".join(log[-LOG_LINES:]))

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process = self._folder = None

    def _start(self, log: Path) -> subprocess.Popen[bytes]:
        self._log = log
        with log.open("wb") as output:
            return subprocess.Popen(
                self._program,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=Path(__file__).parents[2],
                start_new_session=True,  # a Ctrl-C is for the watcher, which then ends this process
            )


def answer(question: Question, folder: Path) -> Verdict:
    """Ask the registry for the champion, and the champion for its replies."""
    from components.avatar.simulator.merchant import load_merchant
    from components.harness_gate.run import decide
    from components.integrations.progress import Progress
    from components.integrations.registry import Registry
    from components.integrations.tracking import Tracking
    from pipelines.run import CACHE

    started = time.monotonic()
    world = load_merchant(question.merchant)
    tracking = Tracking(question.tracking_uri, question.experiment)
    champion = Registry(tracking, str(folder)).champion()  # reads only: nothing is stored
    if champion is not None and champion.version in question.known:
        return question.known[champion.version].model_copy(update={"reused": True, "seconds": 0.0})
    settings = question.settings.model_copy(update={"mode": "measure"})
    retrain, why, metrics = decide(world, champion, settings, question.seed, CACHE, Progress("harness_gate"))
    measured = metrics.get("champion_quality")
    return Verdict(
        retrain=retrain,
        why=why,
        champion=None if champion is None else champion.version,
        asked=question.asked,
        quality=None if measured is None else measured.value,
        cases=0 if measured is None else measured.n,
        seconds=round(time.monotonic() - started, 1),
    )


def main() -> int:
    """Answer the questions whose folders come in, one a line, until the watcher closes the pipe or dies."""
    folders: SimpleQueue[Path] = SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin, folders), daemon=True).start()
    while True:
        folder = folders.get()
        try:
            question = Question.model_validate(json.loads((folder / "question.json").read_text(encoding="utf-8")))
            write_json(folder / "answer.json", answer(question, folder).model_dump(mode="json"))
        except (InputError, SystemFault, OSError) as error:
            write_json(folder / "fault.json", {"why": str(error)})


def _read(lines: IO[str], folders: SimpleQueue[Path]) -> None:
    for line in lines:
        folders.put(Path(line.rstrip("\n")))
    os._exit(0)  # in the middle of a measurement, too


if __name__ == "__main__":
    raise SystemExit(main())
