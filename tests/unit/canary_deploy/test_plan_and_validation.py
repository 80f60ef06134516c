"""Planning, simulation against the single-run statistics, and the command line."""

import json
from math import log

import numpy as np
import pytest
from statsmodels.stats.power import NormalIndPower
from statsmodels.stats.proportion import proportion_confint

from components.avatar.errors import InputError
from components.canary_deploy import validate as validation
from components.canary_deploy.__main__ import main
from components.canary_deploy.config import CanaryConfig, Mode, Unit
from components.canary_deploy.drill import healthy_stream
from components.canary_deploy.events import write_events
from components.canary_deploy.plan import days_until, plan, rooms_needed
from components.canary_deploy.simulate import PEEKS, Shop, draw, evidence_at, population, roll_out
from components.canary_deploy.statistics import independent_ratio
from pipelines.report.page import rewrite_report

CONFIG = CanaryConfig()
POOL = population(Shop(), 3000, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("mode", "effect", "distance"), [(Mode.NON_INFERIOR, 0.05, -log(0.95)), (Mode.SUPERIOR, 0.1, log(1.1))]
)
def test_rooms_are_those_of_a_fixed_test_plus_the_price_of_looking(mode, effect, distance):
    fixed = NormalIndPower().solve_power(effect_size=distance / 0.4, alpha=0.05, power=0.8)
    needed = rooms_needed(0.4, effect, 0.8, CONFIG.model_copy(update={"mode": mode}))
    assert 1.0 < needed / fixed < 1.04


def test_history_and_pairing_save_rooms():
    plain = rooms_needed(0.4, 0.05, 0.8, CONFIG)
    assert rooms_needed(0.4, 0.05, 0.8, CONFIG, cuped_r=0.7) == pytest.approx(plain * 0.51, abs=1)
    assert rooms_needed(0.4, 0.05, 0.8, CONFIG.model_copy(update={"unit": Unit.VIEWER_IN_ROOM})) == pytest.approx(
        plain / 2, abs=1
    )


def test_days_follow_the_ramp():
    ramp = (0.1, 0.5)
    assert days_until(10, 100, ramp, 1.0, Unit.ROOM_SESSION) == pytest.approx(1.0)
    assert days_until(60, 100, ramp, 1.0, Unit.ROOM_SESSION) == pytest.approx(2.0)
    assert days_until(5, 100, ramp, 1.0, Unit.ROOM_SESSION) == pytest.approx(0.5)
    assert days_until(60, 100, ramp, 1.0, Unit.VIEWER_IN_ROOM) == pytest.approx(0.6)


def test_a_rollout_that_cannot_be_decided_is_refused_with_what_could_be():
    with pytest.raises(InputError) as refused:
        plan(100, 0.4, 50, CONFIG)
    text = str(refused.value)
    margin = float(text.split("margin of ")[1].split("%")[0]) / 100
    traffic = int(text.split("asked for with ")[1].split()[0])
    assert plan(100, 0.4, traffic, CONFIG).days <= 14
    wider = CONFIG.model_copy(update={"margins": CONFIG.margins.model_copy(update={"gmv": margin + 0.0006})})
    assert plan(100, 0.4, 50, wider).days <= 14.0


def test_all_impossible_numbers_are_named_at_once():
    with pytest.raises(InputError) as refused:
        plan(-1, 0, 0, CONFIG, power=1.5)
    assert {fault.field for fault in refused.value.faults} == {"baseline", "cv", "rooms_per_day", "power"}


def test_the_planned_rooms_give_the_planned_power():
    # a shop whose variation is known, at the number of rooms that plan asks for
    rate = POOL.rooms.gmv / POOL.rooms.viewers
    residual = POOL.rooms.gmv - POOL.rooms.gmv.sum() / POOL.rooms.viewers.sum() * POOL.rooms.viewers
    cv = residual.std() / POOL.rooms.gmv.mean()
    config = CONFIG.model_copy(update={"mode": Mode.SUPERIOR})
    rooms = rooms_needed(cv, 0.1, 0.8, config)
    paths = validation.gmv_paths(POOL, rooms, 1500, 0.1, np.random.default_rng(1))
    power = (
        validation.statistic_verdicts(paths, rooms, config.model_copy(update={"planned_rooms": rooms})).count("promote")
        / 1500
    )
    assert power == pytest.approx(0.8, abs=0.04)  # four standard errors
    assert rate.std() / rate.mean() == pytest.approx(0.4, abs=0.03)  # the shop is the one of rollout-facts


def test_vectorised_paths_are_the_single_run_statistics():
    runs, rooms = 3, 40
    paths = validation.gmv_paths(POOL, rooms, runs, 0.1, np.random.default_rng(7))
    rng = np.random.default_rng(7)
    rows_b, rows_a = rng.integers(0, 3000, (runs, rooms)), rng.integers(0, 3000, (runs, rooms))
    y, n = POOL.rooms.gmv, POOL.rooms.viewers
    for run in range(runs):
        for peek in (4, PEEKS - 1):
            end = rooms * (peek + 1) // PEEKS
            b, a = rows_b[run, :end], rows_a[run, :end]
            one = independent_ratio(y[b] * 1.1, n[b], y[a], n[a])
            assert paths.log_effect[run, peek] == pytest.approx(one.estimate)
            assert paths.log_se[run, peek] == pytest.approx(one.se)


def test_a_naive_test_is_wrong_far_more_often_than_the_statistic():
    config = CONFIG.model_copy(update={"mode": Mode.SUPERIOR, "planned_rooms": 100})
    paths = validation.gmv_paths(POOL, 100, 1000, 0.0, np.random.default_rng(5))
    upward = validation.statistic_verdicts(paths, 100, config).count("promote")
    low, high = validation.interval(upward, 1000)
    assert low <= 0.025 <= high or upward < 25
    assert (np.abs(paths.naive_t[:, -1]) > 1.96).mean() > 0.25


