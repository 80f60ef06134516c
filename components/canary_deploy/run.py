"""The canary: rolls the challenger out to simulated live rooms beside the champion, decides by the evidence, applies
the verdict.

    python -m components.canary_deploy.run --champion DIR --challenger DIR --merchant DIR --output OUT [--settings
    FILE|JSON]

A rollout on a cluster lasts days and is run by a controller; this step plays one in compressed time and waits for its
verdict.
"""

import math
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np

from components.canary_deploy.agent_service import ServerArguments, release_digest
from components.canary_deploy.assignment import Arm
from components.canary_deploy.decision import Decision, estimates
from components.canary_deploy.evidence import Rooms
from components.canary_deploy.live import LiveResult, LiveRollout, Rollout, serving
from components.canary_deploy.live_merchant import edit, open_live_folder
from components.canary_deploy.settings import Settings
from components.canary_deploy.statistics import Scale
from components.integrations.metrics import Metric, write_json
from components.integrations.progress import Progress
from components.integrations.weights import check_model_folder

ReadBack = Callable[[str, str], tuple[str | None, str | None]]
"""From the releases that the folders of canary and champion make now, to what the aliases `canary` and `champion` name
now: those releases while the aliases are where the rollout found them, else the name of what they moved to; None when
they cannot be read."""

METHOD = (
    "Both arms ran as HTTP services behind the router; viewers and clock are simulated. Each arm generated its reply "
    "to each question of the deck once for each state of the harness (replies_generated); rooms that repeated a "
    "question got that reply again, with the latency of its generation (replies_reused). `latency_ms` counts "
    "generated replies only."
)


def run(
    *, champion: Path, challenger: Path, merchant: Path, output: Path, settings: Settings, seed: int, progress: Progress
) -> dict[str, Metric]:
    """Compare two model folders on a merchant's stream; writes canary.json, events.jsonl and ledger.jsonl.

    Raises InputError for a bad folder, SystemFault when a server or the router fails for a reason of our own.
    """
    return compare(champion, challenger, merchant, output, settings, seed, progress)


def compare(
    champion: Path,
    challenger: Path,
    merchant: Path,
    output: Path,
    settings: Settings,
    seed: int,
    progress: Progress,
    read_back: ReadBack | None = None,
) -> dict[str, Metric]:
    """`run`, with `read_back` asked at each decision where the registry's aliases point. Without one the folders are
    what `canary` and `champion` name."""
    for folder in (champion, challenger):
        check_model_folder(folder)
    live_folder = output / "live_merchant"
    world = open_live_folder(merchant, live_folder)
    name = f"{world.name}-{seed}"
    salt = f"{name}/{world.harness.digest}"
    arguments = ServerArguments(
        decoding=settings.decoding, max_new_tokens=settings.max_new_tokens, max_context=settings.max_context
    )
    limits = httpx.Limits(max_connections=4 * settings.concurrent_rooms)
    timeout = 2 * settings.turn_timeout_s + 30  # both arms may have to be asked
    progress.note("starting two agent services and the router")
    with (
        serving(
            champion=champion,
            challenger=challenger,
            merchant=live_folder,
            output=output,
            settings=settings,
            name=name,
            salt=salt,
        ) as (router_url, canary_release, champion_release, crashes),
        httpx.Client(timeout=timeout, limits=limits, trust_env=False) as client,
    ):
        progress.note("both arms answer", champion=champion_release, canary=canary_release)
        rollout = Rollout(
            name=name,
            salt=salt,
            router_url=router_url,
            canary_release=canary_release,
            champion_release=champion_release,
            crashes=crashes,
            aliases=_aliases(_watch_folders(challenger, champion, arguments), read_back),
            edit=lambda: edit(merchant, live_folder),
        )
        result = LiveRollout(rollout, world, output, settings, seed, progress, client).run()
    progress.note(f"verdict: {result.decision.verdict}: {result.decision.why}")
    report = summary(result, settings, rollout)
    write_json(output / "canary.json", report)
    return _metrics(result, report)


def _aliases(
    folders: Callable[[], tuple[str, str]], read_back: ReadBack | None
) -> Callable[[], tuple[str | None, str | None]]:
    return folders if read_back is None else lambda: read_back(*folders())


def _watch_folders(challenger: Path, champion: Path, arguments: ServerArguments) -> Callable[[], tuple[str, str]]:
    """Releases that the two folders make *now*: a folder that changes under a rollout is another release. Weights are
    read again only when a file's size or time has changed."""
    known: dict[Path, tuple[list[tuple[str, int, int]], str]] = {}

    def read(folder: Path) -> str:
        stats = [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(folder.rglob("*"))]
        if folder not in known or known[folder][0] != stats:
            known[folder] = stats, release_digest(folder, arguments)
        return known[folder][1]

    return lambda: (read(challenger), read(champion))


