"""Teacher generation: solve sampled training scenarios in the simulator and keep only what the verifiers accept.

A trajectory keeps meaning, not surface (semantic actions), so that augmentation can play it again under any harness.
Rejection sampling as in the paper, but by verifiers instead of a judge. Most corrections by hooks are cut: only the
finally correct behaviour is kept; a few episodes keep the whole retry, so that recovery is learnt.

    python -m components.teacher_generation --merchant infra/harnesses/lumi-beauty --output OUT
"""

import random
from collections import Counter
from pathlib import Path

from components.avatar.agent.examples import Mistake, Trajectory, write_rows
from components.avatar.agent.plans import Plan, play, possible_mistakes, take
from components.avatar.errors import SystemFault
from components.avatar.harness.schema import Family
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import SemanticAction
from components.integrations.metrics import Metric, write_json
from components.integrations.progress import Progress
from components.teacher_generation.settings import Settings

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
        raise SystemFault(
            f"the teacher solved {len(kept)} of {len(scenarios)} scenarios (min_accepted {settings.min_accepted}): {worst}"
        )
    write_rows(output / "trajectories.jsonl", kept)
    metrics = {
        "trajectories": Metric(len(kept), 1),
        "acceptance_rate": Metric(len(kept) / len(scenarios), len(scenarios)),
        "retry_share": Metric(report["retries_kept"] / max(1, len(kept)), len(kept)),
    }
    return metrics | {
        f"acceptance_rate.{family}": Metric(accepted[family] / n, n) for family, n in sorted(tried.items())
    }


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
