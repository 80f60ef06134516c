"""Teacher generation: solve sampled training scenarios in the simulator and keep only what the verifiers accept.

A trajectory keeps meaning, not surface (semantic actions), so that augmentation can play it again under any harness.
Rejection sampling as in the paper, but by verifiers instead of a judge. Most corrections by hooks are cut: only the
finally correct behaviour is kept; a few episodes keep the whole retry, so that recovery is learnt.

    python -m components.teacher_generation --merchant infra/harnesses/lumi-beauty --output OUT
"""

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from components.avatar.agent.examples import Mistake, Trajectory, write_rows
from components.avatar.agent.plans import Plan, play, possible_mistakes, take
from components.avatar.errors import Fault, InputError, SystemFault
from components.avatar.harness.schema import Family
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import Pool, sample_scenarios
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import SemanticAction
from components.integrations.metrics import Metric, write_json
from components.integrations.progress import Progress
from components.teacher_generation.settings import Settings

K = TypeVar("K")

FAMILY_SLOTS = 60  # resolution of the families' shares
REWARDS = ("accuracy", "effectiveness", "tool_rationality", "skill_selection")


def run(*, merchant: Path, output: Path, settings: Settings, seed: int, progress: Progress) -> dict[str, Metric]:
    """Write `output/trajectories.jsonl` (accepted trajectories) and `output/acceptance.json` (tried and accepted by
    family, reasons).

    Raises InputError for a bad merchant folder; SystemFault when fewer than `min_accepted` of the episodes are
    accepted.
    """
    world = load_merchant(merchant)
    scenarios = draw_scenarios(world, settings, seed)
    kept: list[Trajectory] = []
    tried: Counter[Family] = Counter()
    reasons: Counter[str] = Counter()
    for done, scenario in enumerate(scenarios, start=1):
        tried.update(_families(scenario))
        rng = random.Random(f"teacher:{seed}:{scenario.id}")
        trajectory, reason = solve_scenario(world, scenario, rng, settings.retry_share)
        if trajectory is None:
            reasons[reason] += 1
        else:
            kept.append(trajectory)
        progress.update(done, len(scenarios), accepted=len(kept))
    accepted = Counter(family for trajectory in kept for family in trajectory.families)
    report = {
        "episodes": len(scenarios),
        "accepted": len(kept),
        "families": {family: {"tried": n, "accepted": accepted[family]} for family, n in sorted(tried.items())},
        "rejected": dict(reasons.most_common()),
        "retries_kept": sum(trajectory.mistake is not None for trajectory in kept),
        "faulty": sum(bool(trajectory.scenario.faults) for trajectory in kept),
    }
    write_json(output / "acceptance.json", report)
    if len(kept) < settings.min_accepted * len(scenarios):
        worst = "; ".join(f"{reason} ({n})" for reason, n in reasons.most_common(3))
        solved = f"the teacher solved {len(kept)} of {len(scenarios)} scenarios"
        raise SystemFault(f"{solved} (min_accepted {settings.min_accepted}): {worst}")
    write_rows(output / "trajectories.jsonl", kept)
    metrics = {
        "trajectories": Metric(len(kept), 1),
        "acceptance_rate": Metric(len(kept) / len(scenarios), len(scenarios)),
        "retry_share": Metric(report["retries_kept"] / max(1, len(kept)), len(kept)),
    }
    return metrics | {
        f"acceptance_rate.{family}": Metric(accepted[family] / n, n) for family, n in sorted(tried.items())
    }


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
    shares = {family: (1 - settings.outage_rate) * weight / total for family, weight in weights.items()}
    shares[Family.OUTAGE] = settings.outage_rate
    # sample_scenarios draws its families in equal shares, so a family's share is the number of times it is listed.
    listed = [family for family, count in apportion(shares, FAMILY_SLOTS).items() for _ in range(count)]
    scenarios: list[Scenario] = []
    for questions, count in apportion(settings.questions_per_episode, settings.episodes).items():
        scenarios += sample_scenarios(
            world,
            count,
            seed * 100 + questions,
            "train",
            listed,
            fault_rate=settings.fault_rate,
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


def solve_scenario(
    world: Merchant, scenario: Scenario, rng: random.Random, retry_share: float
) -> tuple[Trajectory | None, str]:
    """(trajectory, "") or (None, why it was rejected)."""
    session = Session(world.harness, world.catalogue, scenario)
    actions = play(session, Plan())
    if session.corrections:
        session = Session(world.harness, world.catalogue, scenario)
        play(session, Plan(actions))
    score = session.score()
    poor = [name for name in REWARDS if getattr(score, name) < 1]
    if poor or session.corrections:
        return None, f"{session.stop}: " + ", ".join(poor or ["still corrected after the cut"])
    mistake = _mistake(world, scenario, actions, rng) if rng.random() < retry_share else None
    reward = {name: getattr(score, name) for name in REWARDS}
    return Trajectory(
        scenario=scenario, actions=actions, split="train", reward=reward, source="oracle", mistake=mistake
    ), ""


def _mistake(
    world: Merchant, scenario: Scenario, actions: tuple[SemanticAction, ...], rng: random.Random
) -> Mistake | None:
    """A slip that a hook catches once and after which the same actions still earn full reward; None when there is
    none."""
    session = Session(world.harness, world.catalogue, scenario)
    session.begin()
    plan = Plan(actions)
    candidates = []
    for position, action in enumerate(actions):
        candidates += [Mistake(before=position, check=check) for check in possible_mistakes(session, action)]
        take(session, plan.turn(session))
    rng.shuffle(candidates)
    for mistake in candidates:
        session = Session(world.harness, world.catalogue, scenario)
        play(session, Plan(actions, mistake))
        if session.corrections == 1 and all(getattr(session.score(), name) == 1 for name in REWARDS):
            return mistake
    return None


def _families(scenario: Scenario) -> list[Family]:
    return [question.family for question in scenario.questions if question.family is not None]
