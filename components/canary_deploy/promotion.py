"""The pipeline's rollout: fetch champion and challenger, compare them live, move the aliases.

`canary` is set when the rollout starts. `champion` moves only after the verdict, and only when it says promote. What a
person starts in MLflow's UI is promotion_controller.py's.
"""

from pathlib import Path

from components.avatar.errors import SystemFault
from components.canary_deploy.promotion_registry import PromotionRegistry
from components.canary_deploy.promotion_rollout import read_back
from components.canary_deploy.reconciler import BY, CONTROLLER, PIPELINE, ROLLOUT, STATE, VERDICT, WHY
from components.canary_deploy.run import compare
from components.canary_deploy.settings import Settings
from components.integrations.metrics import Metric, read_json
from components.integrations.progress import Progress
from components.integrations.registry import Registry
from components.integrations.task import describe, stored_folder
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

    The version's tags tell promote-watch that this rollout is the pipeline's. Raises SystemFault when the registry or
    the store fails, or while promote-watch rolls another version out.
    """
    registered = read_json(registration / "registration.json")
    folders = {arm: stored_folder(registered[arm]["uri"], cache) for arm in ("champion", "challenger")}
    version, champion = registered["challenger"]["version"], registered["champion"]["version"]
    tracking = Tracking(tracking_uri, experiment)
    marks = PromotionRegistry(tracking)
    _nobody_else(marks, version)
    run = registered["challenger"].get("tags", {}).get("pipeline_run") or f"seed-{seed}"
    begun = {STATE: "running", BY: PIPELINE, ROLLOUT: f"{PIPELINE}-{run}", VERDICT: "", WHY: ""}
    try:
        with Registry(tracking, str(output)).changes() as changes:  # moves aliases: nothing is stored
            marks.mark(version, begun)
            changes.set_alias("canary", version)
            progress.note(f"alias canary: version {version}")
            watch = read_back(marks, champion, version)
            metrics = compare(
                **folders, merchant=merchant, output=output, settings=settings, seed=seed, progress=progress,
                read_back=watch,
            )  # fmt: skip
            report = read_json(output / "canary.json")
            marks.mark(version, {STATE: "finished", VERDICT: report["verdict"], WHY: report["why"][:5000]})
            if report["verdict"] == "promote":  # the verdict is on the version before the alias moves: it explains it
                changes.set_alias("champion", version)
                progress.note(f"alias champion: version {version}")
    except BaseException as error:
        try:
            marks.mark(version, {STATE: "failed", VERDICT: "", WHY: describe(error)[:5000]})
        except SystemFault as fault:  # the first failure is the one to be raised
            progress.note(f"could not mark version {version} as failed: {fault}")
        raise
    return metrics


def _nobody_else(registry: PromotionRegistry, version: str) -> None:
    """One rollout at a time. Raises SystemFault."""
    canary = registry.look().canary
    runs = canary and (canary.tags.get(BY), canary.tags.get(STATE)) == (CONTROLLER, "running")
    if canary and runs and canary.number != version:
        raise SystemFault(
            f"promote-watch rolls version {canary.number} out; resume when it has ended, or remove the alias canary "
            "from that version to stop it"
        )
