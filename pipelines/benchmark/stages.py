"""One stage of the benchmark: a step's own command line in a process of its own, done once.

A stage writes beside its folder and takes its name when it is complete. It is done again when its settings, seed, code
or anything that it reads has changed, so a stopped benchmark goes on where it was.
"""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from components.avatar.errors import InputError, SystemFault
from components.avatar.harness.schema import content_digest
from components.integrations.metrics import METRICS_FILE, read_json, write_json
from pipelines.digests import code_digest
from pipelines.environment import step_environment

RECORD = "stage.json"


@dataclass(frozen=True)
class Stage:
    """`options` are those of `python -m components.<step>` beside output, settings and seed; `needs` are the stages
    whose folders stand in them."""

    folder: Path
    step: str
    options: tuple[str, ...]
    settings: str = "{}"
    seed: int = 0
    needs: tuple["Stage", ...] = ()
    inputs: str = ""  # digest of what it reads beside them

    @cached_property
    def key(self) -> str:
        """Digest of everything that the result is a function of."""
        before = [stage.key for stage in self.needs]
        code = code_digest(self.step)
        return content_digest([self.step, self.options, self.settings, self.seed, code, self.inputs, before])

    @property
    def name(self) -> str:
        """For people: the seed's folder and the stage's."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def done(self) -> bool:
        try:
            return read_json(self.folder / RECORD)["key"] == self.key and (self.folder / METRICS_FILE).is_file()
        except (InputError, KeyError, TypeError):
            return False

    def command(self, output: Path) -> list[str]:
        return [
            *(sys.executable, "-m", f"components.{self.step}", *self.options),
            *("--output", str(output), "--settings", self.settings, "--seed", str(self.seed)),
        ]


def run_stage(stage: Stage, log: Path) -> bool:
    """Run a stage that is not done; returns whether it ran. Its lines go to stdout and to `log`.

    Raises SystemFault when it fails; what it had written stays in `<folder>.part` for a look.
    """
    if stage.done:
        return False
    part = stage.folder.with_name(f"{stage.folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    started = time.monotonic()
    with log.open("a", encoding="utf-8") as file:
        process = subprocess.Popen(
            stage.command(part),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **step_environment()},
        )
        assert process.stdout is not None
        with process:
            for line in process.stdout:
                file.write(line)
                if line.startswith(f"[{stage.step}]") and " = " not in line:
                    print(
                        f"[{stage.folder.parent.name}/{stage.folder.name}] {line.partition('] ')[2]}",
                        end="",
                        flush=True,
                    )
    if process.returncode:
        raise SystemFault(f"{stage.name} ended with status {process.returncode}; its lines are in {log}")
    seconds = time.monotonic() - started
    write_json(part / RECORD, {"key": stage.key, "seconds": seconds, "command": stage.command(stage.folder)})
    shutil.rmtree(stage.folder, ignore_errors=True)
    part.rename(stage.folder)
    return True
