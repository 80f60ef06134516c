"""What is wrong with a harness that loads.

`load_harness` already refuses what has no shape (an unknown capability, a skill without front matter, a limit out of
range); this looks at what the parts mean together.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from components.avatar.harness.edits import texts, word_pattern
from components.avatar.harness.findings import Finding, error, warning
from components.avatar.harness.lint_tools import HARNESS, name_findings, tool_findings
from components.avatar.harness.names import clean_name
from components.avatar.harness.schema import Capability, Family, Harness, Hook, HookCheck, HookPoint

PROMPT_BUDGET = 450  # tokens of the rendered system message in profile `local` (issue A)

POINT_OF_CHECK = {
    HookCheck.INPUT_VALID: HookPoint.BEFORE_TURN,
    HookCheck.TOOL_ARGUMENTS: HookPoint.BEFORE_CALL,
    HookCheck.SKILL_LOADED: HookPoint.BEFORE_REPLY,
    HookCheck.REPLY_LENGTH: HookPoint.BEFORE_REPLY,
    HookCheck.REPLY_FORMAT: HookPoint.BEFORE_REPLY,
    HookCheck.FACT_CHECK: HookPoint.BEFORE_REPLY,
    HookCheck.FORBIDDEN_WORDING: HookPoint.BEFORE_REPLY,
}

CALL_MARKERS = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")


def lint(
    harness: Harness, token_count: Callable[[Harness], int] | None = None, budget: int = PROMPT_BUDGET
) -> list[Finding]:
    """All findings, errors first. `token_count` gives the tokens of the rendered system message, tools included;
    without it the size is not judged."""
    findings = [
        *tool_findings(harness),
        *_skill_findings(harness),
        *_prompt_findings(harness),
        *_limit_findings(harness),
        *_hook_findings(harness),
        *_reference_findings(harness),
    ]
    if token_count is not None and (tokens := token_count(harness)) > budget:
        findings.append(warning("prompt-too-long", HARNESS, "prompt", f"{tokens} tokens", f"at most {budget}"))
    return sorted(findings, key=lambda finding: finding.severity != "error")


def _skill_findings(harness: Harness) -> Iterator[Finding]:
    yield from name_findings((skill.name for skill in harness.skills), "skills", "name")
    tools = {clean_name(tool.name) for tool in harness.tools}
    handled: dict[Family, str] = {}
    for skill in harness.skills:
        file = f"skills/{skill.name}/SKILL.md"
        if clean_name(skill.name) in tools:
            yield warning("name-collision", file, "name", f"{skill.name!r} is also a tool", "a name of its own")
        if not skill.description.strip():
            yield error("empty-description", file, "description", "nothing", "when the skill is to be loaded")
        if not skill.body.strip():
            yield warning("empty-body", file, "body", "nothing", "what to do once the skill is loaded")
        if skill.kind == "reply" and not skill.handles:
            yield warning(
                "idle-skill", file, "handles", "no family", "at least one family: else loading it is never right"
            )
        for family in skill.handles if skill.kind == "reply" else ():
            if family in handled:
                found = f"{family}, as does {handled[family]}"
                yield warning("family-handled-twice", file, "handles", found, "each family in one reply skill")
            handled.setdefault(family, skill.name)
    if not handled:
        yield error("no-reply-skill", "skills", "kind", "no reply skill that handles a family", "at least one")
    if harness.skills and not harness.tools_for(Capability.LOAD_SKILL):
        yield error(
            "no-load-skill", HARNESS, "bindings", "no tool is bound to load_skill", "one: else no skill can be loaded"
        )


def _prompt_findings(harness: Harness) -> Iterator[Finding]:
    for name, count in Counter(block.id for block in harness.prompt).items():
        if count > 1:
            yield error("same-id", HARNESS, "prompt", f"{count} blocks with id {name!r}", "each id once")
    for block in harness.prompt:
        if not block.text.strip() and not any(item.strip() for item in block.items):
            yield warning("empty-block", HARNESS, f"prompt.{block.id}", "neither text nor items", "content")
    if not any(block.kind == "identity" for block in harness.prompt):
        yield warning("no-identity", HARNESS, "prompt", "no block of kind identity", "who the agent speaks as")
    shown = [*texts(harness), *(item.description for item in (*harness.tools, *harness.skills))]
    for marker in CALL_MARKERS:
        if any(marker in text for text in shown):
            yield warning(
                "call-marker", HARNESS, "texts", repr(marker), "no marker of the chat format (it is neutralised)"
            )


def _limit_findings(harness: Harness) -> Iterator[Finding]:
    limits = harness.limits
    stated = (("reply_words", r"words"), ("tool_calls", r"(?:tool )?calls"), ("turns", r"(?:turns|messages)"))
    for limit, unit in stated:
        actual = getattr(limits, limit)
        for text in texts(harness):
            for number in re.findall(rf"\b(\d+) {unit}\b", text):
                if int(number) != actual:
                    found = f"{number} in {text[:60]!r}, {actual} in limits"
                    yield error("limits-contradict", HARNESS, f"limits.{limit}", found, "the same number in both")
    families = {family for skill in harness.skills for family in skill.handles}
    needed = 3 if Family.PRICE_AFTER_COUPON in families else 2
    if limits.tool_calls < needed:
        found = f"{limits.tool_calls}, but the skill and {needed - 1} lookups are {needed} calls"
        yield error("limit-too-low", HARNESS, "limits.tool_calls", found, f"at least {needed}")


def _hook_findings(harness: Harness) -> Iterator[Finding]:
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
    for name in ("ends_with", "address"):
        marker = hook.arguments.get(name)
        if not isinstance(marker, str) or not marker.strip():
            continue
        if marker not in prompt:
            found = f"{marker!r}, which the prompt never states"
            yield warning(
                "marker-unstated", HARNESS, f"{field}.arguments.{name}", found, "a marker that the prompt states"
            )
        for word in banned:
            if word_pattern(word.lower()).search(marker.lower()):
                found = f"{marker!r} contains the forbidden {word!r}"
                yield error(
                    "marker-forbidden", HARNESS, f"{field}.arguments.{name}", found, "a marker that may be said"
                )


def _reference_findings(harness: Harness) -> Iterator[Finding]:
    """Names in backticks must exist; a bare word with an underscore is taken for a name as well, but only warned
    about.
    """
    names = {item.name for item in (*harness.tools, *harness.skills)}
    names |= {argument for tool in harness.tools for argument in tool.argument_names()}
    for text in texts(harness):
        quoted = re.findall(r"`([^`\n]+)`", text)
        for name in quoted:
            if name not in names:
                yield error(
                    "dead-reference", HARNESS, "texts", f"`{name}` in {text[:60]!r}", "a tool, skill or argument"
                )
        for name in re.findall(r"(?<![\w`])[A-Za-z]\w*_\w+(?![\w`])", text):
            if name not in names and name not in quoted:
                yield warning(
                    "dead-reference", HARNESS, "texts", f"{name} in {text[:60]!r}", "a tool, skill or argument"
                )
