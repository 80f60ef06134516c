"""Held-out harness edits: what a merchant adds to a harness that lacked it.

An edit is a pair of harness states and what it is wanted for. It counts only if it helps the oracle, which has no names
in memory: before the edit it fails, after it it does not. What an edit brings has a name or a wording that training
never showed; the rest of the harness is the merchant's own, as trained.

| kind | the edit adds | wanted |
|---|---|---|
| new_tool | a tool for a lookup that the harness could not make | the fact is looked up, the reply is accurate |
| new_skill | a reply skill for families that had none | the skill is loaded before the reply |
| new_rule | a form of address and a sign-off, as a rule and its hook | the reply keeps them |
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from components.avatar.agent.surfaces import Surfaces
from components.avatar.agent.types import EpisodeResult
from components.avatar.harness.augment import augment
from components.avatar.harness.schema import Capability, Family, Harness, Hook, HookCheck
from components.avatar.harness.words import word_bank
from components.avatar.simulator.families import needs_of
from components.avatar.simulator.hooks import format_passes
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import Scenario
from components.evaluation.suites import held_out, without

T = TypeVar("T")

Kind = Literal["new_tool", "new_skill", "new_rule"]
KINDS: tuple[Kind, ...] = ("new_tool", "new_skill", "new_rule")


@dataclass(frozen=True)
class Edit:
    """`achieved(result)` is judged the same way before and after."""

    kind: Kind
    what: str  # for people: the name or the words that are new
    before: Harness
    after: Harness
    scenarios: tuple[Scenario, ...]
    achieved: Callable[[EpisodeResult], bool]


def make_edits(merchant: Merchant, n: int, cases: int, seed: int, seen: Surfaces) -> list[Edit]:
    """`n` edits, kinds in turn, each with `cases` test scenarios that it is made for; the same for equal arguments."""
    rng = random.Random(f"edits:{seed}")
    makers = {"new_tool": _new_tools, "new_skill": _new_skills, "new_rule": _new_rules}
    streams = [makers[kind](merchant, cases, rng, seen) for kind in KINDS]
    edits: list[Edit] = []
    while len(edits) < n:
        edits += [next(stream) for stream in streams]
    return edits[:n]


def _new_tools(merchant: Merchant, cases: int, rng: random.Random, seen: Surfaces) -> Iterator[Edit]:
    own = merchant.harness
    pool = sample_scenarios(merchant, 400, seed=rng.randrange(2**31), split="test")
    by_capability: dict[Capability, list[Scenario]] = {}
    for scenario in pool:
        needed = {need.calls[0].capability for q in scenario.questions for need in needs_of(q, own) if need.calls}
        if len(needed) == 1 and not scenario.faults:  # one lookup decides, and nothing else stands in its way
            by_capability.setdefault(needed.pop(), []).append(scenario)
    while True:
        for capability, scenarios in sorted(by_capability.items()):
            changed = held_out(own, rng, 1.0, seen)
            tool = changed.tools_for(capability)[0]
            before = without(own, capability)
            after = before.model_copy(
                update={
                    "tools": _inserted(before.tools, tool, rng),
                    "bindings": before.bindings | {tool.name: changed.bindings[tool.name]},
                }
            )
            chosen = tuple(rng.sample(scenarios, min(cases, len(scenarios))))
            yield Edit("new_tool", tool.name, before, after, chosen, _looked_up(capability))


def _new_skills(merchant: Merchant, cases: int, rng: random.Random, seen: Surfaces) -> Iterator[Edit]:
    own = merchant.harness
    skills = [skill for skill in own.skills if skill.kind == "reply" and skill.handles]
    asked: dict[Family, list[Scenario]] = {}
    for scenario in sample_scenarios(merchant, 400, seed=rng.randrange(2**31), split="test"):
        family = scenario.questions[0].family
        if family is not None and not scenario.faults:
            asked.setdefault(family, []).append(scenario)
    while True:
        for old in skills:
            handled = [scenario for family in old.handles for scenario in asked.get(family, ())]
            changed = held_out(own, rng, 1.0, seen)
            new = next(skill for skill in changed.skills if skill.handles == old.handles and skill.kind == "reply")
            before = own.keeping(skills={skill.name for skill in own.skills} - {old.name})
            after = before.model_copy(update={"skills": _inserted(before.skills, new, rng)})
            chosen = tuple(rng.sample(handled, min(cases, len(handled))))
            yield Edit("new_skill", new.name, before, after, chosen, _loaded(new.name))


def _new_rules(merchant: Merchant, cases: int, rng: random.Random, seen: Surfaces) -> Iterator[Edit]:
    own = merchant.harness
    pool = [s for s in sample_scenarios(merchant, 400, seed=rng.randrange(2**31), split="test") if not s.faults]
    while True:
        after = augment(own, rng, bank=word_bank("heldout"), strength=1.0, operators=["change_persona"]).harness
        hooks = [hook for hook in after.hooks if hook.check == HookCheck.REPLY_FORMAT]
        old = [hook.arguments for hook in own.hooks if hook.check == HookCheck.REPLY_FORMAT]
        if not hooks or [hook.arguments for hook in hooks] == old:
            continue
        markers = [str(value) for hook in hooks for value in hook.arguments.values()]
        prompt = tuple(
            block.model_copy(update={"items": tuple(i for i in block.items if not any(m in i for m in markers))})
            for block in after.prompt
        )
        rest = tuple(hook for hook in after.hooks if hook not in hooks)
        before = after.model_copy(update={"prompt": prompt, "hooks": rest})
        chosen = tuple(rng.sample(pool, cases))
        yield Edit("new_rule", ", ".join(markers), before, after, chosen, _kept(tuple(hooks)))


def _looked_up(capability: Capability) -> Callable[[EpisodeResult], bool]:
    def achieved(result: EpisodeResult) -> bool:
        found = any(call.capability == capability and call.ok and call.expected for call in result.calls)
        return found and bool(result.replies) and all(reply.accuracy == 1 for reply in result.replies)

    return achieved


def _loaded(skill: str) -> Callable[[EpisodeResult], bool]:
    def achieved(result: EpisodeResult) -> bool:
        loads = [call for call in result.calls if call.capability == Capability.LOAD_SKILL and call.ok]
        return bool(result.replies) and any(skill in map(str, call.arguments.values()) for call in loads)

    return achieved


def _kept(hooks: tuple[Hook, ...]) -> Callable[[EpisodeResult], bool]:
    def achieved(result: EpisodeResult) -> bool:
        texts = [reply.text for reply in result.replies]
        return bool(texts) and all(format_passes(text, hook.arguments) for text in texts for hook in hooks)

    return achieved


def _inserted(items: tuple[T, ...], item: T, rng: random.Random) -> tuple[T, ...]:
    place = rng.randint(0, len(items))
    return (*items[:place], item, *items[place:])
