"""The harness as the agent sees it: the text of the system message, and the tools for the chat template.

Kept compact on purpose: every rendered token is paid for at every turn of every episode.
"""

from typing import Any

from components.avatar.harness.schema import Harness, PromptBlock
from components.avatar.harness.system_lines import SYSTEM_LINES


def system_prompt(harness: Harness) -> str:
    """Content of the system message: the prompt's blocks in order, the limits, then one line a skill, in the harness's
    language.

    A skill's line ends with its name in quotes, as a call writes it: a causal model finds a name from the description
    before it, and copies it best when both places split into the same tokens.
    Tools are not in it: the chat template renders `tools_of(harness)`. Skill bodies are not in it: they are shown once
    loaded.
    """
    lines = SYSTEM_LINES[harness.language]
    parts = [text for block in harness.prompt if (text := _block(block))]
    parts.append(lines.limits.format_map(harness.limits.model_dump()))
    if harness.skills:
        parts.append(lines.skills)
        parts.extend(f'- {skill.description} -> "{skill.name}"' for skill in harness.skills)
    return "\n".join(parts)


def tools_of(harness: Harness) -> list[dict[str, Any]]:
    """The tools in OpenAI's form, in prompt order: what the chat template and foreign clients take."""
    return [tool.as_openai() for tool in harness.tools]


def show(harness: Harness) -> str:
    """The harness for a person: modules with their digests, each tool and skill with its meaning."""
    lines = [f"{harness.merchant} ({harness.language}), digest {harness.digest}"]
    lines.append(f"prompt {harness.digests['prompt']}: " + ", ".join(f"{b.id} ({b.kind})" for b in harness.prompt))
    lines.append("  limits: " + ", ".join(f"{name} {value}" for name, value in harness.limits.model_dump().items()))
    lines.append(f"tools {harness.digests['tools']}")
    for tool in harness.tools:
        binding = harness.bindings.get(tool.name)
        meaning = "unbound" if binding is None else binding.capability.value
        lines.append(f"  {tool.name}({', '.join(tool.argument_names())}) -> {meaning}: {tool.description}")
    lines.append(f"skills {harness.digests['skills']}")
    for skill in harness.skills:
        handles = ", ".join(skill.handles) or "nothing"
        lines.append(f"  {skill.name} ({skill.kind}, handles {handles}): {skill.description}")
    lines.append(f"hooks {harness.digests['hooks']}")
    lines.extend(
        f"  {hook.id}: {hook.check.value} at {hook.point.value}, retries {hook.retries}" for hook in harness.hooks
    )
    return "\n".join(lines)


def _block(block: PromptBlock) -> str:
    items = "\n".join(f"- {item}" for item in block.items)
    return "\n".join(part for part in (block.text.strip(), items) if part)
