"""The commands around the controller: arguments, status, acknowledgement."""

import json
import os
import threading
from pathlib import Path

import pytest

from components.avatar.errors import InputError
from components.canary_deploy import promotion_watch
from components.canary_deploy.__main__ import main
from components.canary_deploy.ledger import Ledger
from components.canary_deploy.promotion_state import known_from

ROOT = Path(__file__).parents[3]
MERCHANT = ROOT / "infra" / "harnesses" / "lumi-beauty"
RUNNING = {"rollout": "r-1", "version": "2", "champion": "1", "release": "rel2", "run_id": "run"}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Version 2 was started by a webhook and rolled back; then somebody moved champion."""
    ledger = Ledger(tmp_path / "state" / "ledger.jsonl")
    ended = {"outcome": "finished", "verdict": "rollback", "why": "slow replies", "folder": ""}
    ledger.record("adopted", 0.0, {"champion": "1", "why": "first sight"})
    ledger.record("started", 1.0, {"running": RUNNING, "noticed": {"by": "webhook", "seconds": 1.234}})
    ledger.record("ended", 2.0, {"running": RUNNING, "ended": ended})
    ledger.record("frozen", 3.0, {"found": "3", "expected": "1", "why": "moved to version 3 by hand"})
    return tmp_path / "state"


def test_all_faults_of_the_command_line_are_told_together(tmp_path: Path, capsys) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "ledger.jsonl").write_text('{"number": 0}\n')
    arguments = ["--tracking-uri", "postgresql://db", "--merchant", str(tmp_path), "--state", str(tmp_path / "state")]
    arguments += ["--secret-file", str(tmp_path / "none"), "--settings", '{"rooms": 1, "colour": "red"}']
    arguments += ["--webhook-url", "http://here", "--interval", "0"]
    assert main(["promote-watch", *arguments]) == 1
    told = capsys.readouterr().err
    assert "8 faults" in told
    for field in ("--tracking-uri", "--merchant", "secret", "rooms", "colour", "--webhook-url", "--interval", "ledger"):
        assert field in told


@pytest.mark.parametrize(("profile", "rooms"), [("smoke", 24), ("h20", 170)])
def test_settings_may_be_a_profile(profile: str, rooms: int) -> None:
    found = promotion_watch._settings(str(ROOT / "pipelines" / "profiles" / f"{profile}.yaml"))
    assert found.rooms == rooms
    assert promotion_watch._settings(None).rooms == 170
    with pytest.raises(InputError, match=r"none\.yaml"):
        promotion_watch._settings("none.yaml")


def test_one_controller_a_state_folder(tmp_path: Path) -> None:
    with promotion_watch._alone(tmp_path), pytest.raises(InputError, match="another promote-watch uses it"):
        with promotion_watch._alone(tmp_path):
            pass
    with promotion_watch._alone(tmp_path):
        pass


def test_status_tells_what_stands_and_why(state: Path, capsys) -> None:
    assert main(["promote-status", "--state", str(state)]) == 0
    told = capsys.readouterr().out
    assert "champion  1" in told and "rollout   none" in told and "frozen    moved to version 3 by hand" in told
    assert "latched   release rel2: slow replies" in told
    assert "webhook to canary start  1.23 s (last of 1)" in told
    assert "r-1 finished rollback slow replies" in told
    ledger = state / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace("slow replies", "fine replies"))
    assert main(["promote-status", "--state", str(state)]) == 1
    assert "changed after it was written" in capsys.readouterr().out
    assert main(["promote-status", "--state", str(state / "none")]) == 1
    assert "the state folder of promote-watch" in capsys.readouterr().err


def test_acknowledge_lifts_the_freeze_and_clears_a_release(state: Path, capsys) -> None:
    ledger = Ledger(state / "ledger.jsonl")
    base = ["acknowledge", "--state", str(state), "--by", "ann", "--why", "meant"]
    assert main([*base, "--release", "other"]) == 1 and "rel2" in capsys.readouterr().err
    assert main([*base, "--release", "rel2"]) == 0
    assert main(base) == 0
    known = known_from(ledger.entries())
    assert (known.champion, known.frozen, known.latched) == ("3", None, {})
    assert [entry.body["by"] for entry in list(ledger.entries())[-2:]] == ["ann", "ann"]
    assert main(base) == 1 and "not frozen" in capsys.readouterr().err


def test_promote_watch_comes_up_without_mlflow_and_ends(tmp_path: Path, monkeypatch, capsys) -> None:
    """Served for real, on a free port, until the process is told to end; MLflow is not there."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of this test\n")
    seen: list[dict] = []

    def serve(app, options) -> int:
        from fastapi.testclient import TestClient

        client = TestClient(app)
        for _ in range(600):
            seen.append(client.get("/healthz").json())
            if seen[-1]["trouble"]:
                return 0
            threading.Event().wait(0.1)
        return 1

    monkeypatch.setattr(promotion_watch, "serve", serve)
    for name in ("MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_HTTP_REQUEST_MAX_RETRIES"):
        monkeypatch.setenv(name, "0" if name.endswith("RETRIES") else "1")
    arguments = ["--tracking-uri", "http://127.0.0.1:9", "--merchant", str(MERCHANT), "--state", str(tmp_path / "s")]
    assert (
        main(["promote-watch", *arguments, "--secret-file", str(secret), "--settings", json.dumps({"rooms": 24})]) == 0
    )
    assert seen[-1]["ready"] and "MLflow at http://127.0.0.1:9" in seen[-1]["trouble"]
    assert os.path.exists(tmp_path / "s" / "inbox.db")
