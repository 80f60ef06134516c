"""Summary, table and report from what the steps left: every state that a run can end in."""

import json
import re
import shutil

import pytest

from components.integrations.metrics import write_json
from components.integrations.task import DONE_FILE, Context, StepState, tree, write_state
from pipelines.report.__main__ import main
from pipelines.report.page import write_report
from pipelines.report.table import result_table
from pipelines.report.validation import JUDGES
from pipelines.steps import STEPS
from pipelines.summary import STOPPED, failed_step, summarise


def finish(run_dir, step, files, attempt=1):
    """Leave a finished step in `run_dir`, as run_task does."""
    folder = run_dir / "artifacts" / step
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        text = "\n".join(json.dumps(row) for row in content) if name.endswith("l") else json.dumps(content)
        (folder / name).write_text(text)
    write_json(folder / DONE_FILE, {"files": tree(folder)})
    state = StepState(step=step, status="succeeded", attempt=attempt, seconds=12.5, output=f"artifacts/{step}")
    write_state(Context(run_dir=str(run_dir)), state)


def rates(t1, t2):
    cell = {"n": 200}
    return {
        "T1": {"value": t1, **cell},
        "T2": {"value": t2, **cell},
        "T3": {"value": t2, "n": 60},
        "general": {"value": 0.4, "n": 120},
        "gap": {"value": t1 - t2, "ci": [t1 - t2 - 0.05, t1 - t2 + 0.05], "n": 200},
        "stale_name_rate": {"value": 0.1, "n": 400},
        "recovery_rate": {"value": None, "n": 0},
        "p50_s": {"value": 0.8, "n": 12},
        "p95_s": {"value": 1.4, "n": 12},
    }


CASE = {
    "arm": "hat",
    "decoding": "free",
    "suite": "T2",
    "failed": True,
    "tools": ["get_cost"],
    "scenario": "shop-test-1",
    "families": ["price"],
    "faults": [],
    "harness_digest": "ac7badd91a43ecdb",
    "stop": "done",
    "error": None,
    "score": {"accuracy": 0.0, "effectiveness": 0.0, "tool_rationality": 0.5},
    "corrections": 0,
    "injected_faults": 0,
    "transcript": [
        {"author": "environment", "kind": "viewer", "text": "how much is <b>3</b>?"},
        {"author": "agent", "kind": "call", "text": '<tool_call>{"name": "price_check"}</tool_call>'},
        {"author": "agent", "kind": "reply", "text": "It is 99."},
    ],
    "calls": [
        {
            "name": "price_check",
            "arguments": {},
            "capability": None,
            "known": False,
            "ok": False,
            "fault": None,
            "decoy": False,
            "expected": False,
            "right_tool": False,
        }
    ],
    "replies": [
        {
            "false_claims": ["price 99"],
            "missing_facts": [],
            "broken_rules": [],
            "fabricated": False,
            "unavailable": False,
        }
    ],
}


@pytest.fixture
def run_dir(tmp_path):
    run_dir = tmp_path / "local-1"
    finish(run_dir, "harness_gate", {"gate.json": {"retrain": True, "why": "always"}})
    finish(run_dir, "data_validation", {"validation.json": {"passed": True, "why": "all 34 expectations held"}})
    curve = [{"step": step, "loss": 3 / step} for step in range(1, 20)]
    finish(run_dir, "sft_fixed", {"curves.jsonl": curve})
    finish(run_dir, "sft_hsa", {"curves.jsonl": curve})
    models = {
        "fixed_sft": {"free": rates(0.95, 0.1), "constrained": rates(0.95, 0.2)},
        "hat": {"free": rates(0.9, 0.8), "constrained": rates(0.92, 0.88)},
    }
    lead = {"free": {"T2": {"value": 0.7, "ci": [0.6, 0.8], "n": 200}}}
    finish(
        run_dir, "evaluation", {"evaluation.json": {"models": models, "leads": {"hat": lead}}, "cases.jsonl": [CASE]}
    )
    gates = {"t2_lead": {"passed": True, "why": "lead 70 points, lower bound 60"}}
    registration = {"gates": gates, "model_version": "2", "champion": {}, "challenger": {"version": "2"}}
    finish(run_dir, "registration", {"registration.json": registration})
    check = {"name": "gmv", "step": 5, "status": "pass", "value": 0.01, "limit": None, "reason": "no harm shown"}
    effect = {"effect": 0.03, "low": -0.02, "high": 0.08, "n": 80, "relative": True}
    canary = {
        "verdict": "promote",
        "why": "GMV not lower",
        "checks": [check],
        "effects": {"gmv": effect},
        "method": "simulated",
    }
    finish(run_dir, "canary_deploy", {"canary.json": canary})
    return run_dir


def test_summary_of_a_finished_run(run_dir):
    summary = summarise(run_dir, "local", "abc", attempt=1)
    assert summary == json.loads((run_dir / "summary.json").read_text())
    assert summary["metrics"]["hat.T2"] == {"value": 0.8, "n": 200}
    assert summary["metrics"]["hat.T2_constrained"]["value"] == 0.88
    assert summary["metrics"]["hat.lead_T2"]["ci"] == [0.6, 0.8]
    assert list(summary["gates"]) == ["harness_gate", "data_validation", "t2_lead"]
    assert (summary["model_version"], summary["canary"]) == ("2", {"verdict": "promote", "why": "GMV not lower"})
    assert summary["steps"]["distillation"] == {"status": "skipped", "seconds": 0.0}


