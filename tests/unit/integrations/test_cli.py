from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from components.avatar.errors import InputError, SystemFault
from components.integrations.cli import read_settings, step_main
from components.integrations.metrics import Metric, read_metrics
from components.integrations.progress import Progress


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    steps: int = 3
    rate: float = 0.1


SEEN = {}


def run(
    *,
    merchant: Path,
    models: Mapping[str, Path],
    champion: Path | None,
    digests: dict[str, str],
    names: list[str],
    base_model: str = "wheel:x",
    fast: bool = False,
    output: Path,
    settings: Settings,
    seed: int,
    progress: Progress,
) -> dict[str, Metric]:
    """Does the thing.

    Details.
    """
    SEEN.update(locals())
    return {"done": Metric(1.0, 1)}


@pytest.fixture
def argv(tmp_path):
    for name in ("m", "a", "b"):
        (tmp_path / name).mkdir()
    models = ["--models", f"base={tmp_path}/a", f"hat={tmp_path}/b"]
    rest = ["--digests", "data=12", "--names", "x", "y", "--output", f"{tmp_path}/out"]
    return ["--merchant", f"{tmp_path}/m", *models, *rest]


def test_every_kind_of_input_arrives(argv, tmp_path):
    assert step_main("thing", run, [*argv, "--settings", '{"steps": 5}', "--seed", "7", "--fast"]) == 0
    assert SEEN["merchant"] == tmp_path / "m" and SEEN["models"] == {"base": tmp_path / "a", "hat": tmp_path / "b"}
    assert (SEEN["champion"], SEEN["digests"], SEEN["names"]) == (None, {"data": "12"}, ["x", "y"])
    assert (SEEN["fast"], SEEN["seed"], SEEN["settings"]) == (True, 7, Settings(steps=5))
    assert read_metrics(tmp_path / "out") == {"done": Metric(1.0, 1)}


def test_settings_come_from_a_yaml_file(argv, tmp_path):
    (tmp_path / "s.yaml").write_text("rate: 0.5\n")
    assert step_main("thing", run, [*argv, "--settings", str(tmp_path / "s.yaml")]) == 0
    assert SEEN["settings"] == Settings(rate=0.5) and SEEN["base_model"] == "wheel:x"


def test_all_missing_paths_are_said_at_once_before_any_work(argv, tmp_path, capsys):
    SEEN.clear()
    (tmp_path / "m").rmdir()
    (tmp_path / "b").rmdir()
    assert step_main("thing", run, [*argv, "--digests", "bad"]) == 1
    error = capsys.readouterr().err
    assert "3 faults" in error and "--merchant" in error and "--models" in error and "NAME=VALUE" in error
    assert not SEEN and not (tmp_path / "out").exists()


def test_all_faults_of_settings_are_said():
    with pytest.raises(InputError) as caught:
        read_settings(Settings, '{"steps": "many", "ratee": 1, "rate": []}')
    assert {(f.file, f.field) for f in caught.value.faults} == {
        ("--settings", "steps"),
        ("--settings", "ratee"),
        ("--settings", "rate"),
    }
    assert "one of rate, steps" in str(caught.value)


@pytest.mark.parametrize("text", ["missing.yaml", "{bad", "[1, 2]"])
def test_unreadable_settings_are_an_input_error(text, tmp_path):
    with pytest.raises(InputError):
        read_settings(Settings, text)


def test_settings_that_are_not_utf8(tmp_path):
    (tmp_path / "s.yaml").write_bytes(b"steps: \xff")
    with pytest.raises(InputError, match=r"s\.yaml"):
        read_settings(Settings, str(tmp_path / "s.yaml"))


def test_a_fault_of_ours_ends_with_status_1_and_its_reason(tmp_path, capsys):
    def fails(*, output: Path, settings: Settings, seed: int, progress: Progress) -> dict[str, Metric]:
        raise SystemFault("the endpoint is dead")

    assert step_main("thing", fails, ["--output", str(tmp_path)]) == 1
    assert "[thing] failed: the endpoint is dead" in capsys.readouterr().err
    assert not (tmp_path / "metrics.json").exists()


def test_help_lists_inputs_and_settings(capsys):
    with pytest.raises(SystemExit) as stop:
        step_main("thing", run, ["--help"])
    out = capsys.readouterr().out
    assert stop.value.code == 0
    assert all(
        text in out
        for text in ("Does the thing.", "--merchant", "--base-model", "--no-fast", "steps = 3", "rate = 0.1")
    )
