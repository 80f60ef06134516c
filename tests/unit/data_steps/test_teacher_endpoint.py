"""The endpoint teacher against a server that answers from the oracle: right, wrong, slow, broken, killed, resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from components.avatar.agent.examples import Example, Trajectory, read_rows, write_rows
from components.avatar.agent.understand import AgentTurn
from components.avatar.errors import InputError, SystemFault
from components.avatar.harness.schema import Family, HookCheck
from components.harness_augmentation.run import run as run_augmentation
from components.harness_augmentation.settings import Settings as AugmentationSettings
from components.integrations.objects import FolderObjects
from components.teacher_generation import run as step
from components.teacher_generation.attempts import Attempt, Ledger, Tokens
from components.teacher_generation.endpoint import Teaching
from components.teacher_generation.settings import Settings
from tests.unit.data_steps.conftest import MERCHANT, ROOT
from tests.unit.data_steps.fake_endpoint import KEY, USAGE, FakeEndpoint, Reply, right, serving

SEED = 11
TALK = {Family.PRICE: 2, Family.STOCK: 2, Family.SHIPPING: 1, Family.COUPON: 1}


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "secret" / "key"
    path.parent.mkdir()
    path.write_text(f"{KEY}\n")
    return path


@pytest.fixture
def settings_of(key_file):
    def make(url: str, episodes: int = 10, **changes) -> Settings:
        endpoint = {
            "url": url, "model": "fake-30b", "key_file": str(key_file), "concurrency": 4, "retries": 4,
            "backoff_s": 0.01, "timeout_s": 20, "prompt_price": "2.50", "completion_price": "10",
        } | changes.pop("endpoint", {})  # fmt: skip
        return Settings.model_validate(
            {"teacher": "endpoint", "endpoint": endpoint, "episodes": episodes, "families": TALK, "outage_rate": 0.0,
             "retry_share": 0.0} | changes
        )  # fmt: skip

    return make


@pytest.fixture
def endpoint(world, tmp_path, settings_of):
    """Starts a server for the scenarios of some settings; gives (server, settings)."""
    stack = []

    def start(script=right, **changes) -> tuple[FakeEndpoint, Settings]:
        fake = FakeEndpoint(world, script, lambda scenario: [])
        context = serving(fake)
        context.__enter__()
        stack.append(context)
        settings = settings_of(fake.url, **changes)
        ledger = Ledger(tmp_path / "unused.jsonl")
        teaching = Teaching(world, settings, SEED, ledger)
        fake.harnesses = lambda scenario: [
            teaching._harness(scenario, number)[0] for number in range(settings.endpoint.attempts)
        ]
        fake.expect(step.draw_scenarios(world, settings, SEED))
        return fake, settings

    yield start
    for context in stack:
        context.__exit__(None, None, None)


@pytest.fixture
def teach(tmp_path, quiet):
    """Runs the step; gives (metrics, acceptance.json, trajectories)."""

    def run(settings: Settings, name: str = "out"):
        output = tmp_path / name
        output.mkdir(exist_ok=True)
        metrics = step.run(merchant=MERCHANT, output=output, settings=settings, seed=SEED, progress=quiet)
        report = json.loads((output / "acceptance.json").read_text())
        return metrics, report, read_rows(output / "trajectories.jsonl", Trajectory)

    return run


def is_call(answer: dict) -> bool:
    return bool(answer.get("tool_calls"))


def worded(text: str) -> str:
    """The oracle's reply in somebody else's words, its form kept."""
    return f"Oh {text[0].lower()}{text[1:]}"


def test_a_perfect_endpoint_is_accepted_and_its_words_are_kept(endpoint, teach, world):
    def script(session, number, answer) -> Reply:
        return answer if is_call(answer) else answer | {"content": worded(answer["content"])}

    fake, settings = endpoint(script, endpoint={"augmented_share": 0.5})
    metrics, report, trajectories = teach(settings)
    assert report["accepted"] == report["episodes"] == len(trajectories) == 10
    oracle = {one.scenario.id: one.trajectory for one in _oracle(world, settings)}
    for trajectory in trajectories:
        mine, theirs = trajectory.actions, oracle[trajectory.scenario.id].actions
        assert [(a.kind, a.capability, a.arguments) for a in mine] == [
            (a.kind, a.capability, a.arguments) for a in theirs
        ]
        assert all(action.text.startswith("Oh ") for action in mine if action.kind == "reply")
        assert trajectory.source == "endpoint:fake-30b" and set(trajectory.reward.values()) == {1.0}
    parts = report["attempts"]
    assert parts["own_harness"]["played"] + parts["augmented_harness"]["played"] == parts["played"] == 10
    assert parts["augmented_harness"]["played"] >= 2
    requests = len(fake.requests)
    assert report["tokens"] == {
        "requests": requests, "prompt": requests * USAGE["prompt_tokens"],
        "completion": requests * USAGE["completion_tokens"], "unmetered": 0, "wasted": 0,
    }  # fmt: skip
    assert float(report["cost"]["total"]) == pytest.approx(requests * (1000 * 2.5 + 10 * 10) / 1e6)
    assert metrics["cost"].value == pytest.approx(float(report["cost"]["total"]))


def _oracle(world, settings):
    from io import StringIO

    from components.integrations.progress import Progress

    scenarios = step.draw_scenarios(world, settings, SEED)
    return step._ask_oracle(world, scenarios, settings, SEED, Progress("test", stream=StringIO()))


def test_the_words_survive_surface_variants_and_give_way_to_a_new_persona(endpoint, teach, tmp_path, base_model, quiet):
    def script(session, number, answer) -> Reply:
        return answer if is_call(answer) else answer | {"content": worded(answer["content"])}

    _, settings = endpoint(script)
    _, _, trajectories = teach(settings)
    for name, operators in (("surface", ("rename_tools", "reword_rule_items")), ("persona", ("change_persona",))):
        folder, output = tmp_path / name, tmp_path / f"{name}-out"
        folder.mkdir(), output.mkdir()
        write_rows(folder / "trajectories.jsonl", trajectories[:5])
        run_augmentation(
            merchant=MERCHANT, trajectories=folder, base_model=base_model, output=output, seed=1, progress=quiet,
            settings=AugmentationSettings(operators=operators, original_share=0, strength_start=1.0),
        )  # fmt: skip
        for arm in ("fixed", "hsa"):
            replies = [
                segment.text
                for example in read_rows(output / f"{arm}.jsonl", Example)
                for segment in example.segments
                if segment.kind == "reply"
            ]
            assert replies and all(reply.startswith("Oh ") != (name == "persona" and arm == "hsa") for reply in replies)


def test_wrong_answers_are_rejected_and_tried_again(endpoint, teach):
    """Every first attempt states another number; a second one is right."""
    first: set[str] = set()

    def script(session, number, answer) -> Reply:
        name = session.scenario.id
        if not session.calls:
            (second if name in first else first).add(name)
        if name in second or is_call(answer) or not any(c.isdigit() for c in answer["content"]):
            return answer
        return answer | {"content": answer["content"].replace("1", "7").replace("2", "1")}

    second: set[str] = set()
    _, settings = endpoint(script, endpoint={"augmented_share": 0.0})
    _, report, trajectories = teach(settings)
    assert report["accepted"] == len(trajectories) == 10
    wrong = report["rejected"]["done: accuracy, effectiveness"]
    assert wrong == len(second) == report["attempts"]["played"] - 10 > 0
    by_family = sum((Counter(row["rejected"]) for row in report["families"].values()), Counter())
    assert by_family["done: accuracy, effectiveness"] >= wrong


def test_a_hopeless_endpoint_stops_the_run_with_its_reasons(endpoint, teach, tmp_path):
    _, settings = endpoint(lambda session, number, answer: {"content": "I love this stream so much!"})
    with pytest.raises(SystemFault, match=r"solved 0 of 10 scenarios \(min_accepted 0\.5\)"):
        teach(settings)
    report = json.loads((tmp_path / "out" / "acceptance.json").read_text())
    assert report["accepted"] == 0 and report["attempts"]["played"] == 40
    assert not (tmp_path / "out" / "trajectories.jsonl").exists()


@pytest.mark.parametrize("failure", ["429", "500", "503", "cut", "garbage", "no choices"])
def test_failures_that_pass_are_survived(endpoint, teach, failure):
    def script(session, number, answer) -> Reply:
        return failure if number % 3 == 1 else answer

    fake, settings = endpoint(script, episodes=4, endpoint={"retries": 8})
    _, report, trajectories = teach(settings)
    assert len(trajectories) == 4 and fake.statuses[failure] > 2
    assert report["own_faults"]["scenarios"] == 0 and report["attempts"]["played"] == 4


def test_a_slow_answer_is_given_up_and_asked_for_again(endpoint, teach):
    fake, settings = endpoint(
        lambda session, number, answer: "slow" if number == 2 else answer, episodes=3, endpoint={"timeout_s": 0.6}
    )
    _, _, trajectories = teach(settings)
    assert len(trajectories) == 3 and fake.statuses["slow"] == 1


def test_a_server_that_dies_stops_the_run_and_keeps_what_was_played(endpoint, teach, tmp_path):
    def script(session, number, answer) -> Reply:
        return "500" if number >= 12 else answer

    fake, settings = endpoint(script, endpoint={"retries": 1, "concurrency": 1})
    with pytest.raises(SystemFault, match=r"3 scenarios running failed on our side.*500.*attempts.jsonl: start again"):
        teach(settings)
    played = sum(row.error is None for row in read_rows(tmp_path / "out" / "attempts.jsonl", Attempt))
    fake.script = right
    _, report, trajectories = teach(settings)
    assert len(trajectories) == 10
    assert report["attempts"]["of_an_earlier_run"] == played > 0
    assert report["tokens"]["requests"] == len(fake.requests) - fake.statuses["500"]
    assert report["tokens"]["wasted"] >= 0 and report["own_faults"]["scenarios"] == 0


def test_one_bad_scenario_counts_as_our_fault_not_as_a_rejection(endpoint, teach, world):
    broken = None

    def script(session, number, answer) -> Reply:
        return "500" if session.scenario.id == broken else answer

    _, settings = endpoint(script, endpoint={"retries": 1})
    broken = step.draw_scenarios(world, settings, SEED)[4].id
    _, report, trajectories = teach(settings)
    assert report["own_faults"]["scenarios"] == 1 and report["episodes"] == len(trajectories) == 9
    assert report["rejected"] == {}


def test_a_dead_address_is_said(settings_of, teach):
    settings = settings_of("http://127.0.0.1:9/v1", endpoint={"retries": 1})
    with pytest.raises(SystemFault, match=r"127\.0\.0\.1:9.*no answer in 2 tries; the last: ConnectError"):
        teach(settings)


def test_the_key_is_refused_and_never_shown(endpoint, teach, key_file, tmp_path, capfd):
    _, settings = endpoint()
    key_file.write_text("sk-other-key-42")
    with pytest.raises(InputError) as caught:
        teach(settings)
    [fault] = caught.value.faults
    assert fault.field == "endpoint.key_file" and "401" in fault.found
    shown = str(caught.value) + "".join(capfd.readouterr())
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert "sk-other-key-42" not in shown and b"sk-other-key-42" not in written


def test_an_error_that_repeats_the_key_is_blotted(endpoint, teach, tmp_path):
    _, settings = endpoint(lambda session, number, answer: "500", endpoint={"retries": 0})
    with pytest.raises(SystemFault, match=r"key Bearer \*\*\* of tenant 7") as caught:
        teach(settings)
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert KEY not in str(caught.value) and KEY.encode() not in written and b"tenant 7" in written


def test_an_unknown_path_is_the_users_to_mend(endpoint, teach, settings_of):
    fake, _ = endpoint()
    with pytest.raises(InputError, match=r"endpoint\.url.*404"):
        teach(settings_of(fake.url.removesuffix("/v1")))


@pytest.mark.parametrize("content", [None, "", " \n", "two words", "a\nb"])
def test_bad_key_files(settings_of, teach, key_file, content):
    if content is None:
        key_file.unlink()
    else:
        key_file.write_text(content)
    with pytest.raises(InputError, match=r"endpoint\.key_file"):
        teach(settings_of("http://127.0.0.1:9/v1"))


def test_a_mounted_secret_is_a_folder_with_one_key(endpoint, teach, key_file):
    mount = key_file.parent.parent / "mount"
    (mount / "..2026").mkdir(parents=True)
    (mount / "..2026" / "key").write_text(KEY)
    (mount / "..data").symlink_to("..2026")
    (mount / "api-key").symlink_to("..data/key")
    _, settings = endpoint(episodes=2, endpoint={"key_file": str(mount)})
    assert len(teach(settings)[2]) == 2


def test_a_killed_run_goes_on_without_paying_twice(endpoint, tmp_path, settings_of):
    def slowly(session, number, answer) -> Reply:
        time.sleep(0.1)
        return answer

    fake, settings = endpoint(slowly, endpoint={"concurrency": 2})
    output = tmp_path / "killed"
    command = [
        sys.executable, "-m", "components.teacher_generation", "--merchant", str(MERCHANT), "--output", str(output),
        "--seed", str(SEED), "--settings", settings.model_dump_json(),
    ]  # fmt: skip
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    ledger, deadline = output / "attempts.jsonl", time.monotonic() + 120
    while not (ledger.is_file() and ledger.read_bytes().count(b"\n") >= 3):
        assert time.monotonic() < deadline and first.poll() is None
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    with ledger.open("ab") as file:
        file.write(b'{"key": "torn')
    kept, before = ledger.read_bytes().count(b"\n"), len(fake.requests)
    assert kept < 10 and not (output / "acceptance.json").exists()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    report = json.loads((output / "acceptance.json").read_text())
    assert report["accepted"] == 10 and report["attempts"]["of_an_earlier_run"] == kept
    again = Counter(
        request["messages"][1]["content"] for request in fake.requests[before:] if len(request["messages"]) == 2
    )
    assert again.total() == 10 - kept
    assert KEY not in done.stdout + done.stderr


def test_what_was_played_under_other_settings_is_not_taken(endpoint, teach):
    fake, settings = endpoint(episodes=3)
    teach(settings)
    before = len(fake.requests)
    teach(settings)
    assert len(fake.requests) == before
    hotter = settings.endpoint.model_copy(update={"temperature": 1.0})
    teach(settings.model_copy(update={"endpoint": hotter}))
    assert len(fake.requests) == 2 * before


def test_a_corrected_turn_is_cut_and_a_share_stays_whole(endpoint, teach, world):
    """An endpoint that answers before it has loaded a skill, once an episode."""

    def hasty(session, number, answer) -> Reply:
        return {"content": "Let me see, lovely 💛"} if not session.corrections and not session.calls else answer

    _, settings = endpoint(hasty, endpoint={"augmented_share": 0.0})
    _, report, trajectories = teach(settings)
    oracle = {one.scenario.id: one.trajectory for one in _oracle(world, settings)}
    assert report["accepted"] == 10 and report["retries_kept"] == 0
    for trajectory in trajectories:
        assert [a.kind for a in trajectory.actions] == [a.kind for a in oracle[trajectory.scenario.id].actions]
    _, report, whole = teach(settings.model_copy(update={"retry_share": 1.0}), "whole")
    assert report["retries_kept"] == 10
    assert all(t.mistake.kind == HookCheck.SKILL_LOADED and t.mistake.before == 0 for t in whole)


def test_calls_as_text_thoughts_and_broken_arguments(endpoint, teach):
    """A server without a parser of tool calls; one that leaves thoughts in the text; a model that breaks its JSON."""

    def script(session, number, answer) -> Reply:
        if not is_call(answer):
            return answer | {"content": f"<think>price? <tool_call></think>\n{answer['content']}"}
        function = answer["tool_calls"][0]["function"]
        if number % 5 == 0:
            return answer | {"tool_calls": [{"function": function | {"arguments": function["arguments"][:-1]}}] * 2}
        return {
            "content": f'<tool_call>{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}</tool_call>'
        }

    _, settings = endpoint(script)
    _, report, trajectories = teach(settings)
    assert report["accepted"] == 10
    assert not any("think" in (action.text or "") for t in trajectories for action in t.actions)


def test_judges_vote_by_majority_and_their_agreement_is_reported(endpoint, teach, key_file, settings_of):
    """Three judges behind one server: two accept everything, the third refuses stock questions, one is unreadable."""
    opinions = {
        "judge-a": lambda case: '{"accept": true, "why": "fine"}',
        "judge-b": lambda case: "I think so. " + json.dumps({"accept": "lovely" in case, "why": "address"}),
        "judge-c": lambda case: '```json\n{"accept": false, "why": "dull"}\n```' if "left" in case else "no idea",
    }

    def judged(body: dict) -> Reply:
        return {"content": opinions[body["model"]](body["messages"][1]["content"])}

    fake, settings = endpoint()
    answer = fake.answer
    fake.answer = lambda body: judged(body) if body["model"].startswith("judge") else answer(body)
    judges = [{"url": fake.url, "model": name, "key_file": str(key_file), "prompt_price": "1"} for name in opinions]
    settings = Settings.model_validate(settings.model_dump() | {"judges": judges})
    metrics, report, trajectories = teach(settings)
    assert len(trajectories) == 10
    votes = report["judges"]
    assert votes["episodes"] == 10 and votes["by_judge"]["judge-a"] == {"accept": 10, "reject": 0, "unreadable": 0}
    third = votes["by_judge"]["judge-c"]
    assert third["reject"] > 0 and third["unreadable"] > 0
    assert votes["pairs"] == 10 + 2 * third["reject"] and votes["agreement"] == pytest.approx(10 / votes["pairs"])
    assert metrics["judge_agreement"].n == votes["pairs"]
    assert report["cost"]["judge:judge-a"] == "0.01"
    opinions["judge-a"] = opinions["judge-b"] = lambda case: '{"accept": false, "why": "no"}'
    with pytest.raises(SystemFault, match=r"judges \(40\)"):
        teach(settings, "refused")


def row(key: str, **changes) -> Attempt:
    return Attempt(
        key=key, scenario="s", number=0, operators=(), turns=(AgentTurn(kind="reply", text="a\u2028b"),),
        tokens=Tokens(requests=1, prompt=5), seconds=0.1, **changes,
    )  # fmt: skip


def test_the_ledger_survives_a_torn_line_and_keeps_the_last_row_of_a_key(tmp_path):
    path = tmp_path / "attempts.jsonl"
    ledger = Ledger(path)
    for attempt in (row("a"), row("b", error="down"), row("a", verdict="judges")):
        ledger.append(attempt)
    ledger.close()
    path.write_bytes(path.read_bytes() + b'{"key": "c", "scen')
    again = Ledger(path)
    assert len(again) == 1 and again.damaged == 1
    assert again.get("a").verdict == "judges" and again.get("b") is None and again.get("c") is None
    assert again.wasted.prompt == 5
    again.append(row("c"))
    again.close()
    assert Ledger(path).get("c") == row("c")


def test_a_new_pod_finds_the_attempts_in_the_mirror(tmp_path, monkeypatch):
    mirror = FolderObjects(tmp_path / "store")
    first = Ledger(tmp_path / "pod1" / "attempts.jsonl", mirror)
    first.append(row("a"))
    assert mirror.size("000000.jsonl") is None
    monkeypatch.setattr("components.teacher_generation.attempts.MIRROR_EVERY_S", 0.0)
    first.append(row("b"))  # the pod dies here, without close
    second = Ledger(tmp_path / "pod2" / "attempts.jsonl", mirror)
    assert len(second) == 2 and second.get("b") == row("b")
    second.append(row("c"))
    second.close()
    assert len(Ledger(tmp_path / "pod3" / "attempts.jsonl", mirror)) == 3


def test_where_attempts_outlive_a_task():
    assert step.attempts_place("/runs/1", "", "p") == "/runs/1/teacher_attempts.jsonl"
    assert step.attempts_place("", "s3://bucket/weights", "p") == "s3://bucket/weights/teacher-attempts/p"
    assert step.attempts_place("", "s3://bucket/weights", None) == step.attempts_place("", "", "p") == ""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"teacher": "endpoint"}, "needs an endpoint section"),
        ({"endpoint": {"url": "ftp://x", "model": "m"}}, "endpoint.url"),
        ({"endpoint": {"url": "https://user:pw@x/v1", "model": "m"}}, "endpoint.url"),
        ({"endpoint": {"url": "https://x/v1", "model": "m", "temperature": 0}}, "temperature above 0"),
        (
            {"endpoint": {"url": "https://x/v1", "model": "m"}, "judges": [{"url": "https://x/v1", "model": "m"}]},
            "judges",
        ),
    ],
)
def test_bad_endpoint_settings(changes, said):
    with pytest.raises(ValueError) as caught:
        Settings.model_validate({"teacher": "oracle"} | changes)
    assert said in str(caught.value)


def test_a_key_in_the_settings_is_refused_and_not_shown(capsys):
    from components.integrations.cli import step_main

    text = json.dumps({"endpoint": {"url": "https://x/v1", "model": "m", "api_key": KEY}})
    arguments = ["--merchant", str(MERCHANT), "--output", "/tmp/unused-teacher", "--settings", text]
    assert step_main("teacher_generation", step.run, arguments) == 1
    shown = capsys.readouterr().err
    assert "endpoint.api_key" in shown and KEY not in shown
