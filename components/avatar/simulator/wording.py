"""What the oracle says: several wordings for each situation, of different words and lengths, so that any single
forbidden word, any short limit and any persona can be obeyed. `{price}` and the like are filled from tool results,
verbatim. The sentences of a language are its speech's (`wording_en.py`, `wording_zh.py`).

Its voice is consistent: it varies between the first `VOICE` wordings and takes a later one only when a rule asks for
it. A student that decodes greedily says the likeliest *wording*, so a situation told in seven ways loses against a
rarer one told in one.
"""

import random
from collections.abc import Mapping, Sequence

from components.avatar.harness.schema import Harness, HookCheck, HookPoint, Language
from components.avatar.simulator.hooks import form_of, word_count, word_pattern
from components.avatar.simulator.speech import Speech
from components.avatar.simulator.wording_en import ENGLISH
from components.avatar.simulator.wording_zh import CHINESE

VOICE = 2
SPEECHES: Mapping[Language, Speech] = {"en": ENGLISH, "zh": CHINESE}


def say(situation: str, values: Mapping[str, object], harness: Harness, rng: random.Random) -> str:
    """A wording of `situation` that obeys the harness's verifiable form rules, one of the first `VOICE` (drawn with
    `rng`) if any does; the shortest when none does.
    """
    persona = Persona(harness)
    wordings = list(persona.speech.sentences[situation])
    blanks = persona.speech.blanks(values)
    rng.shuffle(preferred := wordings[:VOICE])
    tried: list[str] = []
    for wording in (*preferred, *wordings[VOICE:]):
        text = persona.dress(wording.format_map(blanks))
        if not form_of(text, harness).broken:
            return text
        tried.append(text)
    return min(tried, key=lambda text: (len(form_of(text, harness).broken), word_count(text)))


class Persona:
    """The verifiable markers that the harness's format hooks ask for, in its language."""

    def __init__(self, harness: Harness) -> None:
        self.speech = SPEECHES[harness.language]
        arguments = [
            hook.arguments
            for hook in harness.hooks
            if hook.check == HookCheck.REPLY_FORMAT and hook.point == HookPoint.BEFORE_REPLY
        ]
        self.addresses: Sequence[str] = tuple(
            dict.fromkeys(a["address"].strip() for a in arguments if a.get("address"))
        )
        self.endings: Sequence[str] = tuple(
            dict.fromkeys(a["ends_with"].strip() for a in arguments if a.get("ends_with"))
        )

    def dress(self, sentence: str) -> str:
        """`sentence` with the form of address before it and the sign-off after it."""
        for address in self.addresses:
            if not word_pattern((address,)).search(sentence):
                sentence = self.speech.addressed(address, sentence)
        for ending in self.endings:
            if not sentence.endswith(ending):
                sentence = f"{sentence}{self.speech.before_ending}{ending}"
        return sentence
