"""The command line: bad input, one watcher a state folder, a clean end by SIGTERM, a queue that is none."""

import signal
import subprocess
import sys
import threading

import pytest

from pipelines.profile import PROFILES
from pipelines.watch.__main__ import main
from pipelines.watch.queue import Queue
from tests.unit.pipelines.watch_parts import ROOT, put_merchant


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--interval", "0", "--debounce", "-1", "--profile", "nine"], ["--interval", "--debounce", "one of h20"]),
        (["--max-runs", "0"], ["--max-runs", "1 or more"]),
        (["--profile", "h20"], ["PROFILE=h20 KFP_HOST"]),
        (["--kfp-host", "http://kfp"], ["storage_uri", "cluster"]),
        (["--profile", "server.yaml"], ["storage_uri", "file:///folder"]),
        (["--merchants", "nowhere"], ["no such folder"]),
        (["--merchants", "s3://"], ["s3://bucket"]),
        (["--state", "a-file"], ["--state", "a folder to write in"]),
    ],
)
def test_bad_input_says_what_is_wrong_and_what_is_allowed(arguments, words, tmp_path, monkeypatch, capsys):
    put_merchant(tmp_path)
    (tmp_path / "a-file").write_text("")
    smoke = (PROFILES / "smoke.yaml").read_text()
    (tmp_path / "server.yaml").write_text(smoke.replace("sqlite:///{runs}/mlflow.db", "http://127.0.0.1:5000"))
    monkeypatch.chdir(tmp_path)
    assert main(["--merchants", "merchants", "--profile", "smoke", "--once", *arguments]) == 2
    said = capsys.readouterr().err
    assert all(word in said for word in words), said


@pytest.mark.parametrize("content", [b"not a database" * 100, None])
def test_a_queue_that_is_not_ours_is_named(content, tmp_path, monkeypatch, capsys):
    put_merchant(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "state/queue.db"
    path.parent.mkdir()
    if content is None:
        queue = Queue(path)
        queue._db.execute("PRAGMA user_version = 99")
        queue.close()
    else:
        path.write_bytes(content)
    assert main(["--merchants", "merchants", "--profile", "smoke", "--state", "state", "--once"]) == 2
    assert "queue.db" in capsys.readouterr().err


def test_sigterm_ends_it_cleanly_and_meanwhile_nobody_else_watches_there(tmp_path, capsys):
    put_merchant(tmp_path)
    arguments = ["--merchants", str(tmp_path / "merchants"), "--profile", "smoke", "--state", str(tmp_path / "state"),
                 "--runs-dir", str(tmp_path / "runs"), "--debounce", "86400"]  # fmt: skip
    command = [sys.executable, "-m", "pipelines.watch", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        kill = threading.Timer(240, process.kill)  # the test fails rather than hangs
        kill.start()
        assert process.stdout is not None
        first = process.stdout.readline()
        assert "1 merchants looked at in" in first and "1 changed" in first
        assert main([*arguments, "--once"]) == 2
        assert f"process {process.pid} watches there" in capsys.readouterr().err
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        kill.cancel()
    assert process.returncode == 0, rest
    assert "reports/index.html" in rest
    assert [change.state for change in Queue(tmp_path / "state/queue.db").of("lumi")] == ["seen"]
