"""The harness evolves while the weights stay frozen: rounds of diagnosis, edit, evaluation and regression check.

A round blames the failed cases on the tools and skills that they needed, tries other descriptions for the worst of
them, and keeps the edit that repairs most cases, if it repairs more than it breaks *and* the regression check on other
cases passes. A person's confirmation stands between evaluation and use in production; here the checks stand alone.

Three sets of cases keep the figures honest: edits are chosen on one, checked for regressions on another, and what the
rounds brought is told by a third that no decision has seen.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from components.avatar.agent.metrics import paired_difference
from components.avatar.harness.augment import augment
from components.avatar.harness.schema import Harness
from components.avatar.harness.words import word_bank
from components.avatar.simulator.families import needs_of
from components.avatar.simulator.scenario import Scenario

Play = Callable[[Harness, Sequence[Scenario]], list[float]]
"""Quality of each scenario under a harness, by a model whose weights do not change."""

REGRESSION_MARGIN = 0.02  # mean quality that an edit may cost on other cases: below it lies noise
TRIED = 4  # of a round: targets, and descriptions for each
REWORDING = ("reword_tool_descriptions", "reword_skill_descriptions")


@dataclass(frozen=True)
class Round:
    """What one round tried and decided; `gain` and `regression` are mean differences in quality on their cases."""

    target: str
    description: str
    gain: float
    regression: float | None
    accepted: bool
    why: str


def evolve(
    harness: Harness,
    play: Play,
    sets: tuple[Sequence[Scenario], Sequence[Scenario], Sequence[Scenario]],
    *,
    rounds: int,
    seed: int,
) -> dict[str, Any]:
    """`sets`: cases to choose edits on, to check regressions on, and to tell the result. The final harness is not
    returned but said: its accepted edits in words, and the quality before and after."""
    choosing, checking, telling = sets
    rng = random.Random(f"rounds:{seed}")
    first, history = harness, []
    quality, checked = play(harness, choosing), play(harness, checking)
    for _ in range(rounds):
        best: tuple[float, Harness, str, str, list[float]] | None = None
        for target in _blamed(harness, choosing, quality)[:TRIED]:
            affected = [i for i, scenario in enumerate(choosing) if target in _needed(harness, scenario)]
            for candidate, description in _candidates(harness, target, rng):
                tried = play(candidate, [choosing[i] for i in affected])
                gain = sum(tried) - sum(quality[i] for i in affected)
                if best is None or gain > best[0]:
                    best = (gain, candidate, target, description, tried)
        if best is None or best[0] <= 0:
            why = "no failed case to blame" if best is None else "no description repairs more than it breaks"
            history.append(Round("", "", 0.0, None, accepted=False, why=why))
            break
        gain, candidate, target, description, _ = best
        after = play(candidate, checking)
        regression = (sum(after) - sum(checked)) / len(checked)
        accepted = regression >= -REGRESSION_MARGIN
        why = "repairs more than it breaks" if accepted else "breaks other cases"
        history.append(Round(target, description, gain / len(choosing), regression, accepted, why))
        if not accepted:
            break
        harness, checked = candidate, after
        quality = play(harness, choosing)
    before, told = play(first, telling), play(harness, telling)
    difference = paired_difference(told, before, seed=seed)
    return {
        "rounds": [asdict(step) for step in history],
        "quality_before": sum(before) / len(before),
        "quality_after": sum(told) / len(told),
        "difference": {"value": difference.value, "ci": [difference.low, difference.high], "n": difference.n},
    }


def _needed(harness: Harness, scenario: Scenario) -> set[str]:
    """Names of the tools and reply skills that a scenario's questions call for."""
    names: set[str] = set()
    for question in scenario.questions:
        for need in needs_of(question, harness):
            if need.calls:
                names.update(tool.name for tool in harness.tools_for(need.calls[0].capability))
        names.update(skill.name for skill in harness.skills if question.family in skill.handles)
    return names


def _blamed(harness: Harness, scenarios: Sequence[Scenario], quality: Sequence[float]) -> list[str]:
    """Names by the failed cases that needed them, worst first; equal counts in the order of their names."""
    counts: Counter[str] = Counter()
    for scenario, value in zip(scenarios, quality, strict=True):
        if value < 1:
            counts.update(_needed(harness, scenario))
    return [name for name, _ in sorted(counts.items(), key=lambda row: (-row[1], row[0]))]


def _candidates(harness: Harness, target: str, rng: random.Random) -> list[tuple[Harness, str]]:
    """`harness` with other descriptions of one tool or skill, and those descriptions."""
    found: dict[str, Harness] = {}
    for _ in range(TRIED):
        drawn = augment(harness, rng, bank=word_bank("heldout"), strength=1.0, operators=REWORDING).harness
        tool, skill = drawn.tool(target), drawn.skill(target)
        new = tool or skill
        old = harness.tool(target) or harness.skill(target)
        if new is None or old is None or new.description == old.description:
            continue
        found[new.description] = harness.model_copy(
            update={
                "tools": tuple(tool if tool and t.name == target else t for t in harness.tools),
                "skills": tuple(skill if skill and s.name == target else s for s in harness.skills),
            }
        )
    return [(candidate, description) for description, candidate in found.items()]
