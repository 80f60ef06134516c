"""The cases of an evaluation: T1, T2 (the same scenarios under held-out surfaces), T3 (what breaks agents).

All scenarios come from the merchant's test questions and products. T2's surfaces are drawn from the held-out
vocabulary and wordings, and checked against everything that training has shown."""

import random
from dataclasses import dataclass

from components.avatar.agent.episode import Start
from components.avatar.agent.surfaces import Surfaces, surfaces_of
from components.avatar.errors import Fault, InputError
from components.avatar.harness.augment import augment
from components.avatar.harness.operators import SURFACE
from components.avatar.harness.schema import Capability, Harness
from components.avatar.harness.words import word_bank
from components.avatar.simulator.families import needs_of
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import FaultKind, Scenario, ToolFault
from components.evaluation.settings import Settings

PERMANENT = 99  # more calls than any episode makes


@dataclass(frozen=True)
class Suites:
    """`t1[i]` and `t2[i]` are one scenario under two harnesses; `again[2 * i]` and `again[2 * i + 1]` are the first of
    them under two more held-out states."""

    t1: list[Start]
    t2: list[Start]
    t3: list[Start]
    again: list[Start]

    def by_name(self) -> dict[str, list[Start]]:
        suites = {"T1": self.t1, "T2": self.t2, "T3": self.t3}
        return suites | {"T2_again": self.again} if self.again else suites


def build_suites(merchant: Merchant, settings: Settings, seed: int, seen: Surfaces) -> Suites:
    """Deterministic in (merchant, settings, seed, seen). Raises InputError if a held-out surface was seen in
    training."""
    rng = random.Random(f"suites:{seed}")
    families = settings.families or None
    scenarios = sample_scenarios(merchant, settings.cases, seed=seed, split="test", families=families)
    t2 = [Start(held_out(merchant.harness, rng, settings.strength, seen), scenario) for scenario in scenarios]
    more = random.Random(f"suites:{seed}:again")  # its own: the other suites do not depend on how many these are
    again = [
        Start(held_out(merchant.harness, more, settings.strength, seen), scenario)
        for scenario in scenarios[: settings.pass_cases]
        for _ in range(2)
    ]
    _check_unseen([start.harness for start in (*t2, *again)], merchant.harness, seen)
    robustness = sample_scenarios(merchant, settings.robustness_cases, seed=seed + 1, split="test", families=families)
    return Suites(
        t1=[Start(merchant.harness, scenario) for scenario in scenarios],
        t2=t2,
        t3=[disturbed(merchant.harness, scenario, number, rng) for number, scenario in enumerate(robustness)],
        again=again,
    )


def held_out(harness: Harness, rng: random.Random, strength: float, seen: Surfaces) -> Harness:
    """`harness` under surfaces that training cannot have shown; what is right does not change."""
    operators = [name for name in SURFACE if name.startswith(("rename", "reword", "reorder")) or rng.random() < 0.5]
    exclude = frozenset((*seen.names, *seen.words, *seen.descriptions))
    return augment(
        harness, rng, bank=word_bank("heldout"), strength=strength, operators=operators, exclude=exclude
    ).harness


def disturbed(harness: Harness, scenario: Scenario, number: int, rng: random.Random) -> Start:
    """One of four disturbances in turn: a transient fault, an outage, a missing tool, decoys."""
    capabilities = [need.key for question in scenario.questions for need in needs_of(question, harness) if need.calls]
    kind = ("transient", "outage", "missing_tool", "decoys")[number % 4]
    if kind == "decoys" or not capabilities:
        decoys = ["add_decoy_tools", "add_decoy_skill", "reorder_tools", "reorder_skills"]
        return Start(augment(harness, rng, bank=word_bank("heldout"), strength=1.0, operators=decoys).harness, scenario)
    if kind == "missing_tool":
        return Start(without(harness, capabilities[0]), scenario)
    fault = (
        ToolFault(capability=capabilities[0], kind=rng.choice([FaultKind.TIMEOUT, FaultKind.MALFORMED]))
        if kind == "transient"
        else ToolFault(capability=capabilities[0], kind=FaultKind.OUTAGE, times=PERMANENT)
    )
    return Start(harness, scenario.model_copy(update={"faults": (*scenario.faults, fault)}))


def without(harness: Harness, capability: Capability) -> Harness:
    """`harness` whose tools for `capability` the merchant withdrew."""
    gone = {tool.name for tool in harness.tools_for(capability)}
    return harness.keeping(tools={tool.name for tool in harness.tools} - gone)


def _check_unseen(held: list[Harness], own: Harness, seen: Surfaces) -> None:
    """Names and descriptions of T2 occur nowhere in training."""
    drawn = surfaces_of(held)
    overlap = sorted(set(drawn.names) & set(seen.names)) + sorted(set(drawn.descriptions) & set(seen.descriptions))
    if overlap:
        raise InputError(
            [Fault("surfaces.json", "surfaces", ", ".join(overlap[:10]), "none of the held-out surfaces of T2")]
        )
