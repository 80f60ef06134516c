"""Edits help who reads them, and nobody else; error reduction on counts with a known answer."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from components.avatar.agent.actors import OracleActor, ScriptedActor, never_call
from components.avatar.agent.chat import Chat
from components.avatar.agent.surfaces import Surfaces, surfaces_of
from components.avatar.harness.lint import lint
from components.avatar.harness.schema import Harness
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import Scenario
from components.evaluation.edit_test.__main__ import main
from components.evaluation.edit_test.edits import KINDS, Edit, make_edits
from components.evaluation.edit_test.rounds import _needed, evolve
from components.evaluation.edit_test.run import Errors, _cell, _errors
from components.integrations.weights import resolve_base_model

ROOT = Path(__file__).parents[3]
HARNESS = ROOT / "infra/harnesses/lumi-beauty"


@pytest.fixture(scope="module")
def merchant() -> Merchant:
    return load_merchant(HARNESS)


@pytest.fixture(scope="module")
def seen(merchant: Merchant) -> Surfaces:
    return surfaces_of([merchant.harness])


@pytest.fixture(scope="module")
def edits(merchant: Merchant, seen: Surfaces) -> list[Edit]:
    return make_edits(merchant, 36, 2, 0, seen)


@pytest.fixture(scope="module")
def chat() -> Chat:
    from transformers import AutoTokenizer

    return Chat(AutoTokenizer.from_pretrained(resolve_base_model("random:tiny", ROOT / ".cache")))


def test_all_kinds_in_equal_shares_and_the_same_again(edits: list[Edit], merchant: Merchant, seen: Surfaces) -> None:
    assert [edit.kind for edit in edits] == list(KINDS) * 12
    again = make_edits(merchant, 36, 2, 0, seen)
    assert [(e.before.digest, e.after.digest, e.scenarios) for e in edits] == [
        (e.before.digest, e.after.digest, e.scenarios) for e in again
    ]


def test_an_edit_changes_one_thing_and_brings_only_new_names(edits: list[Edit], merchant: Merchant) -> None:
    own = {tool.name for tool in merchant.harness.tools} | {skill.name for skill in merchant.harness.skills}
    for edit in edits:
        assert edit.before.digest != edit.after.digest
        tools = {t.name for t in edit.after.tools} - {t.name for t in edit.before.tools}
        skills = {s.name for s in edit.after.skills} - {s.name for s in edit.before.skills}
        assert (len(tools), len(skills)) == {"new_tool": (1, 0), "new_skill": (0, 1), "new_rule": (0, 0)}[edit.kind]
        assert not (tools | skills) & own
        assert {t.name for t in edit.before.tools} <= own


def test_every_edited_harness_is_a_valid_one(edits: list[Edit]) -> None:
    for edit in edits:
        found = [finding for finding in lint(edit.after) if finding.severity == "error"]
        assert not found, (edit.kind, edit.what, found)


def test_the_oracle_fails_before_and_succeeds_after(edits: list[Edit], merchant: Merchant, chat: Chat) -> None:
    errors = _errors(edits, OracleActor(chat), chat, merchant)
    helped = errors.after < errors.before
    for kind in KINDS:
        share = np.mean([flag for flag, edit in zip(helped, edits, strict=True) if edit.kind == kind])
        assert share > 0.8, kind
    assert errors.after[helped].sum() == 0


def test_a_policy_that_does_not_read_the_harness_gains_nothing(
    edits: list[Edit], merchant: Merchant, chat: Chat
) -> None:
    errors = _errors(edits, ScriptedActor(chat, never_call), chat, merchant)
    chosen = [i for i, edit in enumerate(edits) if edit.kind != "new_rule"]
    assert (errors.before[chosen] == errors.cases[chosen]).all()
    assert (errors.after[chosen] == errors.cases[chosen]).all()


def test_error_reduction() -> None:
    errors = Errors(np.array([2, 2, 0]), np.array([0, 1, 0]), np.array([2, 2, 2]))
    assert errors.reduction(np.array([0, 1, 2])) == 0.75
    assert math.isnan(errors.reduction(np.array([2])))
    cell = _cell(errors, np.array([0, 1, 2]), seed=0)
    assert cell["error_before"] == pytest.approx(4 / 6) and cell["error_after"] == pytest.approx(1 / 6)
    low, high = cell["reduction"]["ci"]
    assert 0.5 <= low <= 0.75 <= high <= 1


def sets(merchant: Merchant) -> tuple[list, list, list]:
    first, second, third = (sample_scenarios(merchant, 24, seed=number, split="test") for number in (1, 2, 3))
    return first, second, third


def test_rounds_keep_an_edit_that_repairs_and_refuse_one_that_breaks(merchant: Merchant) -> None:
    """A policy that fails where a needed tool's description is the merchant's own, and reads any other."""
    own = {tool.description for tool in merchant.harness.tools}

    def reads(harness: Harness, scenarios: Sequence[Scenario]) -> list[float]:
        named = [[harness.tool(n) for n in _needed(harness, scenario)] for scenario in scenarios]
        return [float(all(t is None or t.description not in own for t in tools)) for tools in named]

    told = evolve(merchant.harness, reads, sets(merchant), rounds=2, seed=0)
    assert [step["accepted"] for step in told["rounds"]] == [True, True]
    assert told["quality_after"] > told["quality_before"] and told["difference"]["n"] == 24

    calls: list[Harness] = []

    def regresses(harness: Harness, scenarios: Sequence[Scenario]) -> list[float]:
        """Better on the cases that edits are chosen on, worse on all others."""
        calls.append(harness)
        changed = harness.digest != merchant.harness.digest
        chosen = scenarios[0].id.startswith("lumi-beauty-test-1-")
        return [float(changed == chosen)] * len(scenarios)

    told = evolve(merchant.harness, regresses, sets(merchant), rounds=2, seed=0)
    assert [step["why"] for step in told["rounds"]] == ["breaks other cases"]
    assert told["difference"]["value"] == 0  # the harness is as it was


def test_rounds_stop_where_nothing_helps(merchant: Merchant) -> None:
    for constant, why in ((0.0, "no description repairs more than it breaks"), (1.0, "no failed case to blame")):
        told = evolve(merchant.harness, lambda _h, s, c=constant: [c] * len(s), sets(merchant), rounds=3, seed=0)
        assert [step["why"] for step in told["rounds"]] == [why]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], seen: Surfaces) -> None:
    surfaces, tiny = tmp_path / "surfaces.json", resolve_base_model("random:tiny", ROOT / ".cache")
    surfaces.write_text(seen.model_dump_json())
    given = [
        "--merchant",
        str(HARNESS),
        "--surfaces",
        str(surfaces),
        "--out",
        str(tmp_path),
        "--edits",
        "3",
        "--rounds",
        "0",
    ]
    assert main([*given, "--cases", "1", "--models", f"a={tiny}", f"b={tiny}"]) == 0
    shown = capsys.readouterr().out
    assert "oracle" in shown and "b - a, free: 0.0% [0.0, 0.0] points of errors removed" in shown
    assert main([*given, "--models", "nothing", f"b={tmp_path / 'no'}"]) == 2
    said = capsys.readouterr().err
    assert "NAME=DIR" in said and str(tmp_path / "no") in said