def test_steps_of_an_earlier_attempt_are_cached_and_lost_files_are_not_trusted(run_dir):
    finish(run_dir, "evaluation", {"evaluation.json": {"models": {}}}, attempt=2)
    (run_dir / "artifacts/registration/registration.json").unlink()
    summary = summarise(run_dir, "local", "abc", attempt=2)
    assert summary["steps"]["sft_hsa"]["status"] == "cached" and summary["steps"]["evaluation"]["status"] == "succeeded"
    assert summary["model_version"] is None


@pytest.mark.parametrize(
    ("reason", "fault", "said"), [("disk full", "x", "disk full"), ("", "x", "killed"), ("", STOPPED, STOPPED)]
)
def test_the_failed_step_and_its_reason(run_dir, reason, fault, said):
    status = "failed" if reason else "running"
    state = StepState(step="distillation", status=status, attempt=1, reason=reason)
    write_state(Context(run_dir=str(run_dir)), state)
    step, why = failed_step(run_dir, 1, fault)
    assert step == "distillation" and said in why
    assert summarise(run_dir, "local", "abc", attempt=1)["steps"]["distillation"]["status"] == "failed"


def test_a_model_that_fails_a_gate_is_held_back(run_dir):
    (run_dir / "steps/canary_deploy.json").unlink()
    registration = {
        "gates": {"t2": {"passed": False, "why": "T2 0.1 < 0.4"}},
        "model_version": "2",
        "champion": {},
        "challenger": None,
    }
    finish(run_dir, "registration", {"registration.json": registration})
    assert summarise(run_dir, "local", "abc", attempt=1)["canary"]["verdict"] == "hold"


def test_the_table(run_dir):
    lines = result_table(summarise(run_dir, "local", "abc", attempt=1)).splitlines()
    hat = next(line for line in lines if line.startswith("HAT") and "free" in line)
    assert re.search(r"90\.0%\s+80\.0%\s+\+10\.0 \[\+5\.0, \+15\.0\]\s+\+70\.0 \[\+60\.0, \+80\.0\]", hat)
    assert "gate t2_lead: passed - lead 70 points, lower bound 60" in lines
    assert lines[-1] == "canary: promote - GMV not lower"


def test_the_report_of_a_finished_run(run_dir):
    html = write_report(run_dir, summarise(run_dir, "local", "abc", attempt=1), {"code": "c0de"}).read_text()
    assert "how much is &lt;b&gt;3&lt;/b&gt;?" in html, "texts of viewers and models are escaped"
    for words in (
        "calls price_check, which the prompt does not have",
        "false: price 99",
        "c0de",
        "no harm shown",
        "promote",
    ):
        assert words in html
    assert html.count("<svg") == 6
    ids = re.findall(r'<clipPath id="([^"]+)"', html)
    assert len(ids) == len(set(ids)), "figures on one page must not share ids"


def test_the_report_of_a_run_that_failed_at_once(tmp_path):
    state = StepState(step="harness_gate", status="failed", attempt=1, reason="boom")
    write_state(Context(run_dir=str(tmp_path)), state)
    html = write_report(tmp_path, summarise(tmp_path, "local", "abc", attempt=1), {}).read_text()
    assert "step harness_gate failed" in html and all(step in html for step in STEPS)


VALIDATION = {
    "aa": {
        "runs": 2000,
        "promotion_upward": 0.024,
        "promotion_upward_ci": [0.018, 0.032],
        "guardrail_rollback": 0.03,
        "guardrail_rollback_ci": [0.023, 0.038],
        "naive_false_positive": 0.95,
        "naive_one_look": 0.43,
        "seconds": 9.0,
    },
    "effects": {
        effect: {judge: {"promote": 0.5, "hold": 0.25, "rollback": 0.25} for judge in JUDGES}
        for effect in ("-0.10", "0.00", "+0.10")
    },
    "fixed_n_power_plus_10": 0.52,
    "faults": {"stale_price": {"number": 7, "expected": "rollback", "verdict": "hold"}},
    "joining": {"events": 100_000, "accepted": 100_000, "seconds": 3.2},
    "tool_error_burst_events": {"1.0": {"most": 8, "median": 6.0}},
    "settings": {"rooms_per_arm": 200, "peeks": 20, "effect_runs": 1000, "seed": 0},
}


def test_the_validation_of_the_canary_is_part_of_the_report(run_dir, capsys):
    write_json(run_dir / "run.json", {"inputs": {"code": "c0de"}})
    summarise(run_dir, "local", "abc", attempt=1)
    write_json(run_dir / "canary_validation.json", VALIDATION)
    assert main([str(run_dir)]) == 0
    html = (run_dir / "report.html").read_text()
    assert str(run_dir / "report.html") in capsys.readouterr().out
    assert "T2 lead" in html and "c0de" in html, "the run's own parts are still there"
    assert html.count("<svg") == 6 + 4
    held = dict(re.findall(r"<tr><td>([^<]*)</td>.*?>(held|not held)<", html))
    assert held == {
        "A/A: GMV boundary crossed upward": "held",
        "A/A: rolled back by any guardrail": "not held",
        "GMV -10%: promoted, mode superior": "not held",
        "GMV -10%: promoted, mode non-inferior": "not held",
        "GMV +10%: power of the statistic": "held",
        "replies until a burst of 100% tool errors rolls back, most": "held",
        "processor seconds to parse and join 100000 events": "held",
    }
    assert re.search(r"7 stale price</td><td>rollback</td><td><span class=\"pill bad\">hold", html)


def test_a_folder_without_a_run_and_without_a_validation(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "no summary.json" in capsys.readouterr().err and not list(tmp_path.iterdir())
