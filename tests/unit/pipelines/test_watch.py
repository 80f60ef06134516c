"""From an edit to a decision: the real loop, queue, linter, diff and store; the gate and the runs are told what to
answer.
"""

import json
import re
import threading

import pytest

from components.avatar.errors import SystemFault
from components.canary_deploy.hot_reload import MerchantWatch
from pipelines.watch.trigger import Ended
from tests.unit.pipelines.watch_parts import KEEP, RETRAIN, Gate, Runs, edit, make_watcher, put_merchant


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def once(watcher):
    watcher.run(threading.Event(), once=True)


def states(watcher, merchant="lumi"):
    return [change.state for change in watcher.queue.of(merchant)]


def report(tmp_path, merchant="lumi"):
    return json.loads((tmp_path / f"state/reports/{merchant}.json").read_text())


@pytest.fixture
def merchant(tmp_path):
    return put_merchant(tmp_path)


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


def test_an_edit_that_the_champion_can_do_is_kept_and_the_report_says_what_that_saved(tmp_path, merchant, runs):
    watcher = make_watcher(tmp_path, gate := Gate(KEEP), runs)
    once(watcher)
    edit(merchant)
    once(watcher)
    assert states(watcher) == ["kept", "kept"] and runs.started == [] and len(gate.asked) == 2
    told = report(tmp_path)
    newest = told["changes"][0]
    assert [c["text"] for c in newest["changes"]] == ["the most words of a reply: 30, now 20"]
    assert newest["decision"] == "keep" and newest["verdict"]["quality"] == 0.9
    assert newest["typical"] == {"minutes": 4.0, "runs": 3}
    assert told["saved"] == {"runs": 2, "minutes": 8.0, "runs_of_unknown_duration": 0, "gate_minutes": 0.1}
    page = (tmp_path / "state/reports/lumi.html").read_text()
    assert "the most words of a reply: 30, now 20" in page and "about 4.0 minutes of training" in page
    assert "lumi.html" in (tmp_path / "state/reports/index.html").read_text()


def test_what_was_never_measured_is_said_to_be_unknown(tmp_path, merchant, runs):
    runs.measured = list  # type: ignore[method-assign]
    once(make_watcher(tmp_path, Gate(KEEP), runs))
    assert report(tmp_path)["saved"]["minutes"] is None and report(tmp_path)["saved"]["runs"] == 1
    assert "unknown" in (tmp_path / "state/reports/lumi.html").read_text()


def test_a_bad_edit_is_refused_in_words_and_the_last_good_version_is_served(tmp_path, merchant, runs, capsys):
    watcher = make_watcher(tmp_path, gate := Gate(KEEP), runs)
    once(watcher)
    service = MerchantWatch(tmp_path / "state/accepted/lumi")  # what an agent service follows
    edit(merchant, "reply_words: 30", "reply_words: 900")
    once(watcher)
    assert states(watcher) == ["kept", "refused"] and len(gate.asked) == 1
    assert service.current().harness.limits.reply_words == 30
    said = re.search(r"refused: harness\.yaml: limits\.reply_words: .*900.*", capsys.readouterr().out)
    assert said and str(tmp_path) not in said[0]
    assert "900" in (tmp_path / "state/reports/lumi.html").read_text()

    edit(merchant, "reply_words: 900", "reply_words: 30")
    once(watcher)
    assert states(watcher) == ["kept", "refused", "restored"] and len(gate.asked) == 1


def test_a_lint_error_is_refused_too(tmp_path, merchant, runs):
    watcher = make_watcher(tmp_path, Gate(KEEP), runs)
    (merchant / "tools.json").write_text("[]")
    once(watcher)
    assert states(watcher) == ["refused"] and report(tmp_path)["served"] is None
    assert not (tmp_path / "state/accepted/lumi").exists()


def test_services_see_a_good_edit_through_the_link(tmp_path, merchant, runs):
    watcher = make_watcher(tmp_path, Gate(KEEP), runs)
    once(watcher)
    clock = Clock()
    service = MerchantWatch(tmp_path / "state/accepted/lumi", clock)
    edit(merchant)
    once(watcher)
    clock.now += 1
    assert service.current().harness.limits.reply_words == 20


def test_the_same_content_is_decided_once(tmp_path, merchant, runs):
    once(make_watcher(tmp_path, gate := Gate(KEEP), runs))
    for path in merchant.rglob("*"):
        path.touch()
    again = make_watcher(tmp_path, gate, runs)  # a restart
    once(again)
    assert states(again) == ["kept"] and len(gate.asked) == 1


