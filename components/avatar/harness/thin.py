"""A harness with less in it: the choice is easier where fewer tools and skills stand in the prompt.

Training starts with little beside what a question needs, and ends with the full harness and its decoys.
"""

import random
from collections.abc import Collection

from components.avatar.harness.schema import Capability, Family, Harness

LEAST_TOOLS, LEAST_SKILLS = 3, 2  # so that there is a choice


def thinned(
    harness: Harness,
    capabilities: Collection[Capability],
    families: Collection[Family],
    share: float,
    rng: random.Random,
) -> Harness:
    """`harness` with every tool for `capabilities` or for loading skills and every skill for `families`, and each of
    the others with probability `share`. Order and meaning stay.
    """
    needed = {
        name
        for name, binding in harness.bindings.items()
        if binding.capability in capabilities or binding.capability == Capability.LOAD_SKILL
    }
    right = {skill.name for skill in harness.skills if not set(families).isdisjoint(skill.handles)}
    return harness.keeping(
        tools=_some([tool.name for tool in harness.tools], needed, share, LEAST_TOOLS, rng),
        skills=_some([skill.name for skill in harness.skills], right, share, LEAST_SKILLS, rng),
    )


def _some(names: list[str], needed: set[str], share: float, least: int, rng: random.Random) -> set[str]:
    others = [name for name in names if name not in needed]
    rng.shuffle(others)
    count = max(sum(rng.random() < share for _ in others), least - len(needed))
    return needed | set(others[:count])
