"""What a person sees of kfp's local runner: the steps' own lines, at once and without kfp's wrapping. Everything goes
to run.log.
"""

import io
import re
from pathlib import Path
from typing import TextIO

_KFP_LINE = re.compile(r"^\d\d:\d\d:\d\d\.\d{3} - (INFO|WARNING|ERROR) - (.*)")
COLOR = re.compile(r"\x1b\[\d+m")
_NOISE = re.compile(r"^\[KFP Executor |^\S+\.py:\d+: \w*Warning: |^\s*warnings\.warn\(|^-{60,}$")


class Console(io.TextIOBase):
    """A stand-in for stdout during a local run.

    kfp logs `Executing task`, then the task's output indented by four spaces after `Streamed logs:`, then the status
    and a listing of outputs. Only the task's own lines and kfp's errors reach the terminal, flushed line by line.
    """

    def __init__(self, terminal: TextIO, log: Path) -> None:
        self._terminal = terminal
        self._log = log.open("a", encoding="utf-8")
        self._rest = ""
        self._streaming = False  # between "Streamed logs:" and the task's status
        self._in_json = False  # the executor's dump of its input

    def write(self, text: str) -> int:
        self._rest += text
        *lines, self._rest = self._rest.split("\n")
        for line in lines:
            self._log.write(line + "\n")
            shown = self._shown(line)
            if shown is not None:
                self._terminal.write(shown + "\n")  # not print: kfp replaces builtins.print while a task runs
                self._terminal.flush()
        self._log.flush()
        return len(text)

    def flush(self) -> None:
        if not self._log.closed:
            self._log.flush()
        self._terminal.flush()

    def close(self) -> None:
        super().close()  # flushes first
        self._log.close()

    def _shown(self, line: str) -> str | None:
        kfp = _KFP_LINE.match(line)
        if kfp:
            self._streaming = kfp[2].startswith("Streamed logs:")
            self._in_json = False
            return COLOR.sub("", kfp[2]) if kfp[1] == "ERROR" else None
        if not self._streaming:
            return None
        line = line.removeprefix("    ").split("\r")[-1]  # a progress bar's last state
        if self._in_json:
            self._in_json = line != "}"
            return None
        if line.startswith("[KFP Executor "):
            self._in_json = line.endswith("Got executor_input:")
            return None
        return None if not line.strip() or _NOISE.match(line) else line
