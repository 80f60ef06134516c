"""What is wrong with a harness that loads.

`load_harness` already refuses what has no shape (an unknown capability, a skill without front matter, a limit out of
range); this looks at what the parts mean together.
"""

from collections import Counter
from collections.abc import Iterator

from components.avatar.harness.findings import Finding, error, warning
from components.avatar.harness.lint_hooks import hook_findings
from components.avatar.harness.lint_needs import need_findings
from components.avatar.harness.lint_texts import text_findings
from components.avatar.harness.lint_tools import HARNESS, name_findings, tool_findings
from components.avatar.harness.names import clean_name
from components.avatar.harness.schema import Capability, Family, Harness

PROMPT_BUDGET = 450  # tokens of the rendered system message in profile `local` (issue A)


def lint(harness: Harness, tokens: int | None = None, budget: int = PROMPT_BUDGET) -> list[Finding]:
    """All findings, errors first. `tokens`: size of the rendered system message, tools included; without it the size
    is not judged.
    """
    findings = [
        *tool_findings(harness),
        *_skill_findings(harness),
        *_prompt_findings(harness),
        *text_findings(harness),
        *need_findings(harness),
        *hook_findings(harness),
    ]
    if tokens is not None and tokens > budget:
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
