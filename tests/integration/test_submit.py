"""`make pipeline-submit` and `make schedule` against a server that speaks the Kubeflow Pipelines API."""

import json
import shlex
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import kfp_server_api as api
import pytest
import yaml

from components.avatar.simulator.merchant import load_merchant
from components.integrations.storage import Store, describe
from pipelines import kubeflow, schedule, submit
from pipelines.profile import PROFILES, load_profile
from tests.integration.kfp_server import KfpServer, Trouble, serving
from tests.pipeline.test_compile import GOLDEN, without_code_digests

ROOT = Path(__file__).parents[2]
MERCHANT = "s3://hat-artifacts/weights/" + "c" * 64
NAME = "harness-aware-training-h20"
LOST = [
    pytest.param({"cut": True}, id="cut"),
    pytest.param({"status": 500, "body": b"boom"}, id="500"),
    pytest.param({"status": 502, "body": b"\xff\xfe"}, id="502 in no charset"),
    pytest.param({"status": 200, "body": b"<html>a page</html>"}, id="page"),
    pytest.param({"status": 200, "body": b"{}", "headers": {"Content-Type": "application/json"}}, id="no id"),
]
"""Answers that do not say what became of a request."""


@pytest.fixture
def kfp():
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def profile(tmp_path_factory) -> str:
    """h20 with images of its own and a stored merchant, as a file."""
    text = (PROFILES / "h20.yaml").read_text().replace("0" * 64, "a" * 64)
    lines = [f"merchant: {MERCHANT}" if line.startswith("merchant:") else line for line in text.splitlines()]
    path = tmp_path_factory.mktemp("profile") / "own.yaml"
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture(autouse=True)
def pauses(monkeypatch) -> list[float]:
    """The pauses that were asked for, none of which is made."""
    made: list[float] = []
    monkeypatch.setattr(kubeflow, "time", SimpleNamespace(sleep=made.append))
    return made


@pytest.fixture(scope="module")
def compiled(profile):
    return submit.pipeline_spec(load_profile(profile))


@pytest.fixture
def once(compiled, monkeypatch):
    """The pipeline, compiled once, and the code of one moment: they are not what the faults are about."""
    monkeypatch.setattr(submit, "code_digest", lambda: "c0de")
    monkeypatch.setattr(submit, "pipeline_spec", lambda profile: compiled)
    monkeypatch.setattr(schedule, "pipeline_spec", lambda profile: compiled)


@pytest.fixture
def send(profile, once, capsys):
    """Run the command; its exit status and what it said on stderr, one line unless the input is bad."""

    def send(host: str, profile: str = profile, command=submit, **options: str) -> tuple[int, str]:
        extra = [part for name, value in options.items() for part in (f"--{name}", value)]
        status = command.main(["--host", host, "--profile", profile, *extra])
        said = capsys.readouterr().err.strip()
        assert "Traceback" not in said
        assert status == 2 or said.count("\n") == 0
        assert (status == 0) == (said == "")
        return status, said

    return send


def the_only(rows: dict):
    [row] = rows.values()
    return row


# --- submit


def test_one_run_with_the_golden_pipeline_and_the_profiles_arguments(kfp, profile, capsys, monkeypatch):
    monkeypatch.setattr(submit, "code_digest", lambda: "c0de")
    assert submit.main(["--host", kfp.host, "--profile", profile]) == 0
    run, experiment = the_only(kfp.runs), the_only(kfp.experiments)
    assert f"submitted run {run.run_id}: {kfp.host}/#/runs/details/{run.run_id}" in capsys.readouterr().out
    assert (experiment.display_name, experiment.namespace) == ("harness-aware-training", "hat-training")
    assert run.experiment_id == experiment.experiment_id
    assert (run.display_name, run.service_account) == (NAME, "hat-pipeline")
    parameters = run.runtime_config.parameters
    context = json.loads(parameters.pop("context"))
    assert parameters == {
        "merchant": MERCHANT,
        "merchant_digest": "c" * 64,
        "base_digest": "s3://hat-models/base/student-8b",
        "code_version": "c0de",
    }
    assert context["tracking_uri"] == "http://mlflow.mlflow.svc.cluster.local:5000"
    assert context["storage_uri"] == "s3://hat-artifacts/weights" and context["run_dir"] == ""
    documents = [run.pipeline_spec["pipeline_spec"], run.pipeline_spec["platform_spec"]]
    golden = without_code_digests(GOLDEN.read_text()).replace("0" * 64, "a" * 64)
    assert list(yaml.safe_load_all(without_code_digests(yaml.safe_dump_all(documents)))) == list(
        yaml.safe_load_all(golden)
    )