def test_content_that_comes_back_brings_its_verdict_to_the_gate(tmp_path, merchant, runs):
    watcher = make_watcher(tmp_path, gate := Gate(KEEP), runs)
    once(watcher)
    edit(merchant)
    once(watcher)
    edit(merchant, "reply_words: 20", "reply_words: 30")
    once(watcher)
    assert states(watcher) == ["kept"] * 3
    assert [set(question.known) for question in gate.asked] == [set(), set(), {"1"}]


def test_copies_of_old_versions_go_and_the_store_keeps_them(tmp_path, merchant, runs):
    watcher = make_watcher(tmp_path, Gate(KEEP), runs)
    once(watcher)
    for old, new in ((30, 20), (20, 21), (21, 22)):
        edit(merchant, f"reply_words: {old}", f"reply_words: {new}")
        once(watcher)
    digests = [change.digest for change in watcher.queue.of("lumi")]
    copies = {path.name for path in (tmp_path / "state/versions/lumi").iterdir()}
    assert copies == set(digests[-2:])
    assert all(watcher.versions.store.present(digest) for digest in digests)
    assert watcher.versions.folder("lumi", digests[0]).is_dir()  # fetched again


def test_a_clock_that_was_set_back_holds_up_nothing(tmp_path, merchant, runs):
    watcher = make_watcher(tmp_path, Gate(KEEP), runs, clock := Clock(), debounce_s=10, interval_s=1)
    watcher.scan()
    clock.now -= 86400
    once(watcher)
    assert states(watcher) == ["kept"]


def test_an_edit_rests_for_the_debounce_time_first(tmp_path, merchant, runs):
    clock = Clock()
    watcher = make_watcher(tmp_path, Gate(KEEP), runs, clock, debounce_s=10, interval_s=1)
    stop = threading.Event()

    def look():
        watcher.scan()
        watcher.step(stop)
        watcher.step(stop)

    look()
    for words in range(20, 26):  # an edit every six seconds: never at rest
        edit(merchant, f"reply_words: {30 if words == 20 else words - 1}", f"reply_words: {words}")
        clock.now += 6
        look()
        assert states(watcher) == ["seen"]
    clock.now += 9
    look()
    assert states(watcher) == ["seen"]
    clock.now += 1
    look()
    assert states(watcher) == ["kept"]
    assert watcher.queue.of("lumi")[0].facts.uri.endswith(watcher.queue.of("lumi")[0].digest)


def test_a_version_that_rested_is_examined_as_it_was_seen(tmp_path, merchant, runs):
    """Though the merchant writes on before its turn comes, and though a look meanwhile found it touched."""
    watcher = make_watcher(tmp_path, Gate(KEEP), runs, debounce_s=86400)
    watcher.scan()
    (merchant / "harness.yaml").touch()
    watcher.scan()
    (merchant / "harness.yaml").write_text("half an edit: [")
    [seen] = watcher.queue.of("lumi")
    watcher.examine(seen)
    assert states(watcher) == ["accepted"]
    assert "reply_words: 30" in (tmp_path / "state/accepted/lumi/harness.yaml").read_text()
    assert not list((tmp_path / "state/staging").glob("*/*"))


def test_an_edit_taken_back_before_it_rested_is_none(tmp_path, merchant, runs):
    clock = Clock()
    watcher = make_watcher(tmp_path, Gate(KEEP), runs, clock, debounce_s=10, interval_s=1)
    stop = threading.Event()
    watcher.scan()
    clock.now += 10
    watcher.scan()
    watcher.step(stop)
    edit(merchant)
    watcher.scan()
    assert states(watcher) == ["accepted", "seen"]
    edit(merchant, "reply_words: 20", "reply_words: 30")
    watcher.scan()
    assert states(watcher) == ["accepted"]


def test_a_weak_champion_starts_a_run_and_edits_meanwhile_wait_for_its_end(tmp_path, merchant, runs):
    watcher = make_watcher(tmp_path, gate := Gate(RETRAIN, KEEP), runs)
    once(watcher)
    assert states(watcher) == ["running"] and runs.started == ["run-1"]
    for old, new in ((30, 20), (20, 21), (21, 22)):
        edit(merchant, f"reply_words: {old}", f"reply_words: {new}")
        once(watcher)
    assert states(watcher) == ["running", "superseded", "superseded", "accepted"]  # the newest wins
    assert len(gate.asked) == 1 and runs.started == ["run-1"]
    runs.ended = Ended(True, "rollout promote: better", 90.0, "2")
    once(watcher)
    assert states(watcher) == ["trained", "superseded", "superseded", "kept"]
    told = report(tmp_path)["changes"]
    assert told[-1]["run"]["model_version"] == "2" and told[0]["changes"][0]["text"].endswith("now 22")


