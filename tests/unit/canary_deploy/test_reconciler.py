"""What follows from what the registry shows and what the controller knows."""

import itertools
from dataclasses import replace

import pytest

from components.canary_deploy.ledger import Entry, Ledger
from components.canary_deploy.promotion_state import Ended, Frozen, Known, Move, Running, known_from
from components.canary_deploy.reconciler import (
    ACKNOWLEDGE,
    BY,
    FROZEN,
    MAX_ATTEMPTS,
    PIPELINE,
    ROLLOUT,
    STATE,
    VERDICT,
    WHY,
    Acknowledge,
    Adopt,
    Close,
    Consider,
    Freeze,
    Leave,
    Moved,
    Promote,
    Publish,
    Release,
    Resume,
    Say,
    Seen,
    Version,
    Wait,
    Withdraw,
    next_action,
)

ONE, TWO, THREE = (Version(number) for number in "123")
RUNNING = Running("rollout-2", version="2", champion="1", release="r2", run_id="run")
IDLE = Known(champion="1")
AT_WORK = Known(champion="1", canary="2", running=RUNNING, rollouts=1)
SEEN_P = replace(IDLE, left=frozenset({"p"}), adopted=frozenset({"p"}))
ENDED = Ended(RUNNING, "finished", "promote", "why", "folder")
FREEZE = Frozen(found="3", why="somebody", at=0.0)


def tagged(version: Version, **tags: str) -> Version:
    names = {"by": BY, "state": STATE, "verdict": VERDICT, "why": WHY, "rollout": ROLLOUT}
    return replace(version, tags={names[key]: value for key, value in tags.items()})


