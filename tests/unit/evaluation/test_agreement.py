"""The labelled replies are complete and true to their shops; the command's figures are those of its rows."""

import json
import math
import sys
from collections import Counter
from pathlib import Path

import pytest

from components.avatar.errors import InputError
from components.avatar.harness.schema import Family
from components.evaluation.agreement import __main__ as command
from components.evaluation.agreement.cases import facts_of, load_transcripts
from components.evaluation.agreement.playing import judge
from components.evaluation.agreement.statistics import agreement

ROWS = load_transcripts()


def test_there_are_enough_of_every_kind() -> None:
    assert len(ROWS) >= 300
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert sum(row.tricky is not None for row in ROWS) >= len(ROWS) / 3
    assert {row.family for row in ROWS} == set(Family) - {Family.OUTAGE}  # an outage is a question of another family
    assert min(Counter(row.merchant for row in ROWS).values()) >= 100
    held_out = sum(row.held_out for row in ROWS)
    assert min(held_out, len(ROWS) - held_out) >= 150
    assert len({(row.merchant, row.family, row.reply, row.question) for row in ROWS}) == len(ROWS)


def test_facts_are_those_of_the_frozen_shops() -> None:
    for row in ROWS:
        assert row.facts == facts_of(row), row.id


def test_labels_keep_the_definitions() -> None:
    """Who says nothing wrong and answers has some effect, unless two rules are broken or nothing was answered."""
    for row in ROWS:
        assert row.effectiveness in (0, 0.5, 1) and row.reason, row.id
        if row.accuracy == 1 and row.effectiveness == 0:
            assert row.tricky in ("long", "form", "json"), row.id


def test_a_faulty_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a"}\n{"id": "b", "accuracy": 2}\n', encoding="utf-8")
    with pytest.raises(InputError) as error:
        load_transcripts([path])
    assert {fault.field.split(".")[0] for fault in error.value.faults} == {"line 1", "line 2"}


def test_kappa_of_the_textbook() -> None:
    """20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, chance 0.5, kappa 0.4."""
    first = [1.0] * 25 + [0.0] * 25
    second = [1.0] * 20 + [0.0] * 5 + [1.0] * 10 + [0.0] * 15
    found = agreement(first, second)
    assert (found.n, found.share) == (50, 0.7)
    assert found.kappa == pytest.approx(0.4)
    assert found.table == {(1.0, 1.0): 20, (1.0, 0.0): 5, (0.0, 1.0): 10, (0.0, 0.0): 15}


def test_kappa_without_variation_is_undefined() -> None:
    assert math.isnan(agreement([1.0, 1.0], [1.0, 1.0]).kappa)
    with pytest.raises(ValueError, match="pairs"):
        agreement([], [])


def test_the_command_says_what_the_rows_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    out = tmp_path / "agreement.json"
    monkeypatch.setattr(sys, "argv", ["agreement", "--out", str(out)])
    command.main()
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["n"] == len(ROWS) == report["splits"]["development"]["n"] + report["splits"]["held_out"]["n"]
    for name in ("development", "held_out"):
        ours = report["splits"][name]["accuracy"]["label_evaluation"]
        assert ours["agreement"] >= 0.95 and ours["kappa"] >= 0.85, name
        assert sum(ours["table"].values()) == report["splits"][name]["n"]
    printed = capsys.readouterr().out
    for difference in report["disagreements"]:
        assert difference["id"] in printed
        label = (difference["label"]["accuracy"], difference["label"]["effectiveness"])
        others = [
            (difference[name]["accuracy"], difference[name]["effectiveness"]) for name in ("reward", "evaluation")
        ]
        assert any(other != label for other in others)


def test_a_row_is_played_as_it_says() -> None:
    """The same reply is judged by what could be had: guessed where the tool was down, declined where it answered."""
    special = [row for row in ROWS if not row.held_out and (row.faults or row.withdrawn or not row.skill)]
    assert {row.tricky for row in special} >= {"fabricated", "declined_wrongly", "partial", "no_skill"}
    for found in map(judge, special):
        assert (found.evaluation.accuracy, found.evaluation.effectiveness) == (
            found.label.accuracy,
            found.label.effectiveness,
        ), found.row.id
