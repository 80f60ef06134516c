"""All augmentation operators: name -> axis, class, how often, and the function that applies it.

*Surface* operators leave what is right unchanged: the same semantic actions are replayed under the new harness.
*Behaviour* operators change it: the oracle realises the reply again. Every operator keeps capabilities, argument
meanings and handled families (`withdraw_tool` takes one capability away) and touches nothing but its own axis, besides
mentions of what it renamed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from components.avatar.harness import prompt_operators as prompt
from components.avatar.harness import skill_operators as skills
from components.avatar.harness import tool_operators as tools
from components.avatar.harness.draw import Draw
from components.avatar.harness.schema import Harness

Axis = Literal["skill_identifier", "skill_content", "tools", "prompt", "hooks"]
Kind = Literal["surface", "behaviour"]


@dataclass(frozen=True)
class Operator:
    """`weight` is the probability of being drawn at strength 1; at strength 0 it is 0.3 of that. Never below
    `from_strength`. `worded` operators write texts of the word banks into the harness, so they apply only to harnesses
    in the banks' language; names are words of the model's vocabulary in any language.
    """

    axis: Axis
    kind: Kind
    weight: float
    apply: Callable[[Harness, Draw], Harness]
    from_strength: float = 0.0
    worded: bool = False


# In the order in which they are applied: renaming before decoys, so that decoys do not count as renamed; reordering
# last.
OPERATORS: dict[str, Operator] = {
    "change_persona": Operator("prompt", "behaviour", 0.35, prompt.change_persona, worded=True),
    "perturb_limits": Operator("prompt", "behaviour", 0.4, prompt.perturb_limits),
    "withdraw_tool": Operator("tools", "behaviour", 0.06, tools.withdraw_tool, from_strength=0.5),
    "rename_tools": Operator("tools", "surface", 0.95, tools.rename_tools),
    "rename_arguments": Operator("tools", "surface", 0.7, tools.rename_arguments),
    "reword_tool_descriptions": Operator("tools", "surface", 0.85, tools.reword_tool_descriptions, worded=True),
    "rename_skills": Operator("skill_identifier", "surface", 0.95, skills.rename_skills),
    "reword_skill_descriptions": Operator(
        "skill_identifier", "surface", 0.75, skills.reword_skill_descriptions, worded=True
    ),
    "add_decoy_tools": Operator("tools", "surface", 0.6, tools.add_decoy_tools, worded=True),
    "add_decoy_skill": Operator("skill_identifier", "surface", 0.3, skills.add_decoy_skill, worded=True),
    "mask_skill_rules": Operator("skill_content", "behaviour", 0.15, skills.mask_skill_rules),
    "reword_skill_rules": Operator("skill_content", "surface", 0.4, skills.reword_skill_rules, worded=True),
    "reword_rule_items": Operator("prompt", "surface", 0.4, prompt.reword_rule_items, worded=True),
    "reword_hook_messages": Operator("hooks", "surface", 0.5, prompt.reword_hook_messages, worded=True),
    "change_hook_retries": Operator("hooks", "behaviour", 0.2, prompt.change_hook_retries),
    "reorder_tools": Operator("tools", "surface", 0.8, tools.reorder_tools),
    "reorder_skills": Operator("skill_identifier", "surface", 0.7, skills.reorder_skills),
    "reorder_skill_rules": Operator("skill_content", "surface", 0.5, skills.reorder_skill_rules),
    "reorder_prompt_blocks": Operator("prompt", "surface", 0.5, prompt.reorder_prompt_blocks),
    "reorder_rule_items": Operator("prompt", "surface", 0.6, prompt.reorder_rule_items),
    "reorder_hooks": Operator("hooks", "surface", 0.3, prompt.reorder_hooks),
}

SURFACE = tuple(name for name, operator in OPERATORS.items() if operator.kind == "surface")
BEHAVIOUR = tuple(name for name, operator in OPERATORS.items() if operator.kind == "behaviour")
