"""The watcher against real things: an S3 prefix, and a gate whose (tiny) champion really plays the edited harness."""

import json
import re
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import kfp_server_api as api
import pytest
import yaml

from components.avatar.errors import SystemFault
from components.integrations.objects import S3Settings
from pipelines import kubeflow
from pipelines.profile import load_profile
from pipelines.watch.queue import Change, Facts
from pipelines.watch.scan import S3Source
from pipelines.watch.trigger import KfpRuns
from pipelines.watch.versions import Versions
from tests.integration.kfp_server import Trouble, serving
from tests.unit.pipelines.watch_parts import (
    KEEP,
    ROOT,
    Gate,
    Runs,
    edit,
    make_watcher,
    newest,
    put_merchant,
    register_champion,
    watch,
)


@pytest.fixture
def s3_environment(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(s3.credentials))
    return s3


def upload(s3, folder, prefix):
    for path in folder.rglob("*"):
        if path.is_file():
            key = f"{prefix}/{folder.name}/{path.relative_to(folder).as_posix()}"
            s3.client().upload_file(str(path), s3.bucket, key)


def states(watcher):
    return [change.state for change in watcher.queue.of("lumi")]


def test_edits_below_a_prefix_are_seen_by_content_and_accepted_versions_lie_in_the_store(s3_environment, tmp_path):
    s3, prefix = s3_environment, "watch/merchants"
    merchant = put_merchant(tmp_path)
    upload(s3, merchant, prefix)
    s3.client().put_object(Bucket=s3.bucket, Key=f"{prefix}/read-me.txt", Body=b"no merchant")
    watcher = make_watcher(tmp_path, gate := Gate(KEEP), Runs(tmp_path))
    watcher.source = S3Source(f"s3://{s3.bucket}/{prefix}")
    watcher.versions = Versions(tmp_path / "state", f"s3://{s3.bucket}/watch/store", S3Settings(encryption="AES256"))

    def once():
        watcher.run(threading.Event(), once=True)

    once()
    upload(s3, merchant, prefix)  # the same content, newer
    once()
    assert states(watcher) == ["kept"] and len(gate.asked) == 1
    edit(merchant)
    upload(s3, merchant, prefix)
    once()
    edit(merchant, "reply_words: 20", "reply_words: 900")
    upload(s3, merchant, prefix)
    once()
    assert states(watcher) == ["kept", "kept", "refused"]
    accepted = watcher.queue.of("lumi")[1]
    assert accepted.facts.changes[0].text == "the most words of a reply: 30, now 20"
    answer = s3.client().get_object(Bucket=s3.bucket, Key="watch/store/accepted/lumi.json")
    assert answer["ServerSideEncryption"] == "AES256"
    pointer = answer["Body"].read()
    assert json.loads(pointer)["uri"] == accepted.facts.uri == f"s3://{s3.bucket}/watch/store/{accepted.digest}"
    assert "reply_words: 20" in (tmp_path / "state/accepted/lumi/harness.yaml").read_text()


def test_a_key_that_would_leave_its_merchant_is_left_out(s3_environment, tmp_path):
    merchant = put_merchant(tmp_path)
    upload(s3_environment, merchant, "watch/odd")
    source = S3Source(f"s3://{s3_environment.bucket}/watch/odd")
    listed = source._objects.listed

    def with_odd(below=""):  # S3 has such keys; SeaweedFS, which keeps keys as paths, refuses them
        yield from listed(below)
        for path in ("a/../../../evil", "/evil", "skills/"):
            yield f"lumi/{path}", 1, "tag"

    source._objects.listed = with_odd  # type: ignore[method-assign]
    watcher = make_watcher(tmp_path, Gate(KEEP), Runs(tmp_path))
    watcher.source = source
    watcher.run(threading.Event(), once=True)
    assert states(watcher) == ["kept"] and not list(tmp_path.rglob("evil*"))


def test_a_bucket_that_is_not_there_is_a_fault_that_names_it_and_the_watcher_stays(s3_environment, tmp_path, capsys):
    source = S3Source("s3://no-such-bucket/merchants")
    with pytest.raises(SystemFault, match=r"s3://no-such-bucket at http.*no such bucket"):
        source.look()
    put_merchant(tmp_path)
    watcher = make_watcher(tmp_path, Gate(KEEP), Runs(tmp_path))
    good, watcher.source = watcher.source, source
    watcher.run(threading.Event(), once=True)
    assert watcher.faults == 1 and "no such bucket" in capsys.readouterr().out
    watcher.source = good
    watcher.run(threading.Event(), once=True)
    assert states(watcher) == ["kept"]


