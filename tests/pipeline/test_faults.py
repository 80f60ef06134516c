"""Bad input stops before anything runs; a failed step says what, why and how to go on."""

import json
import shutil

import pytest
import yaml

from pipelines.profile import PROFILES
from tests.pipeline.conftest import ROOT, pipeline

pytestmark = pytest.mark.timeout(900)


def profile_with(tmp_path, **changes):
    profile = yaml.safe_load((PROFILES / "smoke.yaml").read_text()) | changes
    path = tmp_path / "profile.yaml"
    path.write_text(yaml.safe_dump(profile))
    return str(path)


def test_all_faults_of_merchant_base_model_and_disk_are_said_at_once(tmp_path):
    merchant = tmp_path / "merchant"
    shutil.copytree(ROOT / "infra/harnesses/lumi-beauty", merchant)
    (merchant / "tools.json").write_text("[{")
    (merchant / "catalogue.jsonl").write_bytes(b"\xff\xfe")
    profile = profile_with(tmp_path, merchant=str(merchant), base_model="wheel:none", disk_gib=10**9)
    run = pipeline("--profile", profile, "--run-dir", str(tmp_path / "run"), run_dir=tmp_path / "run")
    assert run.status == 2
    for words in ("tools.json", "catalogue.jsonl", "wheel:none", "disk space", "Nothing was started"):
        assert words in run.output
    assert "Traceback" not in run.output and not run.run_dir.exists()


def test_the_cluster_profile_does_not_run_here(tmp_path):
    run = pipeline("--profile", "h20", "--run-dir", str(tmp_path / "run"), run_dir=tmp_path / "run")
    assert run.status == 2 and "make pipeline-submit PROFILE=h20" in run.output


def test_a_dead_tracking_server_is_said_and_nothing_runs(tmp_path):
    profile = profile_with(tmp_path, tracking_uri="http://127.0.0.1:9", storage_uri=f"file://{tmp_path}/store")
    run = pipeline("--profile", profile, "--run-dir", str(tmp_path / "run"), run_dir=tmp_path / "run")
    assert run.status == 1 and "127.0.0.1:9" in run.output and "Traceback" not in run.output


def test_a_tracking_server_without_a_place_for_weights_is_said_at_the_start(tmp_path):
    profile = profile_with(tmp_path, tracking_uri="http://127.0.0.1:9")
    run = pipeline("--profile", profile, "--run-dir", str(tmp_path / "run"), run_dir=tmp_path / "run")
    assert run.status == 2 and "storage_uri" in run.output and "Nothing was started" in run.output
    assert not run.run_dir.exists()


def test_a_failed_step_names_itself_its_reason_and_the_resume_command(tmp_path):
    run_dir = tmp_path / "run"
    profile = profile_with(tmp_path, sft={"max_row_tokens": 64})  # no example fits
    run = pipeline("--profile", profile, "--run-dir", str(run_dir), run_dir=run_dir)
    assert run.status == 1
    assert "FAILED in step sft_fixed" in run.output and "64 tokens" in run.output
    assert f"make pipeline-run RESUME={run_dir}" in run.output and "Traceback" not in run.output
    statuses = {name: row["status"] for name, row in run.summary["steps"].items()}
    assert statuses["data_validation"] == "succeeded" and statuses["sft_fixed"] == "failed"
    assert statuses["distillation"] == statuses["registration"] == "skipped"
    assert run.summary["model_version"] is None
    assert "sft_fixed" in json.loads((run_dir / "failure.json").read_text())["steps"]
    assert "failed" in (run_dir / "report.html").read_text()


def test_a_gate_that_does_not_pass_is_a_result(tmp_path):
    run_dir = tmp_path / "run"
    profile = profile_with(tmp_path, data_validation={"min_trajectories": 10**6})
    run = pipeline("--profile", profile, "--run-dir", str(run_dir), run_dir=run_dir)
    assert run.status == 0, run.output
    assert not run.summary["gates"]["data_validation"]["passed"]
    assert run.summary["steps"]["sft_fixed"]["status"] == "skipped" and run.summary["model_version"] is None
