"""Harness-state augmentation (HSA): the same trajectories under the merchant's own harness and under fresh variants of
it.

Two arms of training data, row for row the same scenarios: `fixed.jsonl` (the baseline's) and `hsa.jsonl` (ours). A
variant of surface operators replays the recorded semantic actions; after a behaviour operator the oracle realises the
reply again. Nothing guesses what is right under a changed harness: a row is kept only if the simulator's verifiers
give it full reward.

    python -m components.harness_augmentation --merchant DIR --trajectories DIR --base-model DIR --output OUT
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from components.avatar.agent.actors import SCRIPTED_MAX_TOKENS, ScriptedActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.examples import (
    Example,
    Trajectory,
    example_from_episode,
    poor_rewards,
    read_rows,
    to_ids,
    training_tokens,
    write_rows,
)
from components.avatar.agent.plans import Plan
from components.avatar.agent.surfaces import surfaces_of
from components.avatar.agent.types import EpisodeResult
from components.avatar.errors import InputError, SystemFault, file_fault
from components.avatar.harness.augment import Variant, augment
from components.avatar.harness.schema import Harness
from components.avatar.harness.thin import thinned
from components.avatar.harness.words import word_bank
from components.avatar.simulator.families import intent, needs_of
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.oracle import Unrealisable
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.stream import rename_in_events
from components.avatar.simulator.types import StopReason
from components.harness_augmentation.settings import Settings
from components.integrations.metrics import Metric, write_json
from components.integrations.progress import Progress


@dataclass
class Tally:
    """What happened to the variants, by operator."""

    tried: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def count(self, variant: Variant, reason: str) -> None:
        self.tried.update(variant.operators)
        if reason:
            self.rejected.update(variant.operators)
            self.reasons[reason] += 1


@dataclass(frozen=True)
class Pair:
    """The same trajectory in both arms, with the training ids."""

    fixed: Example
    hsa: Example
    fixed_ids: list[int]
    hsa_ids: list[int]


def run(
    *,
    merchant: Path,
    trajectories: Path,
    base_model: Path,
    output: Path,
    settings: Settings,
    seed: int,
    progress: Progress,
) -> dict[str, Metric]:
    """Write `output/fixed.jsonl`, `output/hsa.jsonl` (equal numbers of rows), `output/surfaces.json` and
    `output/augmentation.json`.

    `trajectories` is the folder of teacher_generation; `base_model` a transformers folder whose tokenizer counts
    tokens. Raises InputError for unreadable input, SystemFault when no row is left.
    """
    from transformers import AutoTokenizer

    world = load_merchant(merchant)
    chat = Chat(AutoTokenizer.from_pretrained(base_model))
    source = trajectories / "trajectories.jsonl"
    rows = read_rows(source, Trajectory)
    if not rows:
        raise InputError([file_fault(source, "no trajectory", "at least one")])

    builder = Builder(world, chat, settings, seed)
    groups: list[list[Pair]] = []
    total = len(rows) * settings.variants_per_trajectory
    done = 0
    for size, group in builder.groups(rows):
        groups.append(group)
        done += size
        progress.update(done, total, kept=sum(map(len, groups)))
    built = sum(map(len, groups))
    groups = fit(groups, settings.max_tokens_per_arm)
    pairs = [pair for group in groups for pair in group]
    if not pairs:
        raise SystemFault(f"no example fits {settings.max_tokens_per_arm} tokens; {dict(builder.tally.reasons)}")

    fixed, hsa = [pair.fixed for pair in pairs], [pair.hsa for pair in pairs]
    write_rows(output / "fixed.jsonl", fixed)
    write_rows(output / "hsa.jsonl", hsa)
    states = {example.harness_digest: example.harness for example in (*fixed, *hsa)}
    surfaces = surfaces_of(states.values())
    write_json(output / "surfaces.json", surfaces.model_dump(mode="json"))
    tokens = {arm: sum(_tokens(group, arm) for group in groups) for arm in ("fixed", "hsa")}
    report = {
        "rows": {"wanted": total, "built": built, "kept": len(pairs), "dropped": builder.dropped},
        "tokens": tokens,
        "trajectories_per_variant": settings.trajectories_per_variant,
        "operators": {
            name: {"tried": n, "rejected": builder.tally.rejected[name]}
            for name, n in sorted(builder.tally.tried.items())
        },
        "rejections": dict(builder.tally.reasons.most_common()),
    }
    write_json(output / "augmentation.json", report)
    progress.note(f"{len(pairs)} rows an arm ({built} built); tokens: fixed {tokens['fixed']}, hsa {tokens['hsa']}")
    rejected = sum(builder.tally.reasons.values())
    augmented = sum(example.harness_digest != world.harness.digest for example in hsa)
    return {
        "examples": Metric(len(pairs), 1),
        "tokens.fixed": Metric(tokens["fixed"], len(pairs)),
        "tokens.hsa": Metric(tokens["hsa"], len(pairs)),
        "augmented_share": Metric(augmented / len(pairs), len(pairs)),
        "rejection_rate": Metric(rejected / max(1, rejected + built), rejected + built),
        "harness_states": Metric(len(states), 1),
        "surface_names": Metric(len(surfaces.names), 1),
        "retry_share": Metric(
            sum(any(s.kind == "correction" for s in e.segments) for e in hsa) / len(pairs), len(pairs)
        ),
    }


@dataclass(frozen=True)
class Level:
    """A point of the curriculum: strength of the operators, share of the unneeded tools and skills that stay."""

    strength: float
    unneeded: float


class Builder:
    """Makes the rows of both arms; everything random derives from the seed and the row."""

    def __init__(self, world: Merchant, chat: Chat, settings: Settings, seed: int) -> None:
        self.world, self.chat, self.settings, self.seed = world, chat, settings, seed
        self.tally = Tally()
        self.dropped = 0
        self._shown: set[str] = set()  # contents of the hsa rows so far
        self._own: dict[str, tuple[Example, list[int]] | None] = {}

    def groups(self, rows: Sequence[Trajectory]) -> Iterator[tuple[int, list[Pair]]]:
        """(number of rows tried, rows kept) of each run of neighbours that share a variant, along the curriculum of
        strength."""
        size = self.settings.trajectories_per_variant
        plan = []
        for epoch in range(self.settings.variants_per_trajectory):
            order = list(rows)
            random.Random(f"order:{self.seed}:{epoch}").shuffle(order)
            plan += [(epoch, order[first : first + size]) for first in range(0, len(order), size)]
        for number, (epoch, members) in enumerate(plan):
            level = self._level(number / max(1, len(plan) - 1))
            rng = random.Random(f"variant:{self.seed}:{number}")
            pairs = self._group(members, epoch, level, rng)
            self.dropped += len(members) - len(pairs)
            yield len(members), pairs

    def _level(self, part: float) -> Level:
        """How hard the variants are when `part` of the curriculum (0 to 1) is behind."""
        settings = self.settings
        return Level(
            strength=settings.strength_start + part * (settings.strength_end - settings.strength_start),
            unneeded=settings.unneeded_start + part * (1 - settings.unneeded_start),
        )

    def _group(self, members: Sequence[Trajectory], epoch: int, level: Level, rng: random.Random) -> list[Pair]:
        own = rng.random() < self.settings.original_share
        shared = None if own else self._variant(members, level, rng)
        pairs = []
        for trajectory in members:
            name = f"{trajectory.scenario.id}/{epoch}"
            fixed = self._fixed(trajectory)
            if fixed is None:
                continue
            if shared is None and self._is_new(fixed[0]):
                hsa = fixed
            else:  # small talk repeats itself: a row that the merchant's own harness has shown already gets a variant
                hsa = self._augmented(name, trajectory, shared or self._variant([trajectory], level, rng), level, rng)
            if hsa is not None:
                pairs.append(Pair(_named(fixed[0], name), _named(hsa[0], name), fixed[1], hsa[1]))
        return pairs

    def _fixed(self, trajectory: Trajectory) -> tuple[Example, list[int]] | None:
        key = trajectory.scenario.id
        if key not in self._own:
            plan = Plan(trajectory.actions, trajectory.mistake)
            self._own[key] = self._play(
                key, trajectory.scenario, self.world.harness, plan, Variant(self.world.harness, (), {}), 0.0
            )[0]
        return self._own[key]

    def _augmented(
        self, name: str, trajectory: Trajectory, shared: Variant, level: Level, rng: random.Random
    ) -> tuple[Example, list[int]] | None:
        """The trajectory under `shared`, or under a fresh variant if the verifiers reject that; None when all attempts
        are spent."""
        variant = shared
        for attempt in range(self.settings.attempts):
            if attempt:
                variant = self._variant([trajectory], level, rng)
            recorded = None if variant.behaviour else trajectory.actions
            events = rename_in_events(trajectory.scenario.events, variant.renamed)
            scenario = trajectory.scenario.model_copy(update={"events": events}) if events else trajectory.scenario
            made, reason = self._play(
                name, scenario, variant.harness, Plan(recorded, trajectory.mistake), variant, level.strength
            )
            if made is not None and not self._is_new(made[0]):
                made, reason = None, "duplicate"
            self.tally.count(variant, reason)
            if made is not None:
                return made
        return None

    def _is_new(self, example: Example) -> bool:
        """Whether the hsa arm lacks this harness and transcript; it counts as shown from now on."""
        content = example.content
        new = content not in self._shown
        self._shown.add(content)
        return new

    def _variant(self, members: Sequence[Trajectory], level: Level, rng: random.Random) -> Variant:
        """A fresh variant for the questions of `members`."""
        variant = augment(
            self.world.harness,
            rng,
            bank=word_bank("train"),
            strength=level.strength,
            operators=self.settings.operators or None,
        )
        questions = [question for member in members for question in member.scenario.questions]
        needs = [need for question in questions for need in needs_of(question, self.world.harness)]
        harness = thinned(
            variant.harness,
            {call.capability for need in needs for call in need.calls},
            {intent(question) for question in questions} | {q.family for q in questions if q.family is not None},
            level.unneeded,
            rng,
        )
        return replace(variant, harness=harness)

    def _play(
        self, name: str, scenario: Scenario, harness: Harness, plan: Plan, variant: Variant, strength: float
    ) -> tuple[tuple[Example, list[int]] | None, str]:
        """(example and ids, "") or (None, why it was rejected)."""
        actor = ScriptedActor(self.chat, lambda state: plan.turn(state.session).text)
        limit = self.settings.max_example_tokens
        room = limit + SCRIPTED_MAX_TOKENS  # the loop keeps room for a longest turn; the real length is checked here
        try:
            [result] = run_episodes(
                [Start(harness, scenario)], actor, self.chat, self.world.catalogue, max_context=room
            )
        except Unrealisable as error:
            return None, str(error)
        reason = rejection(result, plan.missteps, len(scenario.questions))
        if not reason and len(result.prompt_ids) + len(result.completion_ids) > limit:
            reason = "too long"
        if reason:
            return None, reason
        first = Session(harness, self.world.catalogue, scenario).begin().content
        example = example_from_episode(
            name, scenario, harness, first, result, variant.operators, strength, plan.slipped_at
        )
        ids, _ = to_ids(example, self.chat)
        if ids != [*result.prompt_ids, *result.completion_ids]:
            raise SystemFault(f"example {name}: its training ids are not those of the episode")
        return (example, ids), ""


def rejection(result: EpisodeResult, missteps: int = 0, questions: int = 1) -> str:
    """Why the verifiers reject an episode; "" when it earns full reward, less what `missteps` cost. Raises SystemFault
    when our own side failed."""
    if result.stop == StopReason.SYSTEM_FAULT or result.score is None:
        raise SystemFault(f"scenario {result.scenario_id}: {result.error}")
    if result.stop != StopReason.DONE:
        return str(result.stop)
    return ", ".join(poor_rewards(result.score, missteps, questions))


def fit(groups: list[list[Pair]], budget: int) -> list[list[Pair]]:
    """The largest evenly spaced part of `groups` (so that the whole curriculum stays) of which both arms fit `budget`
    tokens."""
    groups = [group for group in groups if group]
    tokens = [(_tokens(group, "fixed"), _tokens(group, "hsa")) for group in groups]
    longer = max((sum(arm) for arm in zip(*tokens, strict=True)), default=0)
    # Even spacing makes the tokens of a part about proportional to its size: start a little above and walk down.
    first = len(groups) if longer <= budget else min(len(groups), len(groups) * budget // longer + 8)
    for count in range(first, 0, -1):
        chosen = [number * len(groups) // count for number in range(count)]
        if max(sum(tokens[number][arm] for number in chosen) for arm in (0, 1)) <= budget:
            return [groups[number] for number in chosen]
    return []


def _tokens(group: list[Pair], arm: str) -> int:
    examples = [getattr(pair, arm) for pair in group]
    return training_tokens(examples, [getattr(pair, f"{arm}_ids") for pair in group], len(group))


def _named(example: Example, name: str) -> Example:
    return example.model_copy(update={"id": name})