def test_the_champion_is_measured_on_the_edited_harness_and_only_a_weak_one_is_trained_again(tmp_path):
    merchant = put_merchant(tmp_path)
    register_champion(tmp_path, harness_digest="another")
    profile = yaml.safe_load((ROOT / "pipelines/profiles/smoke.yaml").read_text())
    profile["harness_gate"] = {"cases": 4, "max_new_tokens": 8, "min_quality": 0.0}

    status, said = watch(tmp_path, profile)
    assert status == 0, said
    first = newest(tmp_path)
    assert first["state"] == "kept" and first["verdict"]["champion"] == "1" and first["verdict"]["cases"] == 4
    assert re.search(r"keep: champion version 1 has quality \d\.\d+ \(n=4\) on the edited harness, at least 0", said)

    edit(merchant)
    profile["harness_gate"]["min_quality"] = 1.0  # a random model has no chance
    profile["disk_gib"] = 1e9  # so that the run that is triggered ends before it trains
    status, said = watch(tmp_path, profile)
    assert status == 0 and "retrain: champion version 1 has quality" in said, said
    for _ in range(20):
        if newest(tmp_path)["state"] != "running":
            break
        watch(tmp_path, profile)
    told = newest(tmp_path)
    assert told["state"] == "failed" and told["decision"] == "retrain", told
    log = (tmp_path / "state/jobs" / str(told["id"]) / "run.log").read_text()
    assert "disk space" in log and "Nothing was started." in log  # pipelines.run itself said so
    assert told["typical"]["minutes"] is None  # no run was measured


@pytest.fixture
def kfp_runs(monkeypatch):
    """Runs on a server that speaks the API, of profile h20 with images of its own."""
    monkeypatch.setattr(kubeflow, "PAUSES_S", ())
    profile = load_profile("h20")
    assert profile.cluster is not None
    images = {name: f"r/{name}@sha256:{'1' * 64}" for name in ("trainer", "server", "router")}
    cluster = profile.cluster.model_copy(update={"images": profile.cluster.images.model_copy(update=images)})
    with serving() as server:
        yield server, lambda: KfpRuns(profile.model_copy(update={"cluster": cluster}), server.host, "abc")


CHANGE = Change(7, "lumi", "d" * 64, "running", 0.0, 0.0, True, Facts())
URI = f"s3://hat-artifacts/weights/merchants/{'d' * 64}"


def test_a_kubeflow_run_is_submitted_once_and_found_again_by_its_name(kfp_runs, tmp_path):
    server, make = kfp_runs
    for _ in range(2):
        assert make().advance(CHANGE, tmp_path, URI) is None  # the second: after a restart
    [run] = server.runs.values()
    assert run.display_name == "harness-aware-training-h20-watch-lumi-dddddddd-abc7"
    given = run.runtime_config.parameters
    assert (given["merchant"], given["merchant_digest"]) == (URI, "d" * 64)
    run.state, run.created_at = "SUCCEEDED", datetime(2026, 1, 1, tzinfo=UTC)
    run.finished_at = run.created_at + timedelta(hours=2)
    ended = make().advance(CHANGE, tmp_path, URI)
    assert ended is not None and ended.ok and ended.seconds == 7200
    assert len(server.runs) == 1


def test_a_kubeflow_run_whose_answer_is_lost_is_not_doubled(kfp_runs, tmp_path):
    server, make = kfp_runs
    server.disturb("POST", "runs", Trouble(cut=True))
    server.disturb("POST", "runs", Trouble(status=500, body=b"boom"))
    for _ in range(3):
        with suppress(SystemFault):
            make().advance(CHANGE, tmp_path, URI)
    assert len(server.runs) == 1


def test_a_kubeflow_that_is_down_is_a_fault_and_its_failed_run_says_why(kfp_runs, tmp_path):
    server, make = kfp_runs
    server.stop()
    with pytest.raises(SystemFault, match=f"{server.host}: could not list the runs"):
        make().advance(CHANGE, tmp_path, URI)
    server.start()
    assert make().advance(CHANGE, tmp_path, URI) is None
    [run] = server.runs.values()
    run.state, run.error = "FAILED", api.GoogleRpcStatus(code=2, message="node lost")
    ended = make().advance(CHANGE, tmp_path, URI)
    assert ended is not None and not ended.ok and "node lost" in ended.why and ended.seconds is None
