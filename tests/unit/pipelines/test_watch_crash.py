"""Killed by SIGKILL at any place, the watcher goes on where it was: nothing lost, nothing done twice."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from pipelines.watch.queue import Queue
from pipelines.watch.trigger import Ended
from tests.unit.pipelines.watch_parts import RETRAIN, ROOT, Gate, Runs, make_watcher, put_merchant

PLACES = {  # where it dies -> the state that is on the disk then
    "before take": None,
    "after seen": "seen",
    "before keep": "seen",
    "within keep": "seen",
    "after accepted": "accepted",
    "within serve": "accepted",
    "within gate": "accepted",
    "after queued": "queued",
    "after running": "running",
    "within run": "running",
    "after trained": "trained",
    "before report": "accepted",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_killed_watcher_goes_on_where_it_was(place, tmp_path):
    put_merchant(tmp_path)
    command = [sys.executable, "-m", "tests.unit.pipelines.watch_parts", str(tmp_path), place]
    killed = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()

    left = Queue(tmp_path / "state/queue.db")
    assert [change.state for change in left.of("lumi")] == ([PLACES[place]] if PLACES[place] else [])
    left.close()

    watcher = make_watcher(tmp_path, Gate(RETRAIN), runs := Runs(tmp_path, Ended(True, "promoted", 60.0)))
    for _ in range(3):
        watcher.run(threading.Event(), once=True)
    [change] = watcher.queue.of("lumi")
    states = [state for _, state in watcher.queue.history(change)]
    assert states == ["seen", "accepted", "queued", "running", "trained"]
    assert runs.started == ["run-1"]
    served = tmp_path / "state/accepted/lumi"
    assert served.resolve().parent.name == change.digest and (served / "harness.yaml").is_file()
    pointer = json.loads((tmp_path / "state/store/accepted/lumi.json").read_text())
    assert pointer["digest"] == change.digest
    report = json.loads((tmp_path / "state/reports/lumi.json").read_text())
    assert report["changes"][0]["state"] == "trained" and watcher.queue.dirty() == []
