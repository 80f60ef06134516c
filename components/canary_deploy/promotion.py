"""The rollout of what the registry names: fetch champion and challenger, compare them live, move the aliases.

`canary` is set when the rollout starts. `champion` moves only after the verdict, and only when it says promote.
"""

from pathlib import Path

from components.canary_deploy.run import run
from components.canary_deploy.settings import Settings
from components.integrations.metrics import Metric, read_json
from components.integrations.progress import Progress
from components.integrations.registry import Registry
from components.integrations.task import stored_folder
from components.integrations.tracking import Tracking


def roll_out(
    *,
    registration: Path,
    merchant: Path,
    tracking_uri: str,
    experiment: str,
    cache: Path,
    output: Path,
    settings: Settings,
    seed: int,
    progress: Progress,
) -> dict[str, Metric]:
    """Roll out the challenger of `registration` (the registration step's folder) against its champion; see run.run.

    Raises SystemFault when the registry or the store fails.
    """
    registered = read_json(registration / "registration.json")
    folders = {arm: stored_folder(registered[arm]["uri"], cache) for arm in ("champion", "challenger")}
    version = registered["challenger"]["version"]
    registry = Registry(Tracking(tracking_uri, experiment), str(output))  # moves aliases: nothing is stored
    with registry.changes() as changes:
        changes.set_alias("canary", version)
        progress.note(f"alias canary: version {version}")
        metrics = run(**folders, merchant=merchant, output=output, settings=settings, seed=seed, progress=progress)
        if read_json(output / "canary.json")["verdict"] == "promote":
            changes.set_alias("champion", version)
            progress.note(f"alias champion: version {version}")
    return metrics
