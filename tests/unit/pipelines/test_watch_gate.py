"""The gate's process: asked, answering, failing, dying, and ending with its watcher. What it measures is measured in
tests/integration/test_watch.py.
"""

import os
import subprocess
import sys
import time

import pytest

from components.avatar.errors import SystemFault
from components.harness_gate.settings import Settings
from pipelines.watch.gate import GateProcess, Question
from tests.unit.pipelines.watch_parts import KEEP, MERCHANT, ROOT

ANSWERS = f"""
import json, pathlib, sys
print("ready", flush=True)
for line in sys.stdin:
    folder = pathlib.Path(line.strip())
    question = json.loads((folder / "question.json").read_text())
    if question["seed"] == 13:
        (folder / "fault.json").write_text(json.dumps({{"why": "MLflow is down"}}))
    elif question["seed"] == 66:
        sys.exit("no memory left")
    else:
        (folder / "answer.part").write_text({KEEP.model_dump_json()!r})
        (folder / "answer.part").rename(folder / "answer.json")
"""


def question(seed=0):
    return Question(
        merchant=MERCHANT, tracking_uri="x", experiment="x", settings=Settings(), seed=seed, asked="a", known={}
    )


@pytest.fixture
def gate():
    process = GateProcess((sys.executable, "-c", ANSWERS))
    yield process
    process.close()


def answer(gate):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if (found := gate.answer()) is not None:
            return found
        time.sleep(0.02)
    raise AssertionError("no answer")


def test_one_process_answers_one_question_after_the_other(gate, tmp_path):
    pids = set()
    for number in range(3):
        assert not gate.busy
        gate.ask(question(), tmp_path / str(number))
        assert gate.busy
        assert answer(gate) == KEEP
        pids.add(gate._process.pid)
    assert len(pids) == 1 and not gate.busy


def test_a_fault_is_told_and_the_next_question_is_answered(gate, tmp_path):
    gate.ask(question(13), tmp_path / "1")
    with pytest.raises(SystemFault, match="the gate failed: MLflow is down"):
        answer(gate)
    gate.ask(question(), tmp_path / "1")
    assert answer(gate) == KEEP


def test_a_process_that_dies_is_told_with_its_last_words_and_replaced(gate, tmp_path):
    gate.ask(question(66), tmp_path / "1")
    with pytest.raises(SystemFault, match=r"died \(status 1\): .*no memory left"):
        answer(gate)
    gate.ask(question(), tmp_path / "1")
    assert answer(gate) == KEEP
    gate._process.kill()
    gate._process.wait()
    gate.ask(question(), tmp_path / "2")
    assert answer(gate) == KEEP


def test_the_process_ends_with_its_watcher():
    process = subprocess.Popen([sys.executable, "-m", "pipelines.watch.gate"], cwd=ROOT, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.poll() is None
    process.stdin.close()  # as the kernel does when the watcher is killed
    assert process.wait(timeout=120) == 0
    assert not os.path.exists(f"/proc/{process.pid}")