def test_a_local_merchant_is_put_into_the_store_first(kfp, s3, send, profile, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(s3.credentials))
    store_uri, folder = f"s3://{s3.bucket}/submit", ROOT / "infra/harnesses/lumi-beauty"
    text = Path(profile).read_text().replace(MERCHANT, str(folder))
    text = text.replace("storage_uri: s3://hat-artifacts/weights", f"storage_uri: {store_uri}")
    own = tmp_path / "local-merchant.yaml"
    own.write_text(text)
    digest = describe(folder).digest
    stored = []
    there = Trouble(meanwhile=lambda: stored.append(Store(store_uri, s3.settings()).present(digest)))
    kfp.disturb("GET", "experiments", there)
    assert send(kfp.host, str(own)) == (0, "")
    assert stored == [True], "before the server hears of it"
    parameters = the_only(kfp.runs).runtime_config.parameters
    assert (parameters["merchant"], parameters["merchant_digest"]) == (f"{store_uri}/{digest}", digest)
    fetched = Store(store_uri, s3.settings()).get(digest, tmp_path / "fetched")
    assert load_merchant(fetched).harness.digest == load_merchant(folder).harness.digest


def test_a_store_that_fails_is_one_line_and_no_run(kfp, s3, send, profile, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(s3.credentials))
    text = Path(profile).read_text().replace(MERCHANT, str(ROOT / "infra/harnesses/lumi-beauty"))
    own = tmp_path / "no-bucket.yaml"
    own.write_text(text.replace("s3://hat-artifacts/weights", "s3://no-such-bucket/weights"))
    status, said = send(kfp.host, str(own))
    assert status == 1 and "s3://no-such-bucket" in said and kfp.requests == []


def test_the_same_run_is_not_started_twice_while_it_goes(kfp, send, profile, tmp_path):
    assert send(kfp.host)[0] == send(kfp.host)[0] == 0
    first = the_only(kfp.runs)
    first.state = "RUNNING"
    assert send(kfp.host) == (0, "") and len(kfp.runs) == 1

    other = tmp_path / "other-merchant.yaml"  # other arguments are another run
    other.write_text(Path(profile).read_text().replace(MERCHANT, MERCHANT[:-1] + "d"))
    assert send(kfp.host, str(other)) == (0, "") and len(kfp.runs) == 2

    first.state = "SUCCEEDED"  # it has ended: to run it again is what the user asks for
    assert send(kfp.host) == (0, "") and len(kfp.runs) == 3


def test_a_going_run_is_found_behind_many_pages(kfp, send):
    send(kfp.host)
    going = the_only(kfp.runs)
    for number in range(450):
        kfp.keep_run(_copy(going, pipeline_spec={})).state = "FAILED" if number % 2 else "SUCCEEDED"
    del kfp.runs[going.run_id]
    kfp.keep_run(_copy(going))  # the last of five pages
    assert send(kfp.host) == (0, "") and len(kfp.runs) == 451
    assert kfp.count("POST", "runs") == 1


def _copy(run, **changed):
    names = ("display_name", "description", "experiment_id", "pipeline_spec", "runtime_config", "service_account")
    return type(run)(**{name: getattr(run, name) for name in names} | changed)


@pytest.mark.parametrize("answer", LOST)
def test_a_run_whose_answer_is_lost_is_found_not_doubled(kfp, send, answer):
    kfp.disturb("POST", "runs", Trouble(**answer))
    assert send(kfp.host) == (0, "")
    assert len(kfp.runs) == 1 and kfp.count("POST", "runs") == 1
    assert send(kfp.host) == (0, "") and len(kfp.runs) == 1


@pytest.mark.parametrize("answer", LOST)
def test_a_run_that_was_not_started_is_said_and_not_sent_again(kfp, send, answer):
    kfp.disturb("POST", "runs", Trouble(acts=False, **answer))
    status, said = send(kfp.host)
    assert status == 1 and said.startswith(f"{kfp.host}: could not start the run {NAME}, the server lists none: ")
    assert said.endswith("the same command again is safe")
    assert kfp.runs == {} and kfp.count("POST", "runs") == 1
    assert send(kfp.host) == (0, "") and len(kfp.runs) == 1


