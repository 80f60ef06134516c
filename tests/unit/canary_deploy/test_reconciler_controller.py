"""The controller on a registry in memory, with a fault at each single call: down, a reply lost, garbage."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from components.avatar.errors import SystemFault
from components.canary_deploy.inbox import Delivery, Inbox
from components.canary_deploy.promotion_controller import Controller
from components.canary_deploy.promotion_registry import PromotionRegistry
from components.canary_deploy.promotion_rollout import Withdrawn
from components.canary_deploy.promotion_state import Known, known_from
from components.canary_deploy.reconciler import ACKNOWLEDGE, FROZEN, STATE, VERDICT, WHY, Version
from components.integrations.metrics import Metric, write_json
from tests.unit.canary_deploy.fake_mlflow import FakeMlflow


class Rollouts:
    """Stands for the live rollout: `verdict` at once, or after `go` is set."""

    def __init__(self, verdict: str = "promote") -> None:
        self.verdict = verdict
        self.played: list[tuple[str, str]] = []
        self.go = threading.Event()
        self.go.set()
        self.seen: list[tuple[str | None, str | None]] = []
        self.error: Exception | None = None

    def __call__(self, *, champion: Version, canary: Version, output: Path, read_back: Callable) -> dict[str, Metric]:
        self.played.append((champion.number, canary.number))
        assert self.go.wait(60)
        if self.error:
            raise self.error
        self.seen.append(read_back("new", "old"))
        write_json(output / "canary.json", {"verdict": self.verdict, "why": "said by the evidence"})
        return {"promoted": Metric(1.0, 1)}


class Scene:
    def __init__(self, folder: Path, mlflow: FakeMlflow, rollouts: Rollouts) -> None:
        self.folder, self.mlflow, self.rollouts = folder, mlflow, rollouts
        self.restart()

    def restart(self) -> None:
        """A new controller on the old state, as after a kill."""
        self.inbox = Inbox(self.folder / "inbox.db")
        self.controller = Controller(self.folder, self.inbox, self.mlflow.registry, self.rollouts, clock=lambda: 1000.0)

    def settle(self, tries: int = 1) -> None:
        """Look until nothing more follows; a look that fails is repeated, as Controller.run does."""
        for attempt in range(tries):
            try:
                self.controller.look()
                self.join()
                self.controller.look()
                return
            except SystemFault as error:
                assert "MLflow at http://mlflow" in str(error)
                if attempt == tries - 1:
                    raise

    def join(self) -> None:
        for thread in threading.enumerate():
            if thread.name.startswith("avatar-agent-v"):
                thread.join(60)

    @property
    def known(self) -> Known:
        return known_from(self.controller.ledger.entries())

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.controller.ledger.entries()]

    def tags(self, version: str) -> dict[str, str]:
        return self.mlflow.versions[version]["tags"]


def shop(**fault) -> FakeMlflow:
    mlflow = FakeMlflow(**fault)
    for number in "123":
        mlflow.add_version(number)
    mlflow.aliases = {"champion": "1"}
    return mlflow


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, shop(), Rollouts())


def test_a_person_sets_canary_and_the_better_version_becomes_champion(scene: Scene) -> None:
    scene.settle()
    assert scene.kinds() == ["adopted"]
    scene.mlflow.aliases["canary"] = "2"
    scene.inbox.put(Delivery("d1", "created", "canary", "2", 998.5, 998.6))
    scene.settle()
    assert scene.kinds() == ["adopted", "started", "ended", "moving", "moved", "published"]
    assert scene.rollouts.played == [("1", "2")] and scene.rollouts.seen == [("new", "old")]
    assert scene.mlflow.aliases == {"champion": "2", "canary": "2"}
    noticed = list(scene.controller.ledger.entries())[1].body["noticed"]
    assert noticed == {"by": "webhook", "delivery": "d1", "seconds": 1.5}
    assert scene.inbox.waiting() == []

    tags = scene.tags("2")
    assert (tags[STATE], tags[VERDICT], tags["canary.rollout"]) == ("finished", "promote", "avatar-agent-v2-1")
    run = scene.mlflow.runs[tags["canary.run"]]
    assert run.info.status == "FINISHED" and run.data.metrics["promoted"] == 1.0 and "canary.json" in run.files
    assert run.data.tags[STATE] == "finished" and run.data.tags[VERDICT] == "promote"
    assert run.data.tags["model_version"] == "2"
    assert "(#/models/avatar-agent/versions/2)" in run.data.tags["mlflow.note.content"]

    for _ in range(3):  # the same version twice, and its own webhook coming back
        scene.settle()
    assert len(scene.rollouts.played) == 1 and scene.controller.ledger.verify() == []


def test_a_rollout_that_is_not_better_moves_nothing_and_is_latched(scene: Scene) -> None:
    scene.rollouts.verdict = "rollback"
    scene.mlflow.aliases["canary"] = "2"
    scene.settle()
    assert scene.mlflow.alias_writes == [] and scene.tags("2")[VERDICT] == "rollback"
    scene.mlflow.aliases.pop("canary")
    scene.settle()
    scene.mlflow.aliases["canary"] = "2"
    scene.settle()
    assert scene.tags("2")[STATE] == "refused" and "rolled back (said by the evidence)" in scene.tags("2")[WHY]
    assert VERDICT not in scene.tags("2")
    scene.controller.ledger.clear("release2", "ann", "fixed", 1.0)
    scene.mlflow.aliases.pop("canary")
    scene.settle()
    scene.rollouts.verdict = "hold"
    scene.mlflow.aliases["canary"] = "2"
    scene.settle()
    assert scene.tags("2")[VERDICT] == "hold" and len(scene.rollouts.played) == 2


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"passed": False}, "gate t1 failed: T1 0.2 of 0.5"),
        ({"status": "PENDING_REGISTRATION"}, "its state is PENDING_REGISTRATION, not READY"),
        ({"status": "FAILED_REGISTRATION"}, "not READY"),
        ({"run_id": ""}, "no gate judged it"),
        ({"run_id": "run1"}, "judged another version"),
        ({"run_id": "deleted"}, "no registration has ended"),
        ({"tags": {}}, "its tags name no stored model"),
        ({"tags": {"uri": "/models/1", "release_digest": "release1"}}, "same release as champion version 1"),
    ],
)
def test_a_version_that_may_not_go_on_air_is_told_why(scene: Scene, changed: dict, why: str) -> None:
    scene.mlflow.add_version("4", **changed)
    scene.mlflow.aliases["canary"] = "4"
    scene.settle()
    assert scene.tags("4")[STATE] == "refused" and why in scene.tags("4")[WHY]
    assert scene.rollouts.played == [] and scene.kinds() == ["adopted", "refused"]
    scene.settle()
    assert scene.kinds() == ["adopted", "refused"]  # once


def test_no_champion_and_the_champion_itself_are_refused(scene: Scene) -> None:
    scene.mlflow.aliases = {"champion": "1", "canary": "1"}
    scene.settle()
    assert "it is the champion already" in scene.tags("1")[WHY]
    scene.mlflow.aliases = {}
    scene.settle()
    assert scene.known.frozen  # somebody took champion away
    other = Scene(scene.folder / "other", shop(), Rollouts())
    other.mlflow.aliases = {"canary": "2"}
    other.settle()
    assert "no champion" in other.tags("2")[WHY]


def test_one_rollout_at_a_time_and_the_next_waits(scene: Scene) -> None:
    scene.rollouts.go.clear()
    scene.mlflow.aliases["canary"] = "2"
    scene.controller.look()
    scene.mlflow.aliases["canary"] = "3"  # a person changes their mind
    scene.controller.look()
    assert scene.known.running and "on version 3" in scene.known.running.withdrawn
    assert scene.tags("3")[STATE] == "waiting" and "version 2 runs" in scene.tags("3")[WHY]
    assert scene.rollouts.played == [("1", "2")]
    scene.rollouts.go.set()
    scene.settle()
    scene.settle()
    assert scene.tags("2")[STATE] == "withdrawn" and VERDICT not in scene.tags("2")
    assert scene.rollouts.played == [("1", "2"), ("1", "3")]
    assert scene.tags("3")[STATE] == "finished" and scene.mlflow.aliases["champion"] == "3"


def test_champion_moved_by_hand_during_a_rollout_freezes_until_acknowledged(scene: Scene) -> None:
    scene.rollouts.go.clear()
    scene.mlflow.aliases["canary"] = "2"
    scene.controller.look()
    run_id = scene.tags("2")["canary.run"]
    scene.mlflow.aliases["champion"] = "3"
    scene.controller.look()
    frozen = scene.known.frozen
    assert frozen and "to version 3 by hand (version 1 was expected), during the rollout of version 2" in frozen.why
    assert scene.mlflow.tags[FROZEN] == scene.tags("3")[FROZEN] == frozen.why
    assert scene.mlflow.runs[run_id].data.tags[FROZEN] == frozen.why

    scene.rollouts.go.set()
    scene.settle()
    assert scene.rollouts.seen[0][1] != "old"  # the decision saw a moved champion, and would hold
    assert scene.mlflow.alias_writes == []  # although this one says promote
    assert "not promoted" in scene.tags("2")[WHY] and scene.known.champion == "1"
    scene.mlflow.aliases["canary"] = "1"
    scene.settle()
    assert scene.tags("1")[STATE] == "waiting" and "frozen" in scene.tags("1")[WHY]

    scene.mlflow.tags[ACKNOWLEDGE] = "ann"
    scene.rollouts.verdict = "hold"
    scene.settle()
    assert scene.known.frozen is None and scene.known.champion == "3"
    assert scene.mlflow.tags == {} and FROZEN not in scene.tags("3")
    entry = next(e for e in scene.controller.ledger.entries() if e.kind == "acknowledged")
    assert entry.body["by"] == "ann"
    scene.settle()
    assert scene.rollouts.played[-1] == ("3", "1")  # what waited starts, against the new champion


def test_a_killed_controller_starts_its_rollout_anew_and_gives_up_at_last(scene: Scene) -> None:
    scene.rollouts.go.clear()
    scene.mlflow.aliases["canary"] = "2"
    scene.controller.look()
    for _ in range(2):
        scene.controller.stop()
        scene.restart()
        scene.controller.look()
    assert scene.known.running and scene.known.running.attempt == 3
    assert scene.known.rollouts == 1 and len([r for r in scene.mlflow.runs if r.startswith("canary-run")]) == 1
    scene.controller.stop()
    scene.restart()
    scene.controller.look()
    assert scene.tags("2")[STATE] == "failed" and "3 times" in scene.tags("2")[WHY]
    scene.rollouts.error = Withdrawn("the controller stops")
    scene.rollouts.go.set()
    scene.join()


@pytest.mark.parametrize("error", [SystemFault("the canary did not get ready"), OSError(28, "full"), ValueError("bug")])
def test_a_rollout_that_fails_is_told(scene: Scene, error: Exception) -> None:
    scene.rollouts.error = error
    scene.mlflow.aliases["canary"] = "2"
    scene.settle()
    assert scene.tags("2")[STATE] == "failed" and scene.tags("2")[WHY]
    assert scene.mlflow.runs[scene.tags("2")["canary.run"]].info.status == "FAILED"
    assert scene.mlflow.alias_writes == []


def test_what_a_person_deletes_meanwhile_stops_nothing(scene: Scene) -> None:
    scene.rollouts.go.clear()
    scene.mlflow.aliases["canary"] = "2"
    scene.controller.look()
    scene.mlflow.runs[scene.tags("2")["canary.run"]].info.lifecycle_stage = "deleted"
    del scene.mlflow.versions["2"], scene.mlflow.aliases["canary"]
    scene.controller.look()
    scene.rollouts.go.set()
    scene.settle()
    assert scene.kinds()[-2:] == ["published", "released"]


FAULTS = ("down", "no_reply", "garbage")


def faultless(folder: Path) -> tuple[FakeMlflow, list[str]]:
    scene = Scene(folder, shop(), Rollouts())
    scene.mlflow.aliases["canary"] = "2"
    scene.settle()
    return scene.mlflow, scene.kinds()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("restart", [False, True], ids=["goes on", "is killed"])
def test_a_fault_at_any_call_ends_as_without_it(tmp_path: Path, fault: str, restart: bool) -> None:
    """From the person's click to the new champion: after a fault at call n the look is repeated, by this controller or
    by a new one, and the registry ends up the same."""
    good, kinds = faultless(tmp_path / "good")
    assert len(good.calls) > 40
    for n in range(len(good.calls)):
        scene = Scene(tmp_path / f"{n}", shop(fault=fault, fault_at=n), Rollouts())
        scene.mlflow.aliases["canary"] = "2"
        try:
            scene.settle()
        except SystemFault:
            assert scene.mlflow.aliases["champion"] in ("1", "2")
        scene.join()
        if restart:
            scene.restart()
        scene.settle(tries=2)
        where = f"{fault} at call {n}, {good.calls[n]}"
        assert scene.mlflow.aliases == {"champion": "2", "canary": "2"}, where
        assert scene.mlflow.alias_writes.count(("champion", "2")) <= 2, where
        assert len(scene.rollouts.played) == 1, where
        assert len([run for run in scene.mlflow.runs if run.startswith("canary-run")]) <= 2, where
        assert (scene.tags("2")[STATE], scene.tags("2")[VERDICT]) == ("finished", "promote"), where
        assert [kind for kind in scene.kinds() if kind not in ("moving",)] == [
            kind for kind in kinds if kind != "moving"
        ], where


@pytest.mark.parametrize("fault", FAULTS)
def test_a_freeze_is_said_whatever_call_fails(tmp_path: Path, fault: str) -> None:
    def scene_of(folder: Path, **faults) -> Scene:
        scene = Scene(folder, shop(**faults), Rollouts())
        scene.controller.ledger.record("adopted", 0.0, {"champion": "1", "why": "first sight"})
        scene.mlflow.aliases["champion"] = "3"
        return scene

    good = scene_of(tmp_path / "good")
    good.settle()
    assert good.tags("3")[FROZEN]
    for n in range(len(good.mlflow.calls)):
        scene = scene_of(tmp_path / f"{n}", fault=fault, fault_at=n)
        scene.settle(tries=2)
        assert scene.known.frozen and scene.mlflow.alias_writes == []
        assert scene.mlflow.tags[FROZEN] == scene.tags("3")[FROZEN] == scene.known.frozen.why
        assert scene.kinds() == ["adopted", "frozen"]


def test_the_loop_outlives_a_server_that_is_down_and_starts_late(tmp_path: Path, capsys) -> None:
    mlflow, rollouts = shop(), Rollouts()
    mlflow.aliases["canary"] = "2"
    refusals = iter([SystemFault("MLflow at http://mlflow: connection refused"), KeyError("a bug")])
    subscribed: list[PromotionRegistry] = []

    def connect() -> PromotionRegistry:
        for error in refusals:
            raise error
        return mlflow.registry()

    controller = Controller(tmp_path, Inbox(tmp_path / "inbox.db"), connect, rollouts, subscribed.append)
    loop = threading.Thread(target=controller.run, args=(0.01,))
    loop.start()
    for _ in range(6000):
        if "published" in [entry.kind for entry in controller.ledger.entries()]:
            break
        loop.join(0.01)
    controller.stop()
    loop.join(60)
    assert not loop.is_alive()
    assert mlflow.aliases["champion"] == "2" and len(subscribed) == 1
    said = capsys.readouterr()
    assert "trouble, trying again: MLflow at http://mlflow: connection refused" in said.out
    assert "KeyError" in said.err and "all is well again" in said.out
    assert controller.health() == {
        "ready": True, "trouble": "", "champion": "2", "rollout": "", "frozen": "", "waiting": 0,
    }  # fmt: skip


def test_who_sees_that_a_rollout_has_ended_finds_how() -> None:
    mlflow = FakeMlflow()
    mlflow.add_version("2")
    mlflow.registry().mark("2", {STATE: "finished", VERDICT: "hold", WHY: "no difference"})
    assert list(mlflow.versions["2"]["tags"])[-3:] == [VERDICT, WHY, STATE]  # in the order in which they were written