@pytest.mark.parametrize(
    ("known", "seen", "alive", "expected"),
    [
        pytest.param(Known(), Seen(ONE), "", Adopt, id="first sight"),
        pytest.param(Known(champion=""), Seen(ONE), "", Adopt, id="the first champion"),
        pytest.param(IDLE, Seen(ONE), "", None, id="nothing to do"),
        pytest.param(IDLE, Seen(ONE, TWO), "", Consider, id="a person sets canary"),
        pytest.param(replace(IDLE, canary="2"), Seen(ONE, TWO), "", None, id="the same version twice"),
        pytest.param(replace(IDLE, canary="2"), Seen(ONE, THREE), "", Release, id="another version"),
        pytest.param(replace(IDLE, canary="2"), Seen(ONE), "", Release, id="canary removed"),
        pytest.param(IDLE, Seen(TWO), "", Freeze, id="champion moved by hand"),
        pytest.param(IDLE, Seen(None), "", Freeze, id="champion removed by hand"),
        pytest.param(AT_WORK, Seen(THREE, TWO), "rollout-2", Freeze, id="champion moved during a rollout"),
        pytest.param(
            IDLE, Seen(tagged(TWO, by=PIPELINE, verdict="promote")), "", Adopt, id="champion moved by a pipeline"
        ),
        pytest.param(
            AT_WORK,
            Seen(tagged(THREE, by=PIPELINE, verdict="promote"), TWO),
            "rollout-2",
            Freeze,
            id="in a rollout",
        ),
        pytest.param(
            IDLE, Seen(tagged(TWO, by=PIPELINE, verdict="hold")), "", Freeze, id="a pipeline that did not promote"
        ),
        pytest.param(replace(IDLE, frozen=FREEZE), Seen(THREE), "", Say, id="a freeze not said yet"),
        pytest.param(
            replace(IDLE, frozen=FREEZE), Seen(THREE, tags={FROZEN: "somebody"}), "", None, id="frozen and said"
        ),
        pytest.param(
            replace(IDLE, frozen=FREEZE), Seen(ONE, tags={FROZEN: "somebody"}), "", Freeze, id="frozen, moved again"
        ),
        pytest.param(
            replace(IDLE, frozen=FREEZE), Seen(THREE, TWO, {FROZEN: "somebody"}), "", Wait, id="canary while frozen"
        ),
        pytest.param(replace(IDLE, frozen=FREEZE), Seen(THREE, tags={ACKNOWLEDGE: "ann"}), "", Acknowledge, id="tag"),
        pytest.param(IDLE, Seen(ONE, tags={FROZEN: "somebody"}), "", Say, id="no longer frozen"),
        pytest.param(IDLE, Seen(ONE, tags={ACKNOWLEDGE: "ann"}), "", Say, id="acknowledged in advance does not count"),
        pytest.param(AT_WORK, Seen(ONE, TWO), "rollout-2", None, id="a rollout runs"),
        pytest.param(AT_WORK, Seen(ONE), "rollout-2", Withdraw, id="canary removed during a rollout"),
        pytest.param(AT_WORK, Seen(ONE, THREE), "rollout-2", Withdraw, id="canary moved during a rollout"),
        pytest.param(
            replace(AT_WORK, running=replace(RUNNING, withdrawn="gone")),
            Seen(ONE, THREE),
            "rollout-2",
            Wait,
            id="one rollout at a time",
        ),
        pytest.param(
            replace(AT_WORK, running=replace(RUNNING, withdrawn="gone")),
            Seen(ONE, tagged(THREE, state="waiting", why="the rollout of version 2 runs; one at a time")),
            "rollout-2",
            None,
            id="waiting is said once",
        ),
        pytest.param(replace(AT_WORK, champion="3"), Seen(THREE, TWO), "rollout-2", Withdraw, id="another champion"),
        pytest.param(AT_WORK, Seen(ONE, TWO), "", Resume, id="the controller was restarted"),
        pytest.param(
            replace(AT_WORK, running=replace(RUNNING, attempt=MAX_ATTEMPTS)), Seen(ONE, TWO), "", Close, id="too often"
        ),
        pytest.param(
            replace(AT_WORK, running=replace(RUNNING, withdrawn="gone")),
            Seen(ONE),
            "",
            Close,
            id="gone, restarted",
        ),
        pytest.param(
            replace(AT_WORK, frozen=FREEZE), Seen(THREE, TWO, {FROZEN: "somebody"}), "", None, id="no restart if frozen"
        ),
        pytest.param(replace(IDLE, promote="2", ended=ENDED), Seen(ONE, TWO), "", Promote, id="the verdict is promote"),
        pytest.param(
            replace(IDLE, promote="2", moving=Move("2", "1")), Seen(TWO, TWO), "", Moved, id="a reply that was lost"
        ),
        pytest.param(
            replace(IDLE, promote="2", moving=Move("2", "1")), Seen(ONE, TWO), "", Promote, id="a write that was lost"
        ),
        pytest.param(
            replace(IDLE, promote="2", moving=Move("2", "1")),
            Seen(THREE, TWO),
            "",
            Freeze,
            id="moved meanwhile",
        ),
        pytest.param(replace(IDLE, canary="2", ended=ENDED), Seen(ONE, TWO), "", Publish, id="outcome not told"),
        pytest.param(IDLE, Seen(ONE, tagged(TWO, by=PIPELINE, state="running")), "", Leave, id="a pipeline has it"),
        pytest.param(IDLE, Seen(ONE, tagged(TWO, by=PIPELINE, state="finished")), "", Leave, id="a pipeline had it"),
        pytest.param(SEEN_P, Seen(ONE, tagged(TWO, by=PIPELINE, state="running", rollout="p")), "", None, id="runs on"),
        pytest.param(
            SEEN_P, Seen(ONE, tagged(TWO, by=PIPELINE, state="finished", rollout="p")), "", Consider, id="by a person"
        ),
        pytest.param(
            replace(IDLE, champion="3"),
            Seen(tagged(TWO, by=PIPELINE, verdict="promote")),
            "",
            Freeze,
            id="by hand",
        ),
        pytest.param(
            SEEN_P, Seen(tagged(TWO, by=PIPELINE, verdict="promote", rollout="p")), "", Freeze, id="forward by hand"
        ),
        pytest.param(IDLE, Seen(ONE, tagged(TWO, by=PIPELINE, state="failed")), "", Consider, id="its rollout failed"),
    ],
)
def test_one_thing_follows(known: Known, seen: Seen, alive: str, expected: type | None) -> None:
    action = next_action(known, seen, alive)
    assert type(action) is (expected or type(None)), action


