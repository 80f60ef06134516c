"""Teacher generation: solve sampled training scenarios in the simulator and keep only what the verifiers accept.

A trajectory keeps meaning, not surface (semantic actions), so that augmentation can play it again under any harness.
The teacher is the simulator's embedded oracle, or any model behind an OpenAI-compatible endpoint (endpoint.py).
Rejection sampling as in the paper, but by verifiers first and judges second. Most corrections by hooks are cut: only
the finally correct behaviour is kept; a few episodes keep the whole retry, so that recovery is learnt.

    python -m components.teacher_generation --merchant infra/harnesses/lumi-beauty --output OUT
"""

import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from components.avatar.agent.examples import write_rows
from components.avatar.agent.plans import Plan, play
from components.avatar.errors import Fault, InputError, SystemFault
from components.avatar.harness.schema import Family
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import Pool, sample_scenarios
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session
from components.integrations.cli import validate_settings
from components.integrations.metrics import Metric, write_json
from components.integrations.objects import S3Settings, open_objects
from components.integrations.progress import Progress
from components.teacher_generation.acceptance import Solved, accept
from components.teacher_generation.attempts import Ledger
from components.teacher_generation.report import acceptance, endpoint_metrics, endpoint_report
from components.teacher_generation.settings import Settings

K = TypeVar("K")

FAMILY_SLOTS = 60  # resolution of the families' shares


def run(
    *,
    merchant: Path,
    output: Path,
    settings: Settings,
    seed: int,
    progress: Progress,
    attempts: str = "",
    storage_encryption: str = "",
) -> dict[str, Metric]:
    """Write `output/trajectories.jsonl` (accepted trajectories) and `output/acceptance.json` (tried and accepted by
    family, reasons; of an endpoint also tokens, cost, votes).

    `attempts` is the file of what an endpoint was paid for, default `output/attempts.jsonl`, or an `s3://` prefix that
    it is copied to, encrypted as `storage_encryption` says (objects.Encryption): with the same one, a run that was
    stopped goes on.

    Raises InputError for a bad merchant folder, and where an endpoint refuses key, address or model; SystemFault when
    fewer than `min_accepted` of the episodes are accepted, and when an endpoint fails for good.
    """
    world = load_merchant(merchant)
    scenarios = draw_scenarios(world, settings, seed)
    if settings.teacher == "oracle":
        solved, report, metrics = _ask_oracle(world, scenarios, settings, seed, progress), {}, {}
    else:
        ledger = _ledger(attempts, storage_encryption, output)
        solved, report = _ask_endpoint(world, scenarios, settings, seed, progress, ledger)
        metrics = endpoint_metrics(report)
    report = {"teacher": settings.teacher, **acceptance(solved), **report}
    write_json(output / "acceptance.json", report)
    kept = [one.trajectory for one in solved if one.trajectory is not None]
    if len(kept) < settings.min_accepted * len(solved):
        worst = "; ".join(f"{reason} ({n})" for reason, n in list(report["rejected"].items())[:3])
        raise SystemFault(
            f"the teacher solved {len(kept)} of {len(solved)} scenarios (min_accepted {settings.min_accepted}): {worst}"
        )
    write_rows(output / "trajectories.jsonl", kept)
    families = report["families"].items()
    return {
        "trajectories": Metric(len(kept), 1),
        "acceptance_rate": Metric(len(kept) / max(1, len(solved)), len(solved)),
        "retry_share": Metric(report["retries_kept"] / max(1, len(kept)), len(kept)),
        "misstep_share": Metric(report["missteps_kept"] / max(1, len(kept)), len(kept)),
        **{
            f"acceptance_rate.{family}": Metric(row["accepted"] / row["tried"], row["tried"])
            for family, row in families
        },
        **metrics,
    }


def attempts_place(run_dir: str, storage_uri: str, pipeline_run: str | None) -> str:
    """Where a retried or resumed task finds its attempts: its own output is gone by then. "" where nothing outlives the
    task."""
    if run_dir:
        return str(Path(run_dir) / "teacher_attempts.jsonl")
    return f"{storage_uri}/teacher-attempts/{pipeline_run}" if storage_uri and pipeline_run else ""


