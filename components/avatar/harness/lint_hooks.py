"""Lint of hooks: their points and arguments, and what they demand against what the texts tell the agent.

Contradictions between free text and a hook are found by turns of speech, English and Chinese; only clear ones count.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from components.avatar.harness.edits import word_pattern
from components.avatar.harness.findings import Finding, error, warning
from components.avatar.harness.lint_texts import instructions
from components.avatar.harness.lint_tools import HARNESS
from components.avatar.harness.schema import Harness, Hook, HookCheck, HookPoint

POINT_OF_CHECK = {
    HookCheck.INPUT_VALID: HookPoint.BEFORE_TURN,
    HookCheck.TOOL_ARGUMENTS: HookPoint.BEFORE_CALL,
    HookCheck.SKILL_LOADED: HookPoint.BEFORE_REPLY,
    HookCheck.REPLY_LENGTH: HookPoint.BEFORE_REPLY,
    HookCheck.REPLY_FORMAT: HookPoint.BEFORE_REPLY,
    HookCheck.FACT_CHECK: HookPoint.BEFORE_REPLY,
    HookCheck.FORBIDDEN_WORDING: HookPoint.BEFORE_REPLY,
}

_NOT = r"(?:\b(?:never|not|no|don't|do not|avoid|without|stop)\b|不|别|勿|禁止|避免)"
_SAY = r"(?:\b(?:say|call|use|write|mention|promise|add|include|end with|sign off with)\b|说|称呼|用|写|加上|结尾)"
_FORGET = r"(?:forget|skip|omit|miss|leave out|without|忘|漏|缺|少)"
_TURN = r"(?:\b(?:and|but|then|unless|instead)\b|[:：—]|但|而)"
_NO_SKILL = re.compile(
    rf"{_NOT}\s*(?:open\w*|load\w*)\s+(?:a |any |the )?skills?\b|(?:不|别|勿)\w{{0,3}}(?:加载|打开)技能", re.I
)
_NO_EMOJI = re.compile(rf"{_NOT}\s*(?:use |any |write |add )*(?:emojis?\b|表情)", re.I)


def hook_findings(harness: Harness) -> Iterator[Finding]:
    for name, count in Counter(hook.id for hook in harness.hooks).items():
        if count > 1:
            yield error("same-id", HARNESS, "hooks", f"{count} hooks with id {name!r}", "each id once")
    for hook in harness.hooks:
        field = f"hooks.{hook.id}"
        if hook.point != POINT_OF_CHECK[hook.check]:
            yield error("hook-point", HARNESS, f"{field}.point", hook.point.value, POINT_OF_CHECK[hook.check].value)
        if not hook.message.strip():
            yield error("empty-message", HARNESS, f"{field}.message", "nothing", "what the agent is to correct")
        yield from _argument_findings(hook, field)
        if hook.check == HookCheck.REPLY_FORMAT:
            yield from _persona_findings(harness, hook, field)
        yield from _contradictions(harness, hook)
    yield from _endings(harness)


def _argument_findings(hook: Hook, field: str) -> Iterator[Finding]:
    allowed = {HookCheck.FORBIDDEN_WORDING: {"words"}, HookCheck.REPLY_FORMAT: {"ends_with", "address"}}
    known = allowed.get(hook.check, set())
    for name in sorted(set(hook.arguments) - known):
        yield error("hook-argument", HARNESS, f"{field}.arguments.{name}", "no such argument", f"{sorted(known)}")
    if hook.check == HookCheck.FORBIDDEN_WORDING:
        words = hook.arguments.get("words")
        if not isinstance(words, list | tuple) or not words or not all(isinstance(w, str) and w.strip() for w in words):
            yield error("hook-argument", HARNESS, f"{field}.arguments.words", repr(words), "a list of words")
    if hook.check == HookCheck.REPLY_FORMAT:
        markers = {name: value for name, value in hook.arguments.items() if name in known}
        if not markers:
            yield error("hook-argument", HARNESS, f"{field}.arguments", "nothing", "ends_with, address or both")
        for name, value in markers.items():
            if not isinstance(value, str) or not value.strip():
                yield error("hook-argument", HARNESS, f"{field}.arguments.{name}", repr(value), "a text")


def _persona_findings(harness: Harness, hook: Hook, field: str) -> Iterator[Finding]:
    prompt = " ".join(text for block in harness.prompt for text in (block.text, *block.items))
    banned = [word for other in harness.hooks for word in other.forbidden_words()]
    for name, marker in _markers(hook).items():
        if marker not in prompt:
            found = f"{marker!r}, which the prompt never states"
            yield warning(
                "marker-unstated", HARNESS, f"{field}.arguments.{name}", found, "a marker that the prompt states"
            )
        for word in banned:
            if _says(word, marker):
                found = f"{marker!r} contains the forbidden {word!r}"
                yield error(
                    "marker-forbidden", HARNESS, f"{field}.arguments.{name}", found, "a marker that may be said"
                )


def _contradictions(harness: Harness, hook: Hook) -> Iterator[Finding]:
    """Sentences that tell the agent to do what `hook` rejects."""
    for file, field, text in instructions(harness):
        for sentence in map(str.strip, re.split(r"[.;!?\n。；！？]", text)):
            wanted = [f"nothing that asks for {w!r}: hook {hook.id} forbids it" for w in _ordered(hook, sentence)]
            wanted += [f"nothing against {m!r}: hook {hook.id} demands it" for m in _banned(hook, sentence)]
            if hook.check == HookCheck.SKILL_LOADED and _NO_SKILL.search(sentence):
                wanted.append(f"nothing against loading a skill: hook {hook.id} demands it")
            for allowed in wanted:
                yield error("rule-contradicts-hook", file, field, repr(sentence[:80]), allowed)


def _endings(harness: Harness) -> Iterator[Finding]:
    """Two hooks that demand different last words: no reply passes both."""
    seen: dict[str, str] = {}
    for hook in harness.hooks:
        ending = _markers(hook).get("ends_with")
        if ending is None:
            continue
        for other, name in seen.items():
            if not other.endswith(ending) and not ending.endswith(other):
                found = f"{ending!r}, while {name} demands {other!r}"
                yield error(
                    "hooks-contradict", HARNESS, f"hooks.{hook.id}.arguments.ends_with", found, "one ending for all"
                )
        seen.setdefault(ending, hook.id)


def _markers(hook: Hook) -> dict[str, str]:
    """The texts that a format hook demands, as they are compared."""
    if hook.check != HookCheck.REPLY_FORMAT:
        return {}
    given = {name: hook.arguments.get(name) for name in ("ends_with", "address")}
    return {name: value.strip() for name, value in given.items() if isinstance(value, str) and value.strip()}


def _says(word: str, text: str) -> bool:
    return word_pattern(word.lower()).search(text.lower()) is not None


def _ordered(hook: Hook, sentence: str) -> list[str]:
    """The words that `hook` forbids and `sentence` asks for."""
    if re.search(_NOT, sentence.lower()):
        return []
    said = {word: rf"{_SAY}.{{0,30}}?{word_pattern(word.lower()).pattern}" for word in hook.forbidden_words()}
    return [word for word, pattern in said.items() if re.search(pattern, sentence.lower())]


def _banned(hook: Hook, sentence: str) -> list[str]:
    """The markers that `hook` demands and `sentence` forbids."""
    return [marker for marker in _markers(hook).values() if _bans(marker, sentence)]


def _bans(marker: str, sentence: str) -> bool:
    """`Never say lovely`, but neither `Never forget to say lovely` nor `Don't rush, and say lovely`."""
    if any(unicodedata.category(sign) == "So" for sign in marker) and _NO_EMOJI.search(sentence):
        return True
    banned = rf"{_NOT}(.{{0,40}}?){word_pattern(marker.lower()).pattern}"
    between = [match[1] for match in re.finditer(banned, sentence.lower())]
    return any(re.search(rf"{_TURN}|{_FORGET}", text) is None for text in between)
