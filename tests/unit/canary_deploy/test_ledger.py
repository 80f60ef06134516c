"""The ledger notices every change, replays to the same decisions, and remembers what was rolled back."""

import json
from pathlib import Path

import pytest

from components.canary_deploy.__main__ import main
from components.canary_deploy.assignment import Arm
from components.canary_deploy.config import CanaryConfig
from components.canary_deploy.decision import Verdict, decide
from components.canary_deploy.drill import healthy_stream
from components.canary_deploy.events import EventLog
from components.canary_deploy.joining import build_evidence
from components.canary_deploy.ledger import FIRST, Ledger

STREAM = healthy_stream(4, rooms=60)
CONFIG = CanaryConfig(planned_rooms=40, min_duration_s=0)


def evidence_of(**changes):
    log = EventLog("drill")
    for event in STREAM.events:
        log.add(event)
    return build_evidence(log, STREAM.state, CONFIG).with_state(**changes)


EVIDENCE = evidence_of()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    found = Ledger(tmp_path / "rollouts" / "ledger.jsonl")
    for step in range(3):
        evidence = EVIDENCE.with_state(now=STREAM.state.now + step, looks=found.looks("drill"))
        found.append(evidence, CONFIG, decide(evidence, CONFIG))
    return found


def test_a_whole_ledger_verifies_and_replays(ledger):
    assert ledger.verify() == []
    replayed = ledger.replay()
    assert len(replayed) == 3 and all(entry.same for entry in replayed)
    assert replayed[0].recorded["look"] is not None
    assert len(ledger.looks("drill")) == 1 and ledger.looks("another") == ()
    assert ledger.head() == list(ledger.entries())[-1].hash


def test_an_empty_ledger_is_whole(tmp_path):
    assert Ledger(tmp_path / "none").verify() == [] and Ledger(tmp_path / "none").head() == FIRST


def change_verdict(lines: list[str]) -> list[str]:
    entry = json.loads(lines[1])
    entry["body"]["decision"]["verdict"] = "promote"
    return [lines[0], json.dumps(entry), lines[2]]


def change_and_rehash(lines: list[str]) -> list[str]:
    from components.canary_deploy.ledger import Entry

    entry = json.loads(lines[1])
    entry["body"]["evidence"]["canary"]["gmv"][0] += 1
    entry["hash"] = Entry(**entry).digest()
    return [lines[0], json.dumps(entry), lines[2]]


@pytest.mark.parametrize(
    ("tamper", "problem"),
    [
        (change_verdict, "entry 1 was changed"),
        (change_and_rehash, "entry 2 does not follow"),
        (lambda lines: [lines[0], lines[2]], "lines are missing"),
        (lambda lines: lines[1:], "lines are missing"),
        (lambda lines: [lines[0], lines[2], lines[1]], "does not follow"),
        (lambda lines: [lines[0], lines[0], *lines[1:]], "numbered"),
        (lambda lines: [lines[0], "{}", lines[2]], "a ledger entry"),
    ],
)
def test_tampering_is_found(ledger, tamper, problem, capsys):
    lines = ledger.path.read_text().splitlines()
    ledger.path.write_text("\n".join(tamper(lines)) + "\n")
    assert any(problem in found for found in ledger.verify()), ledger.verify()
    assert main(["replay", str(ledger.path)]) == 1
    assert "chain:" in capsys.readouterr().out


def test_a_cut_off_end_shows_against_the_head_kept_elsewhere(ledger):
    head = ledger.head()
    ledger.path.write_text("\n".join(ledger.path.read_text().splitlines()[:2]) + "\n")
    assert ledger.verify() == [] and ledger.head() != head


def test_a_torn_last_line_is_dropped_and_the_chain_goes_on(ledger):
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + whole.splitlines()[0][:100])
    assert len(list(ledger.entries())) == 3
    ledger.append(EVIDENCE, CONFIG, decide(EVIDENCE, CONFIG))
    assert ledger.verify() == [] and len(list(ledger.entries())) == 4


def test_a_rolled_back_release_is_refused_until_a_person_clears_it(ledger):
    assert ledger.refusal("challenger") is None
    crashed = EVIDENCE.with_state(crashes={Arm.CANARY: 1})
    decision = decide(crashed, CONFIG)
    assert decision.verdict is Verdict.ROLLBACK
    ledger.append(crashed, CONFIG, decision)
    assert "crashes" in (ledger.refusal("challenger") or "") and ledger.refusal("another") is None
    ledger.clear("challenger", "ops@example.com", "the node was at fault", at=1.0)
    assert ledger.refusal("challenger") is None
    assert ledger.verify() == [] and len(ledger.replay()) == 4


def test_replay_shows_a_decision_that_its_evidence_does_not_give(ledger, capsys):
    decision = decide(EVIDENCE, CONFIG)
    ledger.append(EVIDENCE.with_state(crashes={Arm.CANARY: 1}), CONFIG, decision)  # a controller that decides otherwise
    assert [entry.same for entry in ledger.replay()] == [True, True, True, False]
    assert main(["replay", str(ledger.path)]) == 1
    assert "DIFFERENT: rollback" in capsys.readouterr().out
