"""When the gate trains, and that its snapshot is whole. The champion is the oracle behind a model's interface."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from components.avatar.errors import InputError
from components.avatar.simulator.merchant import load_merchant
from components.harness_gate import run as gate
from components.harness_gate.settings import Settings
from components.integrations.metrics import Metric
from components.integrations.progress import Progress
from components.integrations.registry import Registered

MERCHANT = Path(__file__).parents[3] / "infra/harnesses/lumi-beauty"
CHAMPION = Registered("3", arm="hat", uri="/m", model_digest="", release_digest="", tags={"harness_digest": "old"})


@pytest.fixture(scope="module")
def world():
    return load_merchant(MERCHANT)


def decide(world, champion, settings):
    return gate.decide(world, champion, settings, 0, Path("/nowhere"), Progress("harness_gate"))


def test_without_a_champion_every_run_trains(world):
    for mode in ("always", "measure"):
        retrain, why, _ = decide(world, None, Settings(mode=mode))
        assert retrain and "no champion" in why


def test_an_unchanged_harness_trains_only_in_mode_always(world):
    same = replace(CHAMPION, tags={"harness_digest": world.harness.digest})
    assert decide(world, same, Settings(mode="always"))[0]
    retrain, why, _ = decide(world, same, Settings(mode="measure"))
    assert not retrain and "version 3" in why


@pytest.mark.parametrize(("quality", "retrain"), [(0.84, True), (0.85, False), (0.99, False)])
def test_an_edited_harness_trains_when_the_champion_falls_below_the_limit(world, monkeypatch, quality, retrain):
    monkeypatch.setattr(gate, "measure", lambda *_: Metric(quality, 120))
    decided, why, metrics = decide(world, CHAMPION, Settings(mode="measure", min_quality=0.85))
    assert decided is retrain
    assert f"{quality:.3f} (n=120)" in why and metrics["champion_quality"].value == quality


def step(merchant, tmp_path, output):
    output.mkdir(exist_ok=True)
    return gate.run(
        merchant=merchant,
        tracking_uri=f"sqlite:///{tmp_path}/mlflow.db",
        experiment="e",
        cache=tmp_path,
        output=output,
        settings=Settings(),
        seed=0,
        progress=Progress("harness_gate"),
    )


def test_the_snapshot_is_the_folder_and_later_edits_do_not_reach_it(tmp_path, world):
    metrics = step(MERCHANT, tmp_path, tmp_path / "out")
    decision = json.loads((tmp_path / "out/gate.json").read_text())
    assert decision == {"retrain": True, "why": "there is no champion yet", "harness_digest": world.harness.digest}
    assert load_merchant(tmp_path / "out/merchant").digest == world.digest and metrics["retrain"].value == 1


def test_a_broken_folder_says_all_its_faults_before_anything_is_written(tmp_path):
    (tmp_path / "merchant").mkdir()
    with pytest.raises(InputError) as caught:
        step(tmp_path / "merchant", tmp_path, tmp_path / "out")
    assert {"harness.yaml", "tools.json", "catalogue.jsonl"} <= {Path(fault.file).name for fault in caught.value.faults}
    assert not any((tmp_path / "out").iterdir())
