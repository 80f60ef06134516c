"""What a tool might mean: candidate bindings, guessed from its words. A suggestion for the operator, never a decision.

The words of names and arguments are those of banks.yaml: English only.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from components.avatar.harness.banks import banks
from components.avatar.harness.names import name_words
from components.avatar.harness.schema import CAPABILITY_ARGUMENTS, Capability, Tool

LEAST = 2  # a word of the name counts two, a word of the description one


@dataclass(frozen=True)
class Candidate:
    """A binding that lint would accept: every argument that either side requires has its counterpart."""

    capability: Capability
    arguments: dict[str, str]


def candidates(tool: Tool, limit: int = 2) -> list[Candidate]:
    """The likeliest meanings of `tool`, best first; none when nothing fits."""
    named = _stems(name_words(tool.name))
    described = _stems(word.lower() for word in re.findall(r"[A-Za-z]+", tool.description))
    scored = []
    for capability, known in _capability_words().items():
        score = 2 * len(named & known) + len(described & known)
        arguments = _arguments(tool, capability) if score >= LEAST else None
        if arguments is not None:
            scored.append((score, Candidate(capability, arguments)))
    scored.sort(key=lambda pair: -pair[0])
    return [candidate for score, candidate in scored[:limit] if 2 * score > scored[0][0]]


def _arguments(tool: Tool, capability: Capability) -> dict[str, str] | None:
    """Parameter -> canonical argument, or None when a required one on either side is left over."""
    free = list(tool.argument_names())
    found: dict[str, str] = {}
    canonical = CAPABILITY_ARGUMENTS[capability]
    for meaning, (kind, required) in sorted(canonical.items(), key=lambda item: not item[1][1]):
        fits = [(fit, name) for name in free if (fit := _fit(name, tool.parameters["properties"][name], meaning, kind))]
        if fits:
            best = max(fits, key=lambda pair: pair[0])[1]
            free.remove(best)
            found[best] = meaning
        elif required:
            return None
    if set(free) & set(tool.required()):
        return None
    return {name: found[name] for name in tool.argument_names() if name in found}


def _fit(name: str, schema: dict, meaning: str, kind: str) -> int:
    """How well a parameter fits a canonical argument; 0: not at all."""
    listed = schema.get("type") == "array"
    if listed != (kind == "array") or schema.get("type") in ("object", "boolean"):
        return 0
    if name == meaning:
        return 100
    shared = len(_stems(name_words(name)) & _stems(banks().arguments[meaning]))
    return 2 * shared + (schema.get("type") == kind) if shared else 0


@cache
def _capability_words() -> dict[Capability, frozenset[str]]:
    return {capability: _stems(wordings.names) for capability, wordings in banks().capabilities.items()}


def _stems(words: Iterable[str]) -> frozenset[str]:
    """Without the plural's s."""
    return frozenset(word.rstrip("s") if len(word) > 3 else word for word in words)
