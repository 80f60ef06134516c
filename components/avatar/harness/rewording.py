"""Rewording of free rules: known turns of speech are swapped for others that say the same, and a frame may go around
the whole.
"""

import re
from functools import lru_cache

from components.avatar.harness.banks import Phrase, banks
from components.avatar.harness.draw import Draw


def reword_rule(rule: str, draw: Draw) -> str:
    """`rule` in other words. What the bank does not know stays as it is: a merchant's rule is never paraphrased by
    guess.
    """
    pattern, phrases = _phrases()

    def swap(match: re.Match[str]) -> str:
        if match[0].startswith("`"):
            return match[0]  # the name of a tool or skill, whatever words it is made of
        phrase = phrases[match[0].lower()]
        options = phrase.same if draw.split == "train" else phrase.heldout
        new = draw.fresh(options, match[0].lower())
        if new is None:
            return match[0]
        return new[0].upper() + new[1:] if match[0][0].isupper() else new

    rule = _unframed(rule)
    text = pattern.sub(swap, rule) if draw.hits() else rule
    frame = draw.rng.choice(draw.banks.frames.of(draw.split))
    return frame.replace("{rule}", text)


@lru_cache(maxsize=1)
def _phrases() -> tuple[re.Pattern[str], dict[str, Phrase]]:
    phrases = {text.lower(): phrase for phrase in banks().phrases for text in (*phrase.same, *phrase.heldout)}
    longest_first = sorted(phrases, key=len, reverse=True)
    return re.compile(r"`[^`\n]*`|\b(?:" + "|".join(map(re.escape, longest_first)) + r")\b", re.IGNORECASE), phrases


def _unframed(rule: str) -> str:
    """The rule without a frame of an earlier rewording: frames must not pile up."""
    if rule.startswith(heads := _heads()):
        return rule[len(next(head for head in heads if rule.startswith(head))) :]
    return rule


@lru_cache(maxsize=1)
def _heads() -> tuple[str, ...]:
    """What the frames put before a rule."""
    heads = [frame.removesuffix("{rule}") for frame in (*banks().frames.train, *banks().frames.heldout)]
    return tuple(head for head in heads if head)
