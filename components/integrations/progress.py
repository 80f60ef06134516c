"""Progress that a person can follow: one throttled line on stdout, and every printed line as JSON in a file.

Stdout is a pipe when Kubeflow's SubprocessRunner runs the step, so there are no carriage returns or bars: whole
lines, flushed at once.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

FieldValue = float | int | str | bool | None


class Progress:
    """Progress of one step. `update` may be called as often as one likes; a line is printed at most every
    `interval_s` seconds.

    The first and the last update of a phase are always printed. A phase ends when `total` changes or `done` goes
    back; the rate (items a second) and the time left are those of the phase, so a fast warm-up does not flatter the
    training that follows.
    """

    def __init__(
        self,
        step: str,
        path: Path | None = None,
        *,
        interval_s: float = 2.0,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.step = step
        self.path = path
        self._interval_s = interval_s
        self._stream = stream
        self._clock = clock
        self._started = clock()
        self._phase_started = self._started
        self._phase_base = 0
        self._previous: tuple[int, int] | None = None
        self._printed_at = float("-inf")
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def update(self, done: int, total: int, **fields: FieldValue) -> None:
        """Report `done` of `total` items; `fields` (loss, reward, arm, ...) are shown and stored as given."""
        now = self._clock()
        new_phase = self._previous is None or total != self._previous[1] or done < self._previous[0]
        if new_phase:
            self._phase_started = self._started if self._previous is None else now
            # When the first report of a later phase already counts items, their time is unknown: leave them out.
            self._phase_base = 0 if self._previous is None else done
        finished_now = done >= total and (new_phase or self._previous != (done, total))
        self._previous = (done, total)
        if not (new_phase or finished_now or now - self._printed_at >= self._interval_s):
            return
        self._printed_at = now
        elapsed = now - self._phase_started
        counted = done - self._phase_base
        rate = counted / elapsed if elapsed > 0 and counted > 0 else None
        left = (total - done) / rate if rate else None
        self._print(f"{done}/{total}" + _timing(rate, left if done < total else None) + _shown(fields))
        self._append({"done": done, "total": total, "rate": _rounded(rate), "eta_s": _rounded(left), **fields})

    def note(self, text: str, **fields: FieldValue) -> None:
        """Print one line at once, for a fact that is not a count (a choice made, an estimate, a verdict)."""
        self._print(text + _shown(fields))
        self._append({"note": text, **fields})

    def _print(self, text: str) -> None:
        print(f"[{self.step}] {text}", file=self._stream or sys.stdout, flush=True)

    def _append(self, row: dict[str, FieldValue]) -> None:
        if self.path is None:
            return
        line = {
            "step": self.step,
            "at": round(time.time(), 3),
            "elapsed_s": _rounded(self._clock() - self._started),
            **row,
        }
        # Opened for each line: several processes append to one file, and short O_APPEND writes do not interleave.
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")


def duration(seconds: float) -> str:
    """A duration for people: `42s`, `3m05s`, `1h02m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def _timing(rate: float | None, left: float | None) -> str:
    if rate is None:
        return ""
    speed = f"{rate:.3g}/s" if rate >= 0.1 else f"{duration(1 / rate)} each"
    return f"  {speed}" + (f"  {duration(left)} left" if left is not None else "")


def _shown(fields: dict[str, FieldValue]) -> str:
    return "".join(
        f"  {name}={value:.4g}" if isinstance(value, float) else f"  {name}={value}" for name, value in fields.items()
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
