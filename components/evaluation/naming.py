"""Two different errors hide in a wrong call: the model *selects* the wrong tool or skill, or it selects the right one
and *copies* its name wrongly.

A name that the prompt does not hold shows no selection. The model's own likelihood decides: it writes the same turn
again with the names limited to those of the prompt, greedily, and the name that it writes then is the one it meant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from components.avatar.agent.metrics import Judged, Rate, absent_names, rate
from components.avatar.agent.parser import ParsedCall, parse
from components.avatar.agent.types import ModelClient
from components.avatar.harness.schema import Capability, Harness
from components.avatar.simulator.types import CallRecord

Naming = Literal["right", "selection", "copy"]


@dataclass(frozen=True)
class _Absent:
    """A call by a name that the prompt does not hold, and the ids that stood before its turn."""

    episode: int
    call: int
    ids: list[int]
    harness: Harness
    record: CallRecord


def judge_names(
    episodes: Sequence[Judged], constrained: ModelClient | None, *, max_new_tokens: int
) -> list[list[Naming]]:
    """What was wrong about each call's name, by episode, in the order of its calls; empty for an unscored episode.

    `constrained` is a client of the same model whose decoding keeps to the harness; None where the episodes were played
    under that decoding (then no name can be absent but one that the constraint had to let through).
    """
    judged: list[list[Naming]] = [
        [] if e.result.score is None else [_known(call) for call in e.result.calls] for e in episodes
    ]
    absent = [found for index, episode in enumerate(episodes) if judged[index] for found in _absent(index, episode)]
    if absent and constrained is not None:
        turns = constrained.generate(
            [found.ids for found in absent],
            [found.harness for found in absent],
            max_new_tokens=max_new_tokens,
            temperature=0.0,
        )
        for found, turn in zip(absent, turns, strict=True):
            meant = _meant(turn.text, found.harness)
            if meant is not None and meant in found.record.right_names:
                judged[found.episode][found.call] = "copy"
    return judged


def naming_rates(judged: Sequence[Sequence[Naming]]) -> dict[str, Rate]:
    """Both errors as shares of all calls."""
    namings = [naming for episode in judged for naming in episode]
    return {
        "selection_error_rate": rate(naming == "selection" for naming in namings),
        "copy_error_rate": rate(naming == "copy" for naming in namings),
    }


def _known(call: CallRecord) -> Naming:
    """An absent name counts as a wrong selection until the model has said which one it meant."""
    if not call.known:
        return "selection"
    right = call.expected if call.capability == Capability.LOAD_SKILL else call.right_tool
    return "right" if right else "selection"


def _absent(index: int, episode: Judged) -> list[_Absent]:
    """The calls by absent names; the k-th call segment of an episode is its k-th call."""
    result = episode.result
    ids, number, found = list(result.prompt_ids), 0, []
    for segment in result.segments:
        if segment.kind == "call":
            record = result.calls[number]
            if not record.known and absent_names(episode.harness, record.name, record.arguments):
                found.append(_Absent(index, number, list(ids), episode.harness, record))
            number += 1
        ids.extend(segment.ids)
    assert number == len(result.calls), "every call segment is one call of the session"
    return found


def _meant(text: str, harness: Harness) -> str | None:
    """The name in a turn: of the skill where a skill is loaded, else of the tool; None when the turn is no call."""
    parsed = parse(text)
    if not isinstance(parsed, ParsedCall):
        return None
    binding = harness.bindings.get(parsed.name)
    if binding is None or binding.capability != Capability.LOAD_SKILL:
        return parsed.name
    return next((str(value) for value in parsed.arguments.values()), None)
