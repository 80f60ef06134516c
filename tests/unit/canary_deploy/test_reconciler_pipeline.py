"""The pipeline's own rollout beside promote-watch: each sees what the other does. A real registry in sqlite."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from components.avatar.errors import SystemFault
from components.canary_deploy import promotion
from components.canary_deploy.inbox import Inbox
from components.canary_deploy.promotion import roll_out
from components.canary_deploy.promotion_controller import Controller
from components.canary_deploy.promotion_registry import PromotionRegistry
from components.canary_deploy.promotion_rollout import read_back
from components.canary_deploy.promotion_state import known_from
from components.canary_deploy.reconciler import BY, CONTROLLER, FROZEN, STATE, VERDICT, WHY
from components.canary_deploy.settings import Settings
from components.integrations.metrics import Metric, write_json
from components.integrations.progress import Progress
from components.integrations.registry import Lineage, Registry
from components.integrations.release import release_of
from components.integrations.tracking import Tracking

MODEL = "avatar-agent"


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory) -> Path:
    """Creating MLflow's tables takes seconds: once."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    Tracking(f"sqlite:///{path}", "avatar")
    return path


class Pipeline:
    """Two registered versions, the first of which is champion, and the step on them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.uri = folder, f"sqlite:///{folder}/mlflow.db"
        self.tracking = Tracking(self.uri, "avatar")
        self.client = self.tracking.client
        self.marks = PromotionRegistry(self.tracking)
        made = [self.register(number) for number in (1, 2)]
        self.client.set_registered_model_alias(MODEL, "champion", "1")
        write_json(
            folder / "registration" / "registration.json",
            {"champion": asdict(made[0]), "challenger": asdict(made[1]), "model_version": "2"},
        )

    def register(self, number: int):
        folder = self.folder / "models" / f"{number}"
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"model": number}))
        lineage = Lineage(harness_digest="h", data_digest="d", code_version="c", pipeline_run="run-7")
        with Registry(self.tracking, str(self.folder / "store")).changes() as changes:
            return changes.register(folder, arm="hat", release=release_of(folder), lineage=lineage)

    def run(self) -> None:
        roll_out(
            registration=self.folder / "registration",
            merchant=self.folder,
            tracking_uri=self.uri,
            experiment="avatar",
            cache=self.folder / "cache",
            output=self.folder / "out",
            settings=Settings(),
            seed=0,
            progress=Progress("canary_deploy"),
        )

    def controller(self) -> Controller:
        def never(**_) -> dict[str, Metric]:
            raise AssertionError("the pipeline has rolled it out")

        return Controller(self.folder / "watch", Inbox(self.folder / "watch" / "inbox.db"), lambda: self.marks, never)

    @property
    def aliases(self) -> dict[str, str]:
        return {alias: str(number) for alias, number in self.client.get_registered_model(MODEL).aliases.items()}

    def tags(self, version: str = "2") -> dict[str, str]:
        return self.client.get_model_version(MODEL, version).tags


@pytest.fixture
def pipeline(tmp_path: Path, empty_database: Path) -> Pipeline:
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return Pipeline(tmp_path)


def live(monkeypatch, verdict: str, during: Callable[[], object] = lambda: None) -> list[tuple]:
    """In place of the two agent services and the router: what the decisions read back."""
    seen: list[tuple] = []

    def compare(champion, challenger, merchant, output, settings, seed, progress, read_back) -> dict[str, Metric]:
        assert json.loads((champion / "config.json").read_text()) == {"model": 1}
        assert json.loads((challenger / "config.json").read_text()) == {"model": 2}
        seen.append(read_back("new", "old"))
        during()
        seen.append(read_back("new", "old"))
        write_json(output / "canary.json", {"verdict": verdict, "why": "said by the evidence"})
        return {"promoted": Metric(1.0, 1)}

    monkeypatch.setattr(promotion, "compare", compare)
    return seen


def test_a_pipelines_promotion_is_told_and_does_not_freeze_the_controller(pipeline: Pipeline, monkeypatch) -> None:
    controller = pipeline.controller()

    def during() -> None:
        assert pipeline.aliases == {"champion": "1", "canary": "2"}
        assert (pipeline.tags()[STATE], pipeline.tags()[BY]) == ("running", "pipeline")
        controller.look()  # sees the alias, and whose it is

    seen = live(monkeypatch, "promote", during)
    pipeline.run()
    assert seen == [("new", "old"), ("new", "old")]
    assert pipeline.aliases == {"champion": "2", "canary": "2"}
    assert (pipeline.tags()[STATE], pipeline.tags()[VERDICT]) == ("finished", "promote")
    assert pipeline.tags()["canary.rollout"] == "pipeline-run-7"
    controller.look()
    known = known_from(controller.ledger.entries())
    assert (known.champion, known.frozen, known.rollouts) == ("2", None, 0)


@pytest.mark.parametrize("verdict", ["hold", "rollback"])
def test_no_promotion_moves_nothing(pipeline: Pipeline, monkeypatch, verdict: str) -> None:
    live(monkeypatch, verdict)
    pipeline.run()
    assert pipeline.aliases == {"champion": "1", "canary": "2"}
    assert (pipeline.tags()[VERDICT], pipeline.tags()[WHY]) == (verdict, "said by the evidence")
    pipeline.controller().look()  # nothing to start


def test_each_decision_asks_the_registry(pipeline: Pipeline, monkeypatch) -> None:
    seen = live(monkeypatch, "hold", lambda: pipeline.client.set_registered_model_alias(MODEL, "champion", "2"))
    pipeline.run()
    assert seen == [("new", "old"), ("new", "version 2")]

    read = read_back(pipeline.marks, "2", "2")
    assert read("new", "old") == ("new", "old")
    pipeline.client.set_registered_model_tag(MODEL, FROZEN, "moved by hand")
    assert read("new", "old")[0] == "new" and "not acknowledged" in str(read("new", "old")[1])
    pipeline.client.delete_registered_model_alias(MODEL, "canary")
    assert read("new", "old")[0] == "no version"
    monkeypatch.setattr(PromotionRegistry, "look", _down)
    assert read("new", "old") == (None, None)  # not read: no promotion, no reason to stop


def test_a_rollout_that_fails_gives_the_aliases_back_and_says_so(pipeline: Pipeline, monkeypatch) -> None:
    def fails() -> None:
        raise SystemFault("the canary did not get ready")

    live(monkeypatch, "promote", fails)
    with pytest.raises(SystemFault, match="did not get ready"):
        pipeline.run()
    assert pipeline.aliases == {"champion": "1"}
    assert (pipeline.tags()[STATE], pipeline.tags()[WHY]) == ("failed", "the canary did not get ready")
    live(monkeypatch, "promote")
    pipeline.run()  # resumed
    assert pipeline.aliases["champion"] == "2" and pipeline.tags()[WHY] == "said by the evidence"


def test_the_pipeline_waits_for_promote_watch(pipeline: Pipeline, monkeypatch) -> None:
    pipeline.register(3)
    pipeline.client.set_registered_model_alias(MODEL, "canary", "3")
    pipeline.marks.mark("3", {STATE: "running", BY: CONTROLLER})
    seen = live(monkeypatch, "promote")
    with pytest.raises(SystemFault, match="promote-watch rolls version 3 out"):
        pipeline.run()
    assert seen == [] and pipeline.aliases == {"champion": "1", "canary": "3"} and STATE not in pipeline.tags()


def _down(self) -> None:
    raise SystemFault("MLflow is down")
