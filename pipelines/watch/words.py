"""Typed changes as sentences: what a merchant's operator did, without the field names of our schema."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.avatar.harness.diff import Change, diff
from components.avatar.harness.schema import Capability, Harness
from components.avatar.simulator.merchant import Merchant
from pipelines.watch.queue import Described

_LIMITS = {
    "limits.reply_words": "the most words of a reply",
    "limits.tool_calls": "the most calls for one message",
    "limits.turns": "the most messages of an episode",
}

_NOUNS = {"block": "prompt block", "rule": "rule", "tool": "tool", "skill": "skill", "hook": "hook", "line": "line"}


def changes_in_words(old: Merchant, new: Merchant) -> tuple[Described, ...]:
    """Everything that differs between two versions of a merchant, harness first, then goods, questions and events."""
    found = [
        Described(text=_sentence(c, old.harness, new.harness), effect=c.effect) for c in diff(old.harness, new.harness)
    ]
    if old.harness.merchant != new.harness.merchant:
        found.insert(
            0, Described(text=f"the merchant is called {_quoted(new.harness.merchant)} now", effect="behaviour")
        )
    data = [
        _counted("products", *(_by(m.catalogue.products, "link_id") for m in (old, new))),
        _counted("recorded tools", old.catalogue.recorded, new.catalogue.recorded),
        _counted("viewers' questions", *(_by(m.questions, "id") for m in (old, new))),
        _counted("stream events", *(dict.fromkeys(map(str, m.events)) for m in (old, new))),
    ]
    return (*found, *(Described(text=text, effect="data") for text in data if text))


def _sentence(change: Change, old: Harness, new: Harness) -> str:
    noun, _, verb = change.kind.rpartition("_")
    noun = noun.removesuffix("s") if verb == "reordered" else noun
    match verb:
        case "renamed" if noun == "argument":
            tool, _, _ = change.path.rpartition(".")
            return f"tool {_quoted(tool)}: parameter {_quoted(change.old)} is called {_quoted(change.new)} now"
        case "renamed":
            return f"{noun} {_quoted(change.old)} is called {_quoted(change.new)} now"
        case "added" | "removed" if noun in ("rule", "line"):
            where = "prompt block" if change.module == "prompt" else "skill"
            return f"{where} {_quoted(change.path)}: {noun} {verb}: {_quoted(change.new or change.old)}"
        case "added" | "removed":
            harness = new if verb == "added" else old
            return f"{_NOUNS.get(noun, noun)} {_quoted(change.path)} {verb}{_what(noun, change.path, harness)}"
        case "reordered":
            of = "" if change.path == "order" else f" of {_quoted(change.path)}"
            return f"the order of the {_NOUNS.get(noun, noun)}s{of} changed"
    if change.kind == "limit_changed":
        return f"{_LIMITS.get(change.path, change.path)}: {change.old}, now {change.new}"
    what = {"binding": "meaning", "handles": "questions that it is for"}.get(noun, noun)
    owner = {"prompt": "prompt block", "tools": "tool", "skills": "skill", "hooks": "hook"}[change.module]
    if change.kind == "language_changed":
        return f"language: {_quoted(change.old)}, now {_quoted(change.new)}"
    return f"{owner} {_quoted(change.path)}: {what.replace('_', ' ')} changed{_from_to(change.old, change.new)}"


def _what(noun: str, path: str, harness: Harness) -> str:
    """What stands behind a name that came or went."""
    if noun == "tool" and path in harness.bindings:
        capability = harness.bindings[path].capability
        return " (a decoy)" if capability == Capability.DECOY else f" (does {capability})"
    if noun == "skill":
        handles = next((skill.handles for skill in harness.skills if skill.name == path), ())
        return f" (for {', '.join(handles)})" if handles else ""
    if noun == "hook":
        found = next((hook for hook in harness.hooks if hook.id == path), None)
        return f" (checks {found.check} {found.point.replace('_', ' ')})" if found else ""
    return ""


def _from_to(old: Any, new: Any) -> str:
    """Both values where they are short enough to read."""
    if isinstance(old, str | int | None) and isinstance(new, str | int | None):
        return f": {_quoted(old)}, now {_quoted(new)}"
    if isinstance(old, tuple) and isinstance(new, tuple):
        return f": {', '.join(map(str, old)) or 'none'}, now {', '.join(map(str, new)) or 'none'}"
    return ""


def _quoted(value: Any, limit: int = 90) -> str:
    text = "nothing" if value is None else " ".join(str(value).split())
    return f'"{text if len(text) <= limit else text[: limit - 3] + "..."}"'


def _by(rows: Sequence[Any], key: str) -> dict[Any, Any]:
    return {getattr(row, key): row for row in rows}


def _counted(noun: str, old: Mapping[Any, Any], new: Mapping[Any, Any]) -> str:
    """`2 added, 1 removed, 3 changed`, or nothing."""
    counts = {
        "added": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "changed": sum(old[key] != new[key] for key in old.keys() & new.keys()),
    }
    parts = [f"{count} {word}" for word, count in counts.items() if count]
    return f"{noun}: {', '.join(parts)}" if parts else ""
