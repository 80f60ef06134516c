"""What both teachers share: a solution is kept only if the verifiers give it full reward under the merchant's own
harness, and what became of each scenario."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from components.avatar.agent.examples import Mistake, Trajectory
from components.avatar.agent.plans import Plan, play, possible_mistakes, take
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.oracle import Unrealisable
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import SemanticAction
from components.teacher_generation.attempts import Attempt

REWARDS = ("accuracy", "effectiveness", "tool_rationality", "skill_selection")


@dataclass(frozen=True)
class Solved:
    """A scenario after the teacher's attempts at it. `rejected` says why each attempt without success was rejected.

    An endpoint's `attempts` stand in order, the accepted one last; `resumed` of them were played by an earlier run.
    `fault`: our own side failed, so the scenario counts neither as solved nor as unsolved."""

    scenario: Scenario
    trajectory: Trajectory | None
    rejected: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    resumed: int = 0
    fault: str | None = None


def accept(
    world: Merchant,
    scenario: Scenario,
    actions: tuple[SemanticAction, ...],
    source: str,
    rng: random.Random,
    retry_share: float,
    slips: Sequence[Mistake] = (),
) -> tuple[Trajectory | None, str]:
    """(trajectory, "") or (None, why it was rejected).

    `actions` are the finally correct behaviour and must be right by themselves, without a correction. `slips` are the
    mistakes that the teacher itself made; a share of the trajectories carries one, drawn where there is none.
    """
    session = Session(world.harness, world.catalogue, scenario)
    plan = Plan(actions)
    try:
        play(session, plan)
    except Unrealisable as error:
        return None, f"not to be played under the merchant's own harness: {error}"
    score = session.score()
    poor = [name for name in REWARDS if getattr(score, name) < 1]
    if poor or session.corrections or plan.position != len(actions):
        return None, f"{session.stop}: " + ", ".join(poor or ["still corrected after the cut"])
    mistake = _mistake(world, scenario, actions, rng, slips) if rng.random() < retry_share else None
    reward = {name: getattr(score, name) for name in REWARDS}
    return Trajectory(
        scenario=scenario, actions=actions, split="train", reward=reward, source=source, mistake=mistake
    ), ""


def _mistake(
    world: Merchant,
    scenario: Scenario,
    actions: tuple[SemanticAction, ...],
    rng: random.Random,
    slips: Sequence[Mistake],
) -> Mistake | None:
    """A slip that a hook catches once and after which the same actions still earn full reward, one of `slips` if any
    can be made again; None when there is none."""
    session = Session(world.harness, world.catalogue, scenario)
    session.begin()
    plan = Plan(actions)
    candidates = []
    for position, action in enumerate(actions):
        candidates += [Mistake(before=position, check=check) for check in possible_mistakes(session, action)]
        take(session, plan.turn(session))
    rng.shuffle(candidates)
    for mistake in (*slips, *candidates):
        session = Session(world.harness, world.catalogue, scenario)
        play(session, Plan(actions, mistake))
        if session.corrections == 1 and all(getattr(session.score(), name) == 1 for name in REWARDS):
            return mistake
    return None