@pytest.mark.parametrize("count", [0, 3, 50, 1000])
def test_binomial_interval(count):
    assert validation.interval(count, 1000) == pytest.approx(proportion_confint(count, 1000, method="beta"), abs=2e-5)


def test_a_rollout_of_a_worse_model_is_not_promoted():
    config = CONFIG.model_copy(update={"planned_rooms": 60})
    verdicts = [roll_out(draw(POOL, 60, np.random.default_rng(seed), -0.3), config).verdict for seed in range(20)]
    assert "promote" not in verdicts


def test_drawn_evidence_is_whole():
    evidence = evidence_at(draw(POOL, 50, np.random.default_rng(0)), 50, ())
    assert evidence.canary.latency[:, -1].tolist() == evidence.canary.replies.tolist()
    assert evidence.digest() == type(evidence).from_json(json.loads(json.dumps(evidence.to_json()))).digest()


def test_the_whole_validation_in_small(tmp_path, monkeypatch):
    monkeypatch.setattr(validation, "BURST_SEEDS", 1)
    monkeypatch.setattr(validation, "EFFECTS", (-0.1, 0.0, 0.1))
    monkeypatch.setattr(validation, "POOL_ROOMS", 1000)
    monkeypatch.setattr(validation, "JOINED_EVENTS", 2000)
    sizes = ["--runs", "20", "--effect-runs", "5", "--rooms", "40", "--jobs", "1"]
    assert main(["validate", "--out", str(tmp_path / "canary_validation.json"), *sizes]) == 0
    stored = json.loads((tmp_path / "canary_validation.json").read_text())
    assert set(stored["aa"]) >= {
        "runs",
        "promotion_upward",
        "promotion_upward_ci",
        "guardrail_rollback",
        "guardrail_rollback_ci",
        "seconds",
    }
    assert set(stored["effects"]) == {"-0.10", "0.00", "+0.10"}
    for row in stored["effects"].values():
        for judge in ("statistic", "decision", "naive_t_test"):
            assert sum(row[judge].values()) == pytest.approx(1, abs=1e-3)
    assert all({"expected", "verdict"} <= set(fault) for fault in stored["faults"].values())
    assert stored["joining"]["accepted"] == stored["joining"]["events"] == 2000
    assert 0 <= stored["fixed_n_power_plus_10"] <= 1
    assert "naive" in validation.table(stored)
    html = rewrite_report(tmp_path).read_text()
    assert html.count("<svg") == 4 and all(name.replace("_", " ") in html for name in stored["faults"])


def test_plan_on_the_command_line(capsys):
    numbers = ["plan", "--baseline", "100", "--cv", "0.4", "--rooms-per-day"]
    assert main([*numbers, "500"]) == 0
    assert "rooms per arm: 979" in capsys.readouterr().out
    assert main([*numbers, "50"]) == 1
    assert "budget_s" in capsys.readouterr().err


def test_decide_on_the_command_line(tmp_path, capsys):
    stream = healthy_stream(0, rooms=60)
    write_events(tmp_path / "events.jsonl", stream.events)
    (tmp_path / "state.json").write_text(stream.state.model_dump_json())
    (tmp_path / "config.yaml").write_text("canary:\n  planned_rooms: 40\n  min_duration_s: 0\n")
    command = ["decide", str(tmp_path / "events.jsonl"), "--state", str(tmp_path / "state.json")]
    assert main([*command, "--config", str(tmp_path / "config.yaml"), "--ledger", str(tmp_path / "ledger.jsonl")]) == 0
    assert "gmv_non_inferior" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "continue"
    assert main(["replay", str(tmp_path / "ledger.jsonl")]) == 0
    (tmp_path / "config.yaml").write_text("planned_rooms: few\nlooks: [0.5]\n")
    assert main([*command, "--config", str(tmp_path / "config.yaml")]) == 1
    error = capsys.readouterr().err
    assert "config.yaml" in error and "planned_rooms" in error
    assert main(["replay", str(tmp_path / "absent")]) == 1


def test_batches_of_a_folder_give_the_decision_of_one_file(tmp_path, capsys):
    stream = healthy_stream(0, rooms=60)
    (tmp_path / "state.json").write_text(stream.state.model_dump_json())
    write_events(tmp_path / "all.jsonl", stream.events)
    lines = (tmp_path / "all.jsonl").read_bytes().splitlines(keepends=True)
    for number, part in enumerate((lines[::2], lines[1::2])):  # out of order, as batches arrive
        (tmp_path / "batches" / f"day={number}").mkdir(parents=True)
        (tmp_path / "batches" / f"day={number}" / "part.jsonl").write_bytes(b"".join(part))
    verdicts = []
    for source in ("all.jsonl", "batches"):
        assert main(["decide", str(tmp_path / source), "--state", str(tmp_path / "state.json"), "--json"]) == 0
        verdicts.append(json.loads(capsys.readouterr().out))
    assert verdicts[0] == verdicts[1]
    (tmp_path / "none").mkdir()
    assert main(["decide", str(tmp_path / "none"), "--state", str(tmp_path / "state.json")]) == 1
    assert "*.jsonl" in capsys.readouterr().err


def test_shared_rooms_need_the_paired_formula():
    found = validation.shared_rooms(100, 300, np.random.default_rng(2))
    assert found["paired"]["aa_false_positive"] == pytest.approx(0.05, abs=0.04)  # three standard errors
    assert found["independent_arms_formula"]["aa_false_positive"] < 0.01
    assert found["paired"]["power_plus_10"] > found["independent_arms_formula"]["power_plus_10"] + 0.3