def test_an_answer_that_never_comes_and_a_run_that_comes_late(kfp, send, monkeypatch):
    """The worst case: we give up, and the server starts the run after we looked for it."""
    create = api.RunServiceApi.run_service_create_run
    soon = {"_request_timeout": (10.0, 0.5)}
    monkeypatch.setattr(api.RunServiceApi, "run_service_create_run", lambda a, run, **limit: create(a, run, **soon))
    late, started = threading.Event(), threading.Event()
    kfp.disturb("POST", "runs", Trouble(hold=late, meanwhile=started.set))
    status, said = send(kfp.host)
    assert status == 1 and "the server lists none: no answer within" in said
    late.set()
    assert started.wait(60) and len(kfp.runs) == 1
    assert send(kfp.host) == (0, "") and len(kfp.runs) == 1 and kfp.count("POST", "runs") == 1


def test_a_server_that_dies_with_the_run_started(kfp, send):
    kfp.disturb("POST", "runs", Trouble(cut=True, meanwhile=kfp.stop))
    status, said = send(kfp.host)
    assert status == 1 and "whether it exists is not known" in said
    kfp.start()
    assert send(kfp.host) == (0, "") and len(kfp.runs) == 1 and kfp.count("POST", "runs") == 1


@pytest.mark.parametrize(("method", "resource"), [("GET", "experiments"), ("POST", "experiments"), ("GET", "runs")])
def test_a_restart_between_calls_is_waited_for(kfp, send, method, resource, monkeypatch):
    kfp.disturb(method, resource, Trouble(meanwhile=kfp.stop))
    waits = iter([lambda: None, lambda: None, kfp.start])
    monkeypatch.setattr(kubeflow, "time", SimpleNamespace(sleep=lambda pause: pause and next(waits, lambda: None)()))
    assert send(kfp.host) == (0, "") and len(kfp.runs) == 1 and len(kfp.experiments) == 1


def test_a_server_that_is_down(kfp, send, pauses):
    kfp.stop()
    status, said = send(kfp.host)
    assert status == 1 and kfp.requests == []
    assert said.startswith(f"{kfp.host}: could not find the experiment harness-aware-training: no connection (")
    assert "Connection refused" in said and "check KFP_HOST" in said
    assert [pause for pause in pauses if pause] == list(kubeflow.PAUSES_S)


def test_a_name_that_nobody_knows(send, monkeypatch):
    def unknown(*arguments: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    status, said = send("https://kfp.example")
    assert status == 1 and said.startswith("https://kfp.example: could not find the experiment")
    assert "no connection ([Errno -2] Name or service not known)" in said


def test_a_server_that_does_not_answer(kfp, send, monkeypatch):
    monkeypatch.setattr(kubeflow, "TIMEOUT_S", 0.5)
    never = threading.Event()
    kfp.disturb("GET", "experiments", Trouble(hold=never, cut=True))
    status, said = send(kfp.host)
    never.set()
    assert status == 1 and kfp.requests == [("GET", "experiments")]
    assert said.startswith(f"{kfp.host}: could not find the experiment harness-aware-training: no answer within 0.5 s")


@pytest.mark.parametrize(("method", "resource"), [("GET", "experiments"), ("GET", "runs")])
@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ({"cut": True}, "the connection broke"),
        ({"status": 503, "body": b"no healthy upstream"}, "503 Service Unavailable; look at the server's log"),
        ({"status": 500, "body": b'{"code": 13, "message": "database\\n is locked"}'}, "500 database is locked"),
        ({"status": 429}, "429 Too Many Requests; try again later"),
    ],
)
def test_reading_is_tried_again_and_then_said(kfp, send, method, resource, trouble, words):
    kfp.disturb(method, resource, Trouble(times=4, **trouble))
    assert send(kfp.host) == (0, "") and len(kfp.runs) == 1
    kfp.disturb(method, resource, Trouble(times=5, **trouble))
    status, said = send(kfp.host)
    assert status == 1 and said.startswith(f"{kfp.host}: could not ") and words in said and len(kfp.runs) == 1


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("resource", ["experiments", "runs"])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"body": b"<html>log in</html>"}, "not one of the Kubeflow Pipelines API; check KFP_HOST (a login page"),
        ({"body": b'"runs"', "headers": JSON}, "not one of the Kubeflow Pipelines API"),
        ({"body": b"[]", "headers": JSON}, "not one of the Kubeflow Pipelines API"),
        ({"body": b"\xff\xfe{}", "headers": JSON}, "not one of the Kubeflow Pipelines API"),
        ({"body": b'{"runs": 7, "experiments": 7}', "headers": JSON}, "not one of the Kubeflow Pipelines API"),
        (
            {"body": b'{"runs": [{"created_at": "?"}], "experiments": [{"created_at": "?"}]}', "headers": JSON},
            "not one",
        ),
        ({"status": 302, "headers": {"Location": "https://sso/login"}}, "302, sent on to https://sso/login; log in"),
        ({"status": 404, "body": b"nothing here"}, "404 Not Found; check KFP_HOST: its API is /apis/v2beta1"),
    ],
)
def test_an_answer_that_is_not_the_apis(kfp, send, resource, answer, words):
    kfp.disturb("GET", resource, Trouble(**{"status": 200} | answer))
    status, said = send(kfp.host)
    assert status == 1 and said.startswith(f"{kfp.host}: could not ") and words in said
    assert kfp.runs == {} and kfp.count("GET", resource) == 1