def test_reasons_name_versions() -> None:
    action = next_action(AT_WORK, Seen(THREE, TWO), "rollout-2")
    assert isinstance(action, Freeze)
    assert "to version 3" in action.why and "version 1 was expected" in action.why
    assert "during the rollout of version 2" in action.why and ACKNOWLEDGE in action.why
    back = next_action(replace(IDLE, frozen=FREEZE), Seen(ONE))
    assert isinstance(back, Freeze) and "away and back" in back.why
    gone = next_action(AT_WORK, Seen(ONE, THREE), "rollout-2")
    assert isinstance(gone, Withdraw) and "on version 3" in gone.why


def test_nothing_is_started_promoted_or_resumed_while_frozen() -> None:
    """Over all combinations of what can be known and seen beside a freeze."""
    acting = (Consider, Promote, Resume)
    versions = (None, ONE, TWO, THREE)
    runnings = (None, RUNNING, replace(RUNNING, withdrawn="gone"))
    tried = 0
    for champion, canary, running, ended, moving, alive in itertools.product(
        versions, versions, runnings, (None, ENDED), (None, Move("2", "1")), ("", "rollout-2")
    ):
        known = Known("1", "2" if running else "", running, ended, "", moving, FREEZE)
        assert not isinstance(next_action(known, Seen(champion, canary, {FROZEN: "somebody"}), alive), acting)
        tried += 1
    assert tried == 384


def test_the_ledger_remembers(tmp_path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")

    def known() -> Known:
        return known_from(ledger.entries())

    running = vars(RUNNING)
    outcome = {"outcome": "finished", "verdict": "promote", "why": "good", "folder": ""}
    assert known() == Known()
    ledger.record("adopted", 1.0, {"champion": "1", "why": "first sight"})
    ledger.record("started", 2.0, {"running": running, "noticed": {}})
    assert known() == AT_WORK
    ledger.record("started", 3.0, {"running": running | {"attempt": 2}, "noticed": {}})
    assert known().rollouts == 1 and known().running == replace(RUNNING, attempt=2)
    ledger.record("ended", 4.0, {"running": running, "ended": outcome})
    assert (known().promote, known().running, known().ended) == ("2", None, Ended(RUNNING, **outcome))
    ledger.record("moving", 5.0, {"version": "2", "before": "1"})
    assert known().moving == Move("2", "1") and known().champion == "1"
    ledger.record("moved", 6.0, {"version": "2"})
    ledger.record("published", 7.0, {"rollout": "rollout-2"})
    assert known() == Known(champion="2", canary="2", rollouts=1)
    ledger.record("released", 8.0, {"version": "2"})
    ledger.record("refused", 9.0, {"version": "3", "why": "gate t1 failed"})
    assert known().canary == "3"
    ledger.record("left", 10.0, {"version": "4", "rollout": "p"})
    assert (known().canary, known().left) == ("4", {"p"})
    assert ledger.verify() == [] and ledger.replay() == [] and ledger.looks("rollout-2") == ()


def test_a_freeze_voids_a_promotion_and_a_rollback_is_remembered(tmp_path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    outcome = {"outcome": "finished", "verdict": "promote", "why": "good", "folder": ""}
    ledger.record("adopted", 1.0, {"champion": "1"})
    ledger.record("started", 2.0, {"running": vars(RUNNING), "noticed": {}})
    ledger.record("frozen", 3.0, {"found": "3", "expected": "1", "why": "somebody"})
    ledger.record("ended", 4.0, {"running": vars(RUNNING), "ended": outcome})
    known = known_from(ledger.entries())
    assert known.promote == "" and known.frozen == Frozen("3", "somebody", 3.0)
    ledger.record("acknowledged", 5.0, {"champion": "3", "by": "ann", "why": "meant"})
    assert known_from(ledger.entries()).champion == "3" and known_from(ledger.entries()).frozen is None

    ledger.record("ended", 6.0, {"running": vars(RUNNING), "ended": outcome | {"verdict": "rollback", "why": "slow"}})
    assert known_from(ledger.entries()).latched == {"r2": "slow"}
    ledger.clear("r2", "ann", "fixed", 7.0)
    assert known_from(ledger.entries()).latched == {}
    assert ledger.refusal("r2") is None and ledger.verify() == []


def test_entries_of_other_kinds_are_passed_over() -> None:
    assert known_from([Entry(0, "decision", 0.0, "", {}, "")]) == Known()
