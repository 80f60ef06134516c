"""Harness-state augmentation: another harness that means the same to the agent's task, in another wording.

Five axes (skill identifier, skill content, tool definitions, system prompt, hooks); operators in operators.py. Every
variant draws fresh names, so that no string is worth memorising.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from components.avatar.harness.banks import BANKS_LANGUAGE
from components.avatar.harness.draw import Draw
from components.avatar.harness.names import clean_name, name_words
from components.avatar.harness.operators import OPERATORS
from components.avatar.harness.schema import Harness
from components.avatar.harness.words import WordBank


@dataclass(frozen=True)
class Variant:
    """`operators` are those that changed something. `renamed`: original tool or skill name -> new name,
    `tool.argument` -> new argument.
    """

    harness: Harness
    operators: tuple[str, ...]
    renamed: dict[str, str]

    @property
    def behaviour(self) -> bool:
        """Whether the right reply may have changed, so that the oracle must realise it again."""
        return any(OPERATORS[name].kind == "behaviour" for name in self.operators)


def augment(
    harness: Harness,
    rng: random.Random,
    *,
    bank: WordBank,
    strength: float,
    operators: Sequence[str] | None = None,
    exclude: Collection[str] = (),
) -> Variant:
    """A variant of `harness`.

    Args:
        rng: the only source of chance: equal state, equal variant.
        bank: vocabulary of new names; its split also chooses the half of the wordings (`words.word_bank("train" |
            "heldout")`).
        strength: 0 to 1, the curriculum: how many operators, how much each touches, how arbitrary the names are. At 1
            renaming and rewording reach every tool, argument and skill.
        operators: apply exactly these; by default each is drawn by its weight and the strength. Either way those that
            write texts of the word banks (`Operator.worded`) leave a harness in another language as it is: an English
            sentence in a Chinese prompt would be no rewording.
        exclude: names, words and descriptions never to use (a set is fast): evaluation passes what training has shown.

    Raises ValueError on a strength outside [0, 1], an unknown operator, or when no fresh name is left.
    """
    if not 0 <= strength <= 1:
        raise ValueError(f"strength {strength}; allowed: 0 to 1")
    if operators is not None and (unknown := set(operators) - set(OPERATORS)):
        raise ValueError(f"unknown operators {sorted(unknown)}; allowed: {list(OPERATORS)}")
    draw = Draw(rng, bank, strength, exclude, frozenset(map(clean_name, names(harness))))
    applied = []
    for name, operator in OPERATORS.items():
        if operators is not None:
            if name not in operators:
                continue
        elif strength < operator.from_strength or rng.random() >= operator.weight * (0.3 + 0.7 * strength):
            continue
        if operator.worded and harness.language != BANKS_LANGUAGE:
            continue
        new = operator.apply(harness, draw)
        if new is not harness and new != harness:
            applied.append(name)
            harness = new
    return Variant(harness, tuple(applied), draw.renamed)


def names(harness: Harness) -> set[str]:
    """Names that the agent copies: of tools, arguments and skills."""
    found = {item.name for item in (*harness.tools, *harness.skills)}
    return found | {argument for tool in harness.tools for argument in tool.argument_names()}


def descriptions(harness: Harness) -> set[str]:
    """Descriptions of tools and skills."""
    return {item.description for item in (*harness.tools, *harness.skills)}


def words(harness: Harness) -> set[str]:
    """The words that the names are made of: held-out evaluation must use none that training has shown in a name."""
    return {word for name in names(harness) for word in name_words(name)}


def surfaces(harness: Harness) -> set[str]:
    """Names and descriptions: everything that a model could memorise instead of what it means."""
    return names(harness) | descriptions(harness)
