"""The harness gate: is this edit of the harness a reason to train at all?

    python -m components.harness_gate --merchant infra/harnesses/lumi-beauty --tracking-uri sqlite:////tmp/mlflow.db \
        --experiment harness-aware-training --output OUT
"""

import shutil
from pathlib import Path

from components.avatar.simulator.merchant import load_merchant
from components.harness_gate.settings import Settings
from components.integrations.metrics import Metric, write_json
from components.integrations.progress import Progress
from components.integrations.registry import Registered, Registry
from components.integrations.tracking import Tracking


def run(
    *,
    merchant: Path,
    tracking_uri: str,
    experiment: str,
    output: Path,
    settings: Settings,
    seed: int,
    progress: Progress,
) -> dict[str, Metric]:
    """Validate the folder `merchant`, snapshot it as `output/merchant`, and write the decision to `output/gate.json`.

    All later steps read the snapshot, so an edit during the run cannot reach half of them. Raises InputError with all
    faults of the folder, SystemFault when the registry cannot be reached.
    """
    world = load_merchant(merchant)
    shutil.copytree(merchant, output / "merchant")
    current = Registry(Tracking(tracking_uri, experiment), str(output)).champion()  # reads only: nothing is stored
    digest = world.harness.digest
    why = f"mode {settings.mode}: every run trains; {compare(digest, current)}"
    progress.note(f"harness {digest}: {why}")
    write_json(output / "gate.json", {"retrain": True, "why": why, "harness_digest": digest})
    return {"retrain": Metric(1.0, 1)}


def compare(digest: str, current: Registered | None) -> str:
    """How the harness at hand relates to the one that the champion was trained on, in words."""
    if current is None:
        return "there is no champion yet"
    trained_on = current.tags.get("harness_digest", "")
    if trained_on == digest:
        return f"champion version {current.version} was trained on this very harness"
    return f"champion version {current.version} was trained on harness {trained_on or 'unknown'}"
