"""The benchmark's plan, its stages' memory, and the result that it makes of hand-made evaluations."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.avatar.errors import InputError, SystemFault
from pipelines.benchmark.arms import ARMS, evaluation_stage, plan_of_run, training_plan
from pipelines.benchmark.results import compare, goals, read_evaluation, table
from pipelines.benchmark.run import FURTHER_ARMS, assemble
from pipelines.benchmark.stages import Stage, run_stage
from pipelines.preflight import Prepared
from pipelines.profile import load_profile
from pipelines.report.page import rewrite_report

PROFILE = load_profile("local")


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    return Prepared(tmp_path / "merchant", "m1", "h1", tmp_path / "base", "b1")


def test_arms_differ_in_what_they_are_named_after(prepared: Prepared, tmp_path: Path) -> None:
    plan = training_plan(PROFILE, prepared, tmp_path, seed=4)
    stages = {arm: made.stage for arm, made in plan.arms.items()}
    assert tuple(stages) == ARMS and stages["base"] is None
    fixed, hsa = stages["fixed_sft"], stages["hsa_sft"]
    assert fixed and hsa and fixed.settings == hsa.settings and fixed.seed == hsa.seed == 4
    assert fixed.options != hsa.options and fixed.needs == hsa.needs  # other examples out of the same data
    assert stages["hsa_sft_opd"] and stages["hsa_sft_opd"].needs == (hsa,)
    hat, fixed_rl = stages["hat"], stages["fixed_rl"]
    assert hat and fixed_rl and fixed_rl.needs == (fixed,)
    changed = {"original_share": 1.0}
    assert json.loads(fixed_rl.settings) == json.loads(hat.settings) | changed


def test_every_stage_comes_after_what_it_needs_and_once(prepared: Prepared, tmp_path: Path) -> None:
    for arms in (ARMS, FURTHER_ARMS, ("base",)):
        stages = training_plan(PROFILE, prepared, tmp_path, 0, arms).stages
        for place, stage in enumerate(stages):
            assert all(need in stages[:place] for need in stage.needs)
        assert len({stage.key for stage in stages}) == len(stages)
    names = [stage.folder.name for stage in training_plan(PROFILE, prepared, tmp_path, 0, ("base",)).stages]
    assert names == ["teacher", "data"]  # the base model is trained by nothing, but T2 must avoid what training shows


def test_a_stage_is_another_when_anything_before_it_changes(prepared: Prepared, tmp_path: Path) -> None:
    plan = training_plan(PROFILE, prepared, tmp_path, 0)
    before = evaluation_stage(plan, "hat", prepared.merchant, tmp_path, "{}").key
    other = training_plan(PROFILE, replace(prepared, merchant_digest="m2"), tmp_path, 0)
    assert evaluation_stage(other, "hat", prepared.merchant, tmp_path, "{}").key != before
    longer = PROFILE.model_copy(update={"sft": PROFILE.sft.model_copy(update={"learning_rate": 1e-5})})
    plan = training_plan(longer, prepared, tmp_path, 0)
    assert evaluation_stage(plan, "hat", prepared.merchant, tmp_path, "{}").key != before
    base = evaluation_stage(plan, "base", prepared.merchant, tmp_path, "{}").key
    assert (
        base
        == evaluation_stage(
            training_plan(PROFILE, prepared, tmp_path, 0), "base", prepared.merchant, tmp_path, "{}"
        ).key
    )


def domain_stage(tmp_path: Path, **changes: Any) -> Stage:
    merchant = Path(__file__).parents[3] / "infra/harnesses/lumi-beauty"
    settings = json.dumps({"episodes": 4, "families": {"price": 1}} | changes)
    return Stage(tmp_path / "teacher", "teacher_generation", ("--merchant", str(merchant)), settings)


def test_a_stage_runs_once_and_again_when_its_settings_change(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run_stage(domain_stage(tmp_path), log) is True
    assert (tmp_path / "teacher" / "metrics.json").is_file() and not (tmp_path / "teacher.part").exists()
    assert run_stage(domain_stage(tmp_path), log) is False
    assert not domain_stage(tmp_path, episodes=6).done


def test_a_failed_stage_says_where_its_lines_are_and_is_not_done(tmp_path: Path) -> None:
    stage = domain_stage(tmp_path, episodes="many")
    with pytest.raises(SystemFault, match=r"teacher ended with status 1; its lines are in .*log"):
        run_stage(stage, tmp_path / "log")
    assert "episodes" in (tmp_path / "log").read_text() and not stage.done


def test_a_run_without_its_models_is_refused_with_all_faults(prepared: Prepared, tmp_path: Path) -> None:
    run = {"mlflow_run_id": "r", "attempt": 1, "inputs": {"merchant_digest": "m1", "base_digest": "other"}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    with pytest.raises(InputError) as error:
        plan_of_run(PROFILE, prepared, tmp_path, tmp_path)
    assert {fault.field for fault in error.value.faults} >= {"fixed_sft", "hat", "harness_augmentation", "base_digest"}


def write_evaluation(folder: Path, arm: str, qualities: dict[str, list[float]], general: list[int]) -> None:
    """Evaluation output in which scenario i of a suite has quality `qualities[suite][i]` under both decodings."""
    folder.mkdir(parents=True)
    cells = {suite: {"value": sum(q) / len(q), "n": len(q)} for suite, q in qualities.items()}
    cells["T2.selection_error_rate"] = {"value": 0.1, "n": 4}
    cells["gap"] = {"value": cells["T1"]["value"] - cells["T2"]["value"], "ci": [0.0, 0.1], "n": 4}
    report = {"models": {arm: {"free": cells, "constrained": cells}}, "general": {arm: general}}
    (folder / "evaluation.json").write_text(json.dumps(report))
    rows = [
        {
            "decoding": decoding,
            "suite": suite,
            "scenario": f"s{number}",
            "score": {"accuracy": quality, "effectiveness": quality},
        }
        for decoding in ("free", "constrained")
        for suite, values in qualities.items()
        for number, quality in enumerate(values)
    ]
    rows.append({"decoding": "free", "suite": "T2", "scenario": "ours", "score": None})
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def evaluated(tmp_path: Path) -> dict:
    write_evaluation(tmp_path / "f", "fixed_sft", {"T1": [1, 1, 1, 1], "T2": [0, 0, 1, 0], "T3": [0, 0]}, [1, 0, 0])
    write_evaluation(tmp_path / "h", "hat", {"T1": [1, 1, 1, 0], "T2": [1, 1, 1, 0], "T3": [1, 0]}, [1, 1, 0])
    return {arm: read_evaluation(tmp_path / arm[0], arm) for arm in ("fixed_sft", "hat")}


def test_comparisons_are_paired_by_scenario(evaluated: dict) -> None:
    rows = {(row["metric"], row["decoding"]): row for row in compare(evaluated, seed=0)}
    assert set(rows) == {(s, d) for s in ("T1", "T2", "T3") for d in ("free", "constrained")} | {("general", "free")}
    assert rows["T2", "free"]["value"] == 0.5 and rows["T2", "free"]["n"] == 4  # our own fault is no pair
    assert rows["T1", "free"]["value"] == -0.25
    assert rows["general", "free"]["value"] == pytest.approx(1 / 3)
    low, high = rows["T2", "free"]["ci"]
    assert 0 <= low < 0.5 < high <= 1


def test_goals_say_what_was_found_and_stay_open_where_an_arm_is_missing(evaluated: dict) -> None:
    arms = {arm: e.metrics for arm, e in evaluated.items()}
    found = {row["goal"]: row for row in goals(arms, compare(evaluated, seed=0))}
    assert found["T2, constrained"] == {"goal": "T2, constrained", "found": 0.75, "needed": ">= 0.85", "met": False}
    assert found["gap of fixed_sft, free"]["met"] is True
    assert found["T2, hat - fixed_sft, free"]["met"] is True
    assert found["general, hat - base"]["met"] is None and found["general, hat - base"]["found"] is None


def test_result_table_and_page(evaluated: dict, tmp_path: Path) -> None:
    result = assemble({0: evaluated, 7: evaluated})
    assert result["seeds"] == [0, 7] and result["by_seed"]["7"]["hat"]["free"]["T2"]["value"] == 0.75
    shown = table(result)
    assert "hat - fixed_sft, T2, free: +50.0 [" in shown and "NOT met" in shown and "not measured" in shown
    head = {"profile": "p", "models_from": None, "seconds": 1.0, "evaluation": {"cases": 4, "general_prompts": 3}}
    (tmp_path / "hat.json").write_text(json.dumps(result | head))
    page = rewrite_report(tmp_path).read_text()
    assert page.count("<svg") == 4 and "HAT (the new model)" in page and "not met" in page
    with pytest.raises(InputError, match=r"hat\.json"):
        rewrite_report(tmp_path / "f")