def test_pages_without_an_end(kfp, send):
    endless = b'{"experiments": [], "next_page_token": "again"}'
    kfp.disturb("GET", "experiments", Trouble(status=200, body=endless, headers=JSON, times=2))
    status, said = send(kfp.host)
    assert status == 1 and "its list of pages has no end" in said


def test_https_to_a_server_that_has_none(kfp, send):
    status, said = send(kfp.host.replace("http:", "https:"))
    assert status == 1 and "no secure connection" in said and "check https" in said


def test_a_login_comes_from_kfps_context_file(send, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    context = tmp_path / ".config/kfp/context.json"
    context.parent.mkdir(parents=True)
    with serving(login=("Cookie", "session=of-this-test")) as server:
        status, said = send(server.host)
        assert status == 1 and "401 Request header error" in said and "client_authentication_cookie" in said
        context.write_text(json.dumps({"client_authentication_cookie": "session=old"}))
        status, said = send(server.host)
        assert status == 1 and "401" in said and "session=old" not in said and server.runs == {}
        context.write_text(json.dumps({"client_authentication_cookie": "session=of-this-test"}))
        assert send(server.host) == (0, "") and len(server.runs) == 1
    header = {"client_authentication_header_name": "kubeflow-userid", "client_authentication_header_value": "ada"}
    context.write_text(json.dumps(header))
    with serving(login=("kubeflow-userid", "ada")) as server:
        assert send(server.host) == (0, "") and len(server.runs) == 1
    context.write_text("{")
    status, said = send("http://127.0.0.1:1")
    assert status == 2 and str(context) in said


def test_a_namespace_that_is_not_ours(send):
    with serving(namespaces=("others",)) as server:
        status, said = send(server.host)
    assert status == 1 and "403 User is not authorized in namespace hat-training; log in" in said


def test_the_servers_own_words_when_it_refuses_the_package(kfp, send, monkeypatch):
    given = submit.arguments
    monkeypatch.setattr(submit, "arguments", lambda profile: given(profile) | {"sed": 1})
    status, said = send(kfp.host)
    assert status == 1 and kfp.runs == {} and kfp.count("POST", "runs") == 1
    assert said.endswith("400 parameter sed is not an input of the pipeline; the server refuses what was sent")


def test_an_experiment_that_somebody_else_creates_at_the_same_moment(kfp, send):
    def first() -> None:
        kfp.add_experiment(api.V2beta1Experiment(display_name="harness-aware-training", namespace="hat-training"))

    kfp.disturb("GET", "experiments", Trouble(meanwhile=first))
    assert send(kfp.host) == (0, "") and len(kfp.experiments) == 1 and len(kfp.runs) == 1


@pytest.mark.parametrize("host", ["", "kfp.example", "ftp://kfp", "http://", "http://user:pass@kfp", "http://k/?q"])
def test_all_bad_input_is_said_at_once_and_nothing_is_sent(kfp, send, tmp_path, host, monkeypatch):
    monkeypatch.setattr(submit, "PipelineServer", lambda *a: pytest.fail("talked to a server"))
    text = (PROFILES / "h20.yaml").read_text().replace("infra/harnesses/lumi-beauty", str(tmp_path / "none"))
    bad = tmp_path / "bad.yaml"
    bad.write_text(text.replace("key_file: /var/run/secrets/hat-teacher", "key_file: /elsewhere"))
    status, said = send(host, str(bad))
    assert status == 2 and "user:pass" not in said
    for words in ("KFP_HOST", "cluster.images", "teacher_generation.endpoint.key_file", str(tmp_path / "none")):
        assert words in said
    assert send(kfp.host, "local")[0] == 2 and send(kfp.host, "no such profile")[0] == 2 and kfp.requests == []


# --- schedule


def sent(send, kfp: KfpServer, cron: str = "0 0 3 * * *") -> tuple[int, str]:
    return send(kfp.host, command=schedule, cron=cron)


def test_a_recurring_run_as_the_profile_says(kfp, send):
    assert sent(send, kfp, "0 30 2 * * MON-FRI") == (0, "")
    run, experiment = the_only(kfp.recurring_runs), the_only(kfp.experiments)
    assert (run.display_name, run.service_account, run.namespace) == (NAME, "hat-pipeline", "hat-training")
    assert run.experiment_id == experiment.experiment_id and experiment.display_name == "harness-aware-training"
    assert run.trigger.cron_schedule.cron == "0 30 2 * * MON-FRI"
    assert (run.status, run.max_concurrency, run.no_catchup) == ("ENABLED", "1", True)
    assert run.runtime_config.parameters["merchant"] == MERCHANT
    assert set(run.pipeline_spec) == {"pipeline_spec", "platform_spec"} and kfp.runs == {}


def test_repeats_leave_one_and_the_last_one_holds(kfp, send):
    seen = set()
    for cron in ("0 0 3 * * *", "0 0 3 * * *", "0 0 4 * * *"):
        assert sent(send, kfp, cron) == (0, "")
        run = the_only(kfp.recurring_runs)
        assert run.trigger.cron_schedule.cron == cron
        seen.add(run.recurring_run_id)
    assert len(seen) == 3


def test_a_failure_between_create_and_delete_leaves_one_too_many_and_the_next_call_cleans_up(kfp, send):
    sent(send, kfp)
    old = the_only(kfp.recurring_runs).recurring_run_id
    kfp.disturb("DELETE", "recurringruns", Trouble(acts=False, status=500, times=5))
    status, said = sent(send, kfp, "0 0 4 * * *")
    assert status == 1 and f"could not delete the old recurring run {old}: 500" in said
    assert {run.trigger.cron_schedule.cron for run in kfp.recurring_runs.values()} == {"0 0 3 * * *", "0 0 4 * * *"}
    assert sent(send, kfp, "0 0 5 * * *") == (0, "")
    assert the_only(kfp.recurring_runs).trigger.cron_schedule.cron == "0 0 5 * * *"


def test_every_page_of_old_ones_is_seen_and_no_others_are_touched(kfp, send):
    sent(send, kfp)
    first = the_only(kfp.recurring_runs)
    here = first.experiment_id
    elsewhere = kfp.add_experiment(api.V2beta1Experiment(display_name="elsewhere", namespace="hat-training"))

    def add(name: str, experiment: str) -> str:
        row = api.V2beta1RecurringRun(display_name=name, experiment_id=experiment, namespace="hat-training")
        return kfp.keep_recurring_run(row).recurring_run_id

    others = {add(f"{NAME}-{number}", here) for number in range(120)}
    for number in range(240):
        add(NAME, here if number % 2 else elsewhere.experiment_id)
    before = kfp.count("GET", "recurringruns")
    assert sent(send, kfp, "0 0 4 * * *") == (0, "")
    assert kfp.count("GET", "recurringruns") - before == 3
    left = {key: run for key, run in kfp.recurring_runs.items() if key not in others}
    assert the_only(left).trigger.cron_schedule.cron == "0 0 4 * * *"
    assert others < set(kfp.recurring_runs)


@pytest.mark.parametrize("answer", LOST)
def test_a_recurring_run_whose_answer_is_lost_is_found_and_the_old_one_goes(kfp, send, answer):
    sent(send, kfp)
    kfp.disturb("POST", "recurringruns", Trouble(**answer))
    assert sent(send, kfp, "0 0 4 * * *") == (0, "")
    assert the_only(kfp.recurring_runs).trigger.cron_schedule.cron == "0 0 4 * * *"
    assert kfp.count("POST", "recurringruns") == 2


@pytest.mark.parametrize("answer", LOST)
def test_a_recurring_run_that_was_not_created_leaves_the_old_one(kfp, send, answer):
    sent(send, kfp)
    kfp.disturb("POST", "recurringruns", Trouble(acts=False, **answer))
    status, said = sent(send, kfp, "0 0 4 * * *")
    assert status == 1 and f"could not create the recurring run {NAME}, the server lists none: " in said
    assert the_only(kfp.recurring_runs).trigger.cron_schedule.cron == "0 0 3 * * *"
    assert kfp.count("DELETE", "recurringruns") == 0


def test_a_delete_whose_answer_is_lost_is_repeated(kfp, send):
    sent(send, kfp)
    kfp.disturb("DELETE", "recurringruns", Trouble(cut=True))
    assert sent(send, kfp) == (0, "")
    assert len(kfp.recurring_runs) == 1 and kfp.count("DELETE", "recurringruns") == 2


@pytest.mark.parametrize(
    "cron",
    ["0 0 3 * * *", "*/10 * * ? * *", "0 0,30 8-18/2 1,15 JAN-mar ?", "59 59 23 31 12 6", "00 05 */6 ? * sun,SAT"],
)
def test_good_cron_expressions(cron):
    assert schedule.cron_faults(cron) == []


@pytest.mark.parametrize(
    ("cron", "fields"),
    [
        ("0 3 * * *", ["CRON"]),  # five fields, which the scheduler would take with its seconds first
        ("0 0 3 * * * 2027", ["CRON"]),
        ("", ["CRON"]),
        ("60 0 24 0 13 7", [f"CRON, {field}" for field in ("second", "hour", "day", "month", "weekday")]),
        ("0 0 5-3 * * *", ["CRON, hour"]),
        ("0 */0 3 * * *", ["CRON, minute"]),
        ("0 0 3, * * *", ["CRON, hour"]),
        ("0 0 -3 * * *", ["CRON, hour"]),
        ("0 0 3 * JUN MONDAY", ["CRON, weekday"]),
        ("0 0 3 L * *", ["CRON, day"]),
        ("@daily 0 3 * * *", ["CRON, second"]),
    ],
)
def test_bad_cron_expressions(kfp, send, cron, fields):
    assert [fault.field for fault in schedule.cron_faults(cron)] == fields
    status, said = sent(send, kfp, cron)
    assert status == 2 and all(field in said for field in fields) and kfp.requests == []


# --- the commands, and the server itself


@pytest.mark.parametrize(
    ("target", "rows"), [("pipeline-submit", "runs"), ("schedule", "recurring_runs")], ids=["submit", "schedule"]
)
def test_the_commands_of_the_makefile(kfp, profile, target, rows, tmp_path):
    """As make prints them, without the installation before them; the output is the user's whole view."""
    made = ["make", "-n", target, f"KFP_HOST={kfp.host}", f"PROFILE={profile}", f"PY={sys.executable}"]
    printed = subprocess.run(made, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    [command] = [line for line in printed if "-m pipelines." in line]
    done = subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = the_only(getattr(kfp, rows))
    assert (made.run_id if rows == "runs" else made.recurring_run_id) in done.stdout
    assert done.stdout.count("\n") == 1 and "Traceback" not in done.stderr


def test_kfps_own_client_understands_the_server(kfp, profile, tmp_path, compiled):
    """The server is no mirror of our client: the one that users have works with it as well."""
    from kfp import Client

    package = tmp_path / "pipeline.yaml"
    package.write_text(yaml.safe_dump_all([compiled["pipeline_spec"], compiled["platform_spec"]]))
    client = Client(host=kfp.host, namespace="hat-training")
    given = submit.arguments(load_profile(profile))
    ids = []
    for _ in range(3):
        started = client.create_run_from_pipeline_package(
            str(package), arguments=given, experiment_name="own", namespace="hat-training", run_name="by hand"
        )
        ids.append(started.run_id)
    experiment = client.get_experiment(experiment_name="own", namespace="hat-training").experiment_id
    first = client.list_runs(page_size=2, experiment_id=experiment)
    rest = client.list_runs(page_size=2, experiment_id=experiment, page_token=first.next_page_token)
    assert [run.run_id for run in (*first.runs, *rest.runs)] == ids and not rest.next_page_token
    recurring = client.create_recurring_run(
        experiment, "nightly", cron_expression="0 0 3 * * *", pipeline_package_path=str(package), params=given
    )
    assert [r.recurring_run_id for r in client.list_recurring_runs(namespace="hat-training").recurring_runs] == [
        recurring.recurring_run_id
    ]
    client.delete_recurring_run(recurring.recurring_run_id)
    assert client.list_recurring_runs(namespace="hat-training").recurring_runs is None
