"""A user's harness and a model folder on the command line: figures, and failed cases that a person can read."""

import json
from pathlib import Path

import pytest

from components.evaluation.own_harness import main
from components.integrations.weights import resolve_base_model

ROOT = Path(__file__).parents[3]
HARNESS = ROOT / "infra/harnesses/peak-sport"


@pytest.fixture(scope="module")
def tiny() -> Path:
    return resolve_base_model("random:tiny", ROOT / ".cache")


def test_figures_and_failed_cases(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--harness", str(HARNESS), "--model", str(tiny), "--out", str(tmp_path), "--cases", "4"]) == 0
    shown = capsys.readouterr().out
    report = json.loads((tmp_path / "evaluation.json").read_text())["models"]["model"]
    for decoding in ("free", "constrained"):
        assert report[decoding]["T1"]["n"] == report[decoding]["T2"]["n"] == 4
    assert "quality under held-out names and wordings" in shown and "(n=4)" in shown
    rows = [json.loads(line) for line in (tmp_path / "cases.jsonl").read_text().splitlines()]
    failures = (tmp_path / "failures.txt").read_text()
    assert failures.count("== T") == sum(row["failed"] for row in rows) > 0  # random weights solve nothing
    assert rows[0]["transcript"][0]["text"].split()[0] in failures


def test_all_faults_of_both_folders_are_said_before_a_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop").mkdir()
    assert main(["--harness", str(tmp_path / "shop"), "--model", str(tmp_path), "--out", str(tmp_path / "o")]) == 2
    assert "harness.yaml" in capsys.readouterr().err
    assert main(["--harness", str(HARNESS), "--model", str(tmp_path / "none"), "--out", str(tmp_path / "o")]) == 2
    assert "none" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()
