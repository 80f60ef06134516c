"""A rollout of one version of the registry against another, which asks at each decision where the aliases are."""

from collections.abc import Callable
from pathlib import Path

from components.avatar.errors import SystemFault
from components.canary_deploy.promotion_registry import PromotionRegistry
from components.canary_deploy.reconciler import FROZEN, Version
from components.canary_deploy.run import ReadBack, compare
from components.canary_deploy.settings import Settings
from components.integrations.metrics import Metric
from components.integrations.progress import Progress
from components.integrations.task import stored_folder


class Withdrawn(Exception):
    """The rollout is to stop without a verdict: its alias is gone, or its controller ends."""


def roll_out_versions(
    *,
    champion: Version,
    canary: Version,
    output: Path,
    read_back: ReadBack,
    merchant: Path,
    cache: Path,
    settings: Settings,
    seed: int,
) -> dict[str, Metric]:
    """Roll out one version of the registry against another; touches no alias. Raises what `read_back` raises."""
    old, new = (stored_folder(version.tags["uri"], cache) for version in (champion, canary))
    progress = Progress("canary", output / "progress.jsonl")
    return compare(old, new, merchant, output, settings, seed, progress, read_back)


def read_back(
    registry: PromotionRegistry, champion: str, canary: str, stop: Callable[[], str] = lambda: ""
) -> ReadBack:
    """Asks the registry which versions bear the aliases now; see run.ReadBack. A freeze counts as a moved champion.

    `stop` tells why the rollout is to end ("": it is not); then Withdrawn is raised.
    """

    def read(canary_release: str, champion_release: str) -> tuple[str | None, str | None]:
        why = stop()
        if why:
            raise Withdrawn(why)
        try:
            seen = registry.look()
        except SystemFault:
            return None, None  # not read: blocks a promotion, stops nothing
        found = _named(seen.champion, champion, champion_release)
        if seen.tags.get(FROZEN):
            found = "what a person moved it to, not acknowledged yet"
        return _named(seen.canary, canary, canary_release), found

    return read


def _named(seen: Version | None, expected: str, release: str) -> str:
    if seen is None:
        return "no version"
    return release if seen.number == expected else f"version {seen.number}"
