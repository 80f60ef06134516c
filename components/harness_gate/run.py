"""The harness gate: is this edit of the harness a reason to train at all?

    python -m components.harness_gate --merchant infra/harnesses/lumi-beauty --tracking-uri sqlite:////tmp/mlflow.db \
        --experiment harness-aware-training --cache .cache --output OUT
"""

import shutil
from pathlib import Path

from components.avatar.simulator.merchant import Merchant, load_merchant
from components.harness_gate.measure import measure
from components.harness_gate.settings import Settings
from components.integrations.metrics import Metric, write_json
from components.integrations.progress import Progress
from components.integrations.registry import Registered, Registry
from components.integrations.task import stored_folder
from components.integrations.tracking import Tracking


def run(
    *,
    merchant: Path,
    tracking_uri: str,
    experiment: str,
    cache: Path,
    output: Path,
    settings: Settings,
    seed: int,
    progress: Progress,
) -> dict[str, Metric]:
    """Validate the folder `merchant`, snapshot it as `output/merchant`, and write the decision to `output/gate.json`.

    All later steps read the snapshot, so an edit during the run cannot reach half of them. `cache` is where a champion
    from an object store is fetched to. Raises InputError with all faults of the folder, SystemFault when the registry
    cannot be reached.
    """
    world = load_merchant(merchant)
    shutil.copytree(merchant, output / "merchant")
    champion = Registry(Tracking(tracking_uri, experiment), str(output)).champion()  # reads only: nothing is stored
    retrain, why, metrics = decide(world, champion, settings, seed, cache, progress)
    progress.note(f"harness {world.harness.digest}: {why}")
    write_json(output / "gate.json", {"retrain": retrain, "why": why, "harness_digest": world.harness.digest})
    return {"retrain": Metric(float(retrain), 1), **metrics}


def decide(
    world: Merchant, champion: Registered | None, settings: Settings, seed: int, cache: Path, progress: Progress
) -> tuple[bool, str, dict[str, Metric]]:
    """Whether to retrain, why, and what was measured."""
    if champion is None:
        return True, "there is no champion yet", {}
    trained_on = champion.tags.get("harness_digest", "unknown")
    same = trained_on == world.harness.digest
    known = f"champion version {champion.version} was trained on " + ("this very harness" if same else trained_on)
    if settings.mode == "always":
        return True, f"mode always: every run trains; {known}", {}
    if same:
        return False, f"nothing changed: {known}", {}
    quality = measure(stored_folder(champion.uri, cache), world, settings, seed, progress)
    retrain = quality.value < settings.min_quality
    why = (
        f"champion version {champion.version} has quality {quality.value:.3f} (n={quality.n}) on the edited harness, "
        f"{'below' if retrain else 'at least'} {settings.min_quality:g}"
    )
    return retrain, why, {"champion_quality": quality}
