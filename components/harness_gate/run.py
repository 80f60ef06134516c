"""The harness gate: is this edit of the harness a reason to train at all?

python -m components.harness_gate --merchant infra/harnesses/lumi-beauty --tracking-uri sqlite:////tmp/mlflow.db
--output OUT
"""

import shutil
from pathlib import Path

from components.avatar.simulator.merchant import load_merchant
from components.harness_gate.settings import Settings
from components.integrations.metrics import Metric, write_json
from components.integrations.progress import Progress


def run(
    *, merchant: Path, tracking_uri: str, output: Path, settings: Settings, seed: int, progress: Progress
) -> dict[str, Metric]:
    """Validate the folder `merchant`, snapshot it as `output/merchant`, and write the decision to `output/gate.json`.

    All later steps read the snapshot, so an edit during the run cannot reach half of them. Raises InputError with all
    faults of the folder.
    """
    world = load_merchant(merchant)
    shutil.copytree(merchant, output / "merchant")
    why = "the profile's mode is `always`: every run trains"
    progress.note(f"harness {world.harness.digest}: {why}")
    write_json(output / "gate.json", {"retrain": True, "why": why, "harness_digest": world.harness.digest})
    return {"retrain": Metric(1.0, 1)}