def _ledger(attempts: str, encryption: str, output: Path) -> Ledger:
    if not attempts.startswith("s3://"):
        return Ledger(Path(attempts) if attempts else output / "attempts.jsonl")
    s3 = validate_settings(S3Settings, {"encryption": encryption}, "storage_encryption")
    return Ledger(output / "attempts.jsonl", open_objects(attempts, s3))


def _ask_endpoint(
    world: Merchant, scenarios: Sequence[Scenario], settings: Settings, seed: int, progress: Progress, ledger: Ledger
) -> tuple[list[Solved], dict[str, Any]]:
    """(scenarios that were tried, what acceptance.json says of the endpoint)."""
    from components.teacher_generation.endpoint import Teaching  # here: the oracle needs neither httpx nor transformers

    with closing(ledger):
        if len(ledger) or ledger.damaged:
            progress.note(f"{len(ledger)} attempts of an earlier run in {ledger.path}", damaged=ledger.damaged)
        solved = Teaching(world, settings, seed, ledger).solve(scenarios, progress)
        report = endpoint_report(solved, ledger.wasted, settings)
    tried = [one for one in solved if one.fault is None]
    if len(tried) < len(solved):
        progress.note(f"{len(solved) - len(tried)} scenarios are left out: our own side failed them")
    return tried, report


def draw_scenarios(world: Merchant, settings: Settings, seed: int) -> list[Scenario]:
    """`settings.episodes` training scenarios in random order. Raises InputError for a family that the merchant cannot
    train."""
    known = Pool(world, "train").families()
    weights = settings.families or {family: 1.0 for family in known if family != Family.OUTAGE}
    if unknown := sorted(set(weights) - set(known)):
        allowed = ", ".join(sorted(known))
        raise InputError(
            [Fault("settings", "families", family, f"a family of {world.name}: {allowed}") for family in unknown]
        )
    if settings.outage_rate and Family.OUTAGE not in known:
        raise InputError(
            [Fault("settings", "outage_rate", str(settings.outage_rate), f"0: no tool of {world.name} can fail")]
        )
    total = sum(weights.values())
    # In the schema's order: what is drawn must not depend on the order of a mapping in a profile.
    shares = {family: (1 - settings.outage_rate) * weights[family] / total for family in Family if family in weights}
    shares[Family.OUTAGE] = settings.outage_rate
    scenarios: list[Scenario] = []
    for questions, count in apportion(settings.questions_per_episode, settings.episodes).items():
        # sample_scenarios draws its families in equal shares, so a family's share is the number of times it is listed.
        # Not more slots than questions: every family is asked at least once, as far as there is room.
        slots = apportion(shares, min(FAMILY_SLOTS, count * questions))
        scenarios += sample_scenarios(
            world,
            count,
            seed * 100 + questions,
            "train",
            [family for family, listed in slots.items() for _ in range(listed)],
            fault_rate=settings.fault_rate,
            varied_share=settings.varied_share,
            mistyped_share=settings.mistyped_share,
            questions_per_episode=questions,
            prefix=f"{world.name}-train-{seed}-{questions}q",
        )
    random.Random(f"scenarios:{seed}").shuffle(scenarios)
    return scenarios


def apportion(weights: Mapping[K, float], total: int) -> dict[K, int]:
    """`total` divided by `weights` in whole numbers (largest remainders); a positive weight gets at least 1 where
    there is room."""
    whole = sum(weights.values())
    exact = {key: weight / whole * total for key, weight in weights.items()}
    counts = {key: max(int(value), int(value > 0)) for key, value in exact.items()}
    order = sorted(exact, key=lambda key: exact[key] - counts[key], reverse=True)
    while (left := total - sum(counts.values())) > 0:
        for key in order[:left]:
            counts[key] += 1
    return counts


def _ask_oracle(
    world: Merchant, scenarios: Sequence[Scenario], settings: Settings, seed: int, progress: Progress
) -> list[Solved]:
    solved: list[Solved] = []
    for done, scenario in enumerate(scenarios, start=1):
        actions = play(Session(world.harness, world.catalogue, scenario), Plan())
        rng = random.Random(f"teacher:{seed}:{scenario.id}")
        trajectory, reason = accept(world, scenario, actions, "oracle", rng, settings)
        solved.append(Solved(scenario, trajectory, (reason,) if reason else ()))
        progress.update(done, len(scenarios), accepted=sum(one.trajectory is not None for one in solved))
    return solved