def summary(result: LiveResult, settings: Settings, rollout: Rollout) -> dict:
    """canary.json."""
    decision, evidence = result.decision, result.evidence
    found = estimates(evidence, settings.canary)
    generated = sum(not reply.reused for reply in result.served)
    return {
        "verdict": str(decision.verdict),
        "why": decision.why,
        "step": decision.step,
        "checks": decision.to_json()["checks"],
        "arms": {
            "canary": _arm(evidence.canary, Arm.CANARY, rollout.canary_release, result),
            "control": _arm(evidence.control, Arm.CONTROL, rollout.champion_release, result),
        },
        "effects": {name: _effect(estimate) for name, estimate in found.items()},
        "looks": [
            {
                "rooms": look.rooms,
                "share": look.share,
                "at_s": look.decision.at,
                "verdict": str(look.decision.verdict),
                "step": look.decision.step,
                "why": look.decision.why,
                "fraction": look.decision.fraction,
                "look": look.decision.look,
            }
            for look in result.looks
        ],
        "method": METHOD,
        "replies_generated": generated,
        "replies_reused": len(result.served) - generated,
        "replies_failed": result.unanswered,
        "rooms": result.rooms,
        "simulated_days": round(decision.at / 86_400, 2),
        "seconds": round(result.seconds, 1),
        "harness_digests": list(dict.fromkeys(result.harness_digests)),
        "strata": list(evidence.strata),
        "traffic": result.traffic.model_dump(mode="json"),
        "config": settings.canary.model_dump(mode="json"),
    }


def _arm(rooms: Rooms, arm: Arm, release: str, result: LiveResult) -> dict:
    """What happened in one arm. Latency is that of the release's generated replies, whoever asked (the champion also
    serves sessions outside of the comparison)."""
    latencies = sorted(
        reply.latency_ms
        for reply in result.served
        if reply.release_digest == release and not reply.reused and not reply.fallback
    )
    served = [reply for reply in result.served if reply.arm is arm]
    return {
        "release_digest": release,
        "rooms": len(rooms),
        "viewers": int(rooms.viewers.sum()),
        "replies": int(rooms.replies.sum()),
        "fallbacks": sum(reply.fallback for reply in served),
        "gmv_per_viewer": _ratio(rooms.gmv, rooms.viewers),
        "orders_per_viewer": _ratio(rooms.orders, rooms.viewers),
        "page_views_per_viewer": _ratio(rooms.page_views, rooms.viewers),
        "refund_rate": _ratio(rooms.refunds, rooms.orders),
        "slow_share": _ratio(rooms.slow, rooms.replies),
        "tool_error_rate": _ratio(rooms.tool_errors, rooms.replies),
        "violation_rate": _ratio(rooms.violations, rooms.replies),
        "quality": _ratio(rooms.quality, rooms.judged),
        "latency_ms": {
            "n": len(latencies),
            "p50": round(float(np.quantile(latencies, 0.5)), 1) if latencies else None,
            "p95": round(float(np.quantile(latencies, 0.95)), 1) if latencies else None,
        },
    }


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> float | None:
    total = float(denominator.sum())
    return round(float(numerator.sum()) / total, 6) if total else None


def _effect(estimate) -> dict:
    """Effect with a fixed-sample 95% interval: for a reader. The decision uses sequential bounds, which are wider."""
    if not estimate.known:
        return {"effect": None, "low": None, "high": None, "n": estimate.n, "relative": estimate.scale is Scale.LOG}
    low, high = estimate.bounds(1.96)
    relative = estimate.scale is Scale.LOG
    shown = (
        (math.expm1 if relative else float)(estimate.estimate),
        *((math.expm1 if relative else float)(min(bound, 50.0)) for bound in (low, high)),
    )
    effect, low, high = (round(value, 6) for value in shown)
    return {"effect": effect, "low": low, "high": high, "n": estimate.n, "relative": relative}


def _metrics(result: LiveResult, report: dict) -> dict[str, Metric]:
    decision: Decision = result.decision
    metrics = {
        "promoted": Metric(float(report["verdict"] == "promote"), 1),
        "rooms": Metric(result.rooms, 1),
        "information": Metric(decision.fraction, 1),
        "replies_generated": Metric(report["replies_generated"], 1),
        "replies_reused": Metric(report["replies_reused"], 1),
        "live_seconds": Metric(result.seconds, 1),
    }
    for name, effect in report["effects"].items():
        value = effect["effect"]
        metrics[f"{name}_effect"] = Metric(
            math.nan if value is None else value, effect["n"] if value is not None else 0
        )
    for arm, row in report["arms"].items():
        for quantile in ("p50", "p95"):
            value = row["latency_ms"][quantile]
            metrics[f"{arm}_latency_{quantile}_ms"] = Metric(
                math.nan if value is None else value, row["latency_ms"]["n"]
            )
        for name in ("quality", "tool_error_rate", "violation_rate"):
            metrics[f"{arm}_{name}"] = Metric(math.nan if row[name] is None else row[name], row["replies"])
    return metrics


if __name__ == "__main__":
    from components.integrations.cli import step_main

    raise SystemExit(step_main("canary_deploy.run", run))
