"""A short run of the coverage-guided fuzzer, the same every time."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RUNS = 15_000


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed; `make fuzz` does")
def test_the_fuzzer_finds_no_text_that_breaks_a_law(tmp_path):
    arguments = [str(tmp_path / "corpus"), f"-runs={RUNS}", "-seed=1", "-max_len=400", f"-artifact_prefix={tmp_path}/"]
    command = [sys.executable, "-m", "tests.unit.agent.fuzz_parser", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Done {RUNS}" in done.stderr