def test_runs_of_several_merchants_go_one_after_the_other_and_a_new_champion_may_make_the_next_needless(tmp_path, runs):
    for name in ("amber", "birch"):
        put_merchant(tmp_path, name)
    watcher = make_watcher(tmp_path, gate := Gate(RETRAIN, RETRAIN, KEEP), runs)
    once(watcher)
    assert states(watcher, "amber") == ["running"] and states(watcher, "birch") == ["queued"]
    runs.ended = Ended(True, "promoted")
    once(watcher)
    assert states(watcher, "amber") == ["trained"] and states(watcher, "birch") == ["kept"]
    assert runs.started == ["run-1"] and len(gate.asked) == 3
    history = [state for _, state in watcher.queue.history(watcher.queue.of("birch")[0])]
    assert history == ["seen", "accepted", "queued", "accepted", "kept"]


def test_more_runs_at_once_are_still_one_a_merchant(tmp_path, runs):
    folders = [put_merchant(tmp_path, name) for name in ("amber", "birch")]
    watcher = make_watcher(tmp_path, Gate(RETRAIN), runs, max_runs=5)
    once(watcher)
    edit(folders[0])
    once(watcher)
    assert states(watcher, "amber") == ["running", "accepted"] and states(watcher, "birch") == ["running"]


def test_a_failed_run_is_said_and_does_not_stop_the_next_edit(tmp_path, merchant, runs):
    watcher = make_watcher(tmp_path, Gate(RETRAIN), runs)
    once(watcher)
    runs.ended = Ended(False, "FAILED in step sft_hsa: out of memory")
    once(watcher)
    edit(merchant)
    runs.ended = None
    once(watcher)
    assert states(watcher) == ["failed", "running"]
    assert "out of memory" in (tmp_path / "state/reports/lumi.html").read_text()


def test_a_gate_that_fails_is_tried_again_later_and_says_so(tmp_path, merchant, runs):
    clock = Clock()
    watcher = make_watcher(tmp_path, gate := Gate(SystemFault("MLflow is down"), KEEP), runs, clock, interval_s=8)
    once(watcher)
    assert states(watcher) == ["accepted"] and watcher.faults == 1
    assert report(tmp_path)["changes"][0]["waiting"] == "MLflow is down"
    clock.now += 7
    once(watcher)
    assert len(gate.asked) == 1
    clock.now += 2
    once(watcher)
    assert states(watcher) == ["kept"] and report(tmp_path)["changes"][0]["waiting"] == ""


def test_a_store_that_fails_loses_nothing(tmp_path, merchant, runs, monkeypatch):
    watcher = make_watcher(tmp_path, Gate(KEEP), runs, clock := Clock())
    keep = watcher.versions.keep

    def broken(folder):
        raise SystemFault("s3://bucket: SlowDown")

    monkeypatch.setattr(watcher.versions, "keep", broken)
    once(watcher)
    assert states(watcher) == ["seen"] and watcher.faults == 1
    monkeypatch.setattr(watcher.versions, "keep", keep)
    clock.now += 60
    once(watcher)
    assert states(watcher) == ["kept"]


def test_a_kubeflow_that_does_not_answer_leaves_the_run_to_be_started(tmp_path, merchant, runs):
    watcher = make_watcher(tmp_path, Gate(RETRAIN), runs, clock := Clock())
    advance = runs.advance

    def down(*_):
        raise SystemFault("Kubeflow at http://kfp: ConnectionError")

    runs.advance = down
    once(watcher)
    assert states(watcher) == ["running"] and "Kubeflow" in report(tmp_path)["changes"][0]["waiting"]
    runs.advance = advance
    clock.now += 60
    once(watcher)
    assert runs.started == ["run-1"] and report(tmp_path)["changes"][0]["waiting"] == ""


def test_questions_that_test_nothing_are_refused(tmp_path, merchant, runs):
    rows = [json.loads(line) for line in (merchant / "questions.jsonl").read_text().splitlines()]
    text = "".join(json.dumps({**row, "family": None, "link_id": None, "slots": {}}) + "\n" for row in rows)
    (merchant / "questions.jsonl").write_text(text)
    watcher = make_watcher(tmp_path, Gate(KEEP), runs)
    once(watcher)
    assert states(watcher) == ["refused"]
    assert "questions.jsonl" in report(tmp_path)["changes"][0]["faults"][0]


def test_a_merchant_that_goes_away_keeps_its_last_good_version(tmp_path, merchant, runs, capsys):
    watcher = make_watcher(tmp_path, Gate(KEEP), runs)
    once(watcher)
    merchant.rename(tmp_path / "elsewhere")
    once(watcher)
    assert (tmp_path / "state/accepted/lumi/harness.yaml").is_file() and states(watcher) == ["kept"]
    assert "the folder is gone" in capsys.readouterr().out
