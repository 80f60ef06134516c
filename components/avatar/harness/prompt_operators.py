"""Operators on the system prompt and the hooks: order, wording, limits, persona, correction messages, retries."""

import re

from components.avatar.harness import edits
from components.avatar.harness.draw import Draw
from components.avatar.harness.rewording import reword_rule
from components.avatar.harness.schema import Harness, Hook, HookCheck, Limits
from components.avatar.harness.script import whole

# The shortest complete reply (address, two facts, sign-off) takes about a dozen words: a lower limit would make a
# question unanswerable.
MIN_REPLY_WORDS = 16
# load_skill, two lookups and one retry after a transient fault.
MIN_TOOL_CALLS = 4


def reorder_prompt_blocks(harness: Harness, draw: Draw) -> Harness:
    return harness.model_copy(update={"prompt": tuple(draw.rng.sample(harness.prompt, len(harness.prompt)))})


def reorder_rule_items(harness: Harness, draw: Draw) -> Harness:
    prompt = tuple(
        block.model_copy(update={"items": tuple(draw.rng.sample(block.items, len(block.items)))})
        if block.items
        else block
        for block in harness.prompt
    )
    return harness.model_copy(update={"prompt": prompt})


def reword_rule_items(harness: Harness, draw: Draw) -> Harness:
    prompt = tuple(
        block.model_copy(update={"items": tuple(reword_rule(item, draw) for item in block.items)})
        if block.items
        else block
        for block in harness.prompt
    )
    return harness.model_copy(update={"prompt": prompt})


def perturb_limits(harness: Harness, draw: Draw) -> Harness:
    """Moves each limit within its legal range, not below what an answer needs; a text that states the old number
    follows.
    """
    old = harness.limits
    limits = Limits(
        reply_words=draw.rng.randint(min(old.reply_words, MIN_REPLY_WORDS), min(120, old.reply_words + 20)),
        tool_calls=draw.rng.randint(min(old.tool_calls, MIN_TOOL_CALLS), min(12, old.tool_calls + 3)),
        turns=draw.rng.randint(old.turns, min(20, old.turns + 6)),
    )
    harness = harness.model_copy(update={"limits": limits})
    stated = re.compile(whole(str(old.reply_words)) + r"(?= words\b|个?字)")
    if stated.search("\n".join(edits.texts(harness))):
        harness = edits.edit_texts(harness, lambda text: stated.sub(str(limits.reply_words), text))
    return harness


def change_persona(harness: Harness, draw: Draw) -> Harness:
    """Another form of address and sign-off, in the hook that checks them and in every text that states them.

    A marker that the prompt does not state is left alone: the agent could not know the new one.
    """
    stated = " ".join(text for block in harness.prompt for text in (block.text, *block.items))
    banned = [word.lower() for hook in harness.hooks for word in hook.forbidden_words()]
    for marker, wordings in (("address", draw.banks.persona.address), ("ends_with", draw.banks.persona.ends_with)):
        for old in {hook.arguments.get(marker) for hook in harness.hooks if hook.check == HookCheck.REPLY_FORMAT}:
            if not isinstance(old, str) or not old or edits.word_pattern(old).search(stated) is None:
                continue
            allowed = [text for text in wordings.of(draw.split) if not any(word in text.lower() for word in banned)]
            new = draw.fresh(allowed, old)
            if new is None:
                continue
            pattern = edits.word_pattern(old)
            harness = edits.edit_texts(harness, lambda text, p=pattern, n=new: p.sub(n, text))
            hooks = tuple(_marked(hook, marker, old, new) for hook in harness.hooks)
            harness = harness.model_copy(update={"hooks": hooks})
    return harness


def reword_hook_messages(harness: Harness, draw: Draw) -> Harness:
    hooks = []
    for hook in harness.hooks:
        if draw.hits():
            messages = draw.banks.hook_messages[hook.check].of(draw.split)
            if hook.check == HookCheck.REPLY_FORMAT and not {"address", "ends_with"} <= set(hook.arguments):
                messages = ()  # the bank's messages state both markers
            fillers = {marker: str(hook.arguments.get(marker, "")) for marker in ("address", "ends_with")}
            filled = [message.format(**fillers) if "{" in message else message for message in messages]
            new = draw.fresh(filled, hook.message)
            hook = hook.model_copy(update={"message": new}) if new is not None else hook
        hooks.append(hook)
    return harness.model_copy(update={"hooks": tuple(hooks)})


def change_hook_retries(harness: Harness, draw: Draw) -> Harness:
    """Another number of retries (1 to 3) for some hooks; 0 stays out of it, for then a correction could never be
    learnt from.
    """
    hooks = tuple(
        hook.model_copy(update={"retries": draw.rng.choice([n for n in (1, 2, 3) if n != hook.retries])})
        if draw.hits()
        else hook
        for hook in harness.hooks
    )
    return harness.model_copy(update={"hooks": hooks})


def reorder_hooks(harness: Harness, draw: Draw) -> Harness:
    """Which of two failing checks speaks first changes; what is right does not."""
    return harness.model_copy(update={"hooks": tuple(draw.rng.sample(harness.hooks, len(harness.hooks)))})


def _marked(hook: Hook, marker: str, old: str, new: str) -> Hook:
    if hook.check != HookCheck.REPLY_FORMAT or hook.arguments.get(marker) != old:
        return hook
    return hook.model_copy(update={"arguments": hook.arguments | {marker: new}})
