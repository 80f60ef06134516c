"""Lint of the texts that the agent reads: references that lead nowhere, numbers that differ from the limits, signs that
do not belong into a prompt.
"""

import json
import re
from collections.abc import Iterator

from components.avatar.harness.findings import Finding, error, warning
from components.avatar.harness.lint_tools import HARNESS, TOOLS
from components.avatar.harness.render import tools_of
from components.avatar.harness.schema import Capability, Harness

CALL_MARKERS = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
HIDDEN = re.compile("[\u200b\u2060\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")

# How texts state a limit, in English and Chinese; one group a wording.
_N = r"(?<!\d)(\d{1,6})\s{0,2}"
STATED_LIMITS = {
    "reply_words": rf"\b(\d{{1,6}})[ -]words?\b|{_N}个?[字词]",
    "tool_calls": rf"\b(\d{{1,6}}) (?:tool )?calls\b|{_N}次(?:工具)?调用|调用(?:工具)?[^\d。；]{{0,6}}{_N}次",
    "turns": rf"\b(\d{{1,6}}) (?:turns|messages)\b|{_N}(?:轮|条消息)",
}

Text = tuple[str, str, str]  # file, field, text


def instructions(harness: Harness) -> Iterator[Text]:
    """Every text that tells the agent what to do, with its place: prompt, skill bodies, hook messages."""
    for block in harness.prompt:
        yield from ((HARNESS, f"prompt.{block.id}", text) for text in (block.text, *block.items) if text)
    for skill in harness.skills:
        yield f"skills/{skill.name}/SKILL.md", "body", skill.body
    for hook in harness.hooks:
        yield HARNESS, f"hooks.{hook.id}.message", hook.message


def descriptions(harness: Harness) -> Iterator[Text]:
    for tool in harness.tools:
        yield TOOLS, f"{tool.name}.description", tool.description
    for skill in harness.skills:
        yield f"skills/{skill.name}/SKILL.md", "description", skill.description


def text_findings(harness: Harness) -> Iterator[Finding]:
    yield from _sign_findings(harness)
    yield from _limit_findings(harness)
    yield from _reference_findings(harness)
    yield from _listed_skill_findings(harness)


def _sign_findings(harness: Harness) -> Iterator[Finding]:
    """Also in names and in schemas: all of it stands in the prompt."""
    shown = [*instructions(harness), *descriptions(harness)]
    shown += [(TOOLS, tool["function"]["name"], json.dumps(tool, ensure_ascii=False)) for tool in tools_of(harness)]
    shown += [("skills", "name", skill.name) for skill in harness.skills]
    for file, field, text in shown:
        if file == TOOLS and field.endswith(".description"):
            continue  # it stands in the tool's JSON as well
        for marker in CALL_MARKERS:
            if marker in text:
                allowed = "no marker of the chat format (it is neutralised)"
                yield warning("call-marker", file, field, repr(marker), allowed)
        hidden = sorted({f"U+{ord(sign):04X}" for sign in HIDDEN.findall(text)})
        if hidden:
            yield warning("hidden-text", file, field, ", ".join(hidden), "only signs that a reader can see")


def _limit_findings(harness: Harness) -> Iterator[Finding]:
    for limit, pattern in STATED_LIMITS.items():
        actual = getattr(harness.limits, limit)
        for file, field, text in instructions(harness):
            for match in re.finditer(pattern, text):
                number = next(group for group in match.groups() if group)
                if int(number) != actual:
                    found = f"{match[0]!r}, but limits.{limit} is {actual}"
                    yield error("limits-contradict", file, field, found, "the same number in both")


def _reference_findings(harness: Harness) -> Iterator[Finding]:
    """Names in backticks must exist; a bare word with an underscore, and quoted text that can be no name, is only
    warned about.
    """
    names = {item.name for item in (*harness.tools, *harness.skills)}
    names |= {argument for tool in harness.tools for argument in tool.argument_names()}
    allowed = "a tool, skill or argument"
    told = list(instructions(harness))
    for file, field, text in (*told, *descriptions(harness)):
        quoted = re.findall(r"`([^`\n]+)`", text)
        for name in quoted:
            if name not in names:
                finding = warning if re.search(r"[\s()/]", name) else error
                yield finding("dead-reference", file, field, f"`{name}`", allowed)
        for target in re.findall(r"\]\((?![a-z]+:|#)([^)\s]{1,300})\)", text):
            yield warning(
                "dead-reference", file, field, f"a link to {target}", "all text here: an agent opens no files"
            )
    for file, field, text in told:  # in a description such a word is often a value that an argument takes
        for name in re.findall(r"(?<![\w`|])[A-Za-z]\w*_\w+(?![\w`|])", text):
            if name not in names and f"`{name}`" not in text:
                yield warning("dead-reference", file, field, name, allowed)


def _listed_skill_findings(harness: Harness) -> Iterator[Finding]:
    """The skills that the loading tool's own schema lists, where it does, are the harness's skills."""
    skills = {skill.name for skill in harness.skills}
    for tool in harness.tools_for(Capability.LOAD_SKILL):
        for argument, schema in tool.parameters.get("properties", {}).items():
            listed = schema.get("enum")
            if harness.bindings[tool.name].arguments.get(argument) != "skill" or not isinstance(listed, list):
                continue
            field = f"{tool.name}.parameters.{argument}.enum"
            for name in listed:
                if name not in skills:
                    yield error("dead-reference", TOOLS, field, repr(name), f"one of {sorted(skills)}")
            for name in sorted(skills - {name for name in listed if isinstance(name, str)}):
                yield error("skill-not-listed", TOOLS, field, f"no {name!r}", "every skill: others can't be loaded")
