"""What both teachers share: a solution is kept only if the verifiers give it full reward under the merchant's own
harness, and what became of each scenario."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from components.avatar.agent.examples import REWARDS, Misstep, Mistake, Trajectory, poor_rewards
from components.avatar.agent.plans import Plan, play, possible_mistakes, take
from components.avatar.harness.schema import HookCheck
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.oracle import Unrealisable
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import SemanticAction
from components.teacher_generation.attempts import Attempt
from components.teacher_generation.settings import Settings


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
    settings: Settings,
    slips: Sequence[Mistake] = (),
) -> tuple[Trajectory | None, str]:
    """(trajectory, "") or (None, why it was rejected).

    `actions` are the finally correct behaviour and must be right by themselves, without a correction. `slips` are the
    mistakes that the teacher itself made; `retry_share` and `misstep_share` of the trajectories carry a mistake, a
    drawn one where there is none.
    """
    session = Session(world.harness, world.catalogue, scenario)
    plan = Plan(actions)
    try:
        play(session, plan)
    except Unrealisable as error:
        return None, f"not to be played under the merchant's own harness: {error}"
    score = session.score()
    poor = poor_rewards(score)
    if poor or session.corrections or plan.position != len(actions):
        return None, f"{session.stop}: " + ", ".join(poor or ["still corrected after the cut"])
    draw = rng.random()
    mistake = None
    if draw < settings.retry_share:
        mistake = _mistake(world, scenario, actions, rng, HookCheck, slips)
    elif draw < settings.retry_share + settings.misstep_share:
        mistake = _mistake(world, scenario, actions, rng, Misstep)
    return Trajectory(
        scenario=scenario,
        actions=actions,
        split="train",
        reward={name: getattr(score, name) for name in REWARDS},
        source=source,
        mistake=mistake,
    ), ""


def _mistake(
    world: Merchant,
    scenario: Scenario,
    actions: tuple[SemanticAction, ...],
    rng: random.Random,
    kind: type[HookCheck] | type[Misstep],
    slips: Sequence[Mistake] = (),
) -> Mistake | None:
    """A mistake of `kind` after which the same actions still earn full reward (less what a misstep costs), one of
    `slips` if any can be made again; None when there is none."""
    session = Session(world.harness, world.catalogue, scenario)
    session.begin()
    plan = Plan(actions)
    candidates = []
    for position, action in enumerate(actions):
        kinds = [found for found in possible_mistakes(session, action) if isinstance(found, kind)]
        candidates += [Mistake(before=position, kind=found) for found in kinds]
        take(session, plan.turn(session))
    rng.shuffle(candidates)
    # Every kind has the same chance, however many actions allow it.
    rank = {mistake.kind: rng.random() for mistake in candidates}
    candidates.sort(key=lambda mistake: rank[mistake.kind])
    for mistake in (*slips, *candidates):
        session = Session(world.harness, world.catalogue, scenario)
        plan = Plan(actions, mistake)
        play(session, plan)
        poor = poor_rewards(session.score(), plan.missteps, len(scenario.questions))
        corrected = kind is HookCheck or mistake.kind == Misstep.UNSEEN_SKILL
        if not poor and session.corrections == corrected:
            return mistake
    return None
