"""Laws of augmentation: meaning stays, names are fresh and legal, the halves never meet, chance comes from the seed."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.avatar.harness.augment import augment, descriptions, names, surfaces, words
from components.avatar.harness.edits import texts
from components.avatar.harness.lint import lint
from components.avatar.harness.names import clean_name, name_words
from components.avatar.harness.operators import BEHAVIOUR, OPERATORS, SURFACE
from components.avatar.harness.render import system_prompt
from components.avatar.harness.schema import Capability, Harness
from components.avatar.harness.words import Split, word_bank

SEEDS = st.integers(0, 2**32)
SPLITS = st.sampled_from(["train", "heldout"])


def meaning(harness: Harness, with_tools: bool = True) -> dict:
    """Everything that must survive any operator; decoys aside."""
    bound = [(tool, harness.bindings[tool.name]) for tool in harness.tools]
    real = [(tool, binding) for tool, binding in bound if binding.capability != Capability.DECOY]
    kept = {
        "handles": Counter((s.kind, s.handles) for s in harness.skills if s.handles or s.kind == "strategy"),
        "checks": Counter((hook.id, hook.point, hook.check) for hook in harness.hooks),
        "blocks": Counter((block.id, block.kind, len(block.items)) for block in harness.prompt),
    }
    if with_tools:
        kept["tools"] = Counter(
            (
                binding.capability,
                tuple(sorted(binding.arguments.values())),
                tuple(sorted(binding.arguments.get(name, name) for name in tool.required())),
                tuple(sorted((binding.arguments.get(n, n), str(s["type"])) for n, s in schemas(tool).items())),
            )
            for tool, binding in real
        )
    return kept


def schemas(tool) -> dict:
    return tool.parameters["properties"]


def check_laws(harness: Harness, variant) -> None:
    new = variant.harness
    assert meaning(new, "withdraw_tool" not in variant.operators) == meaning(
        harness, "withdraw_tool" not in variant.operators
    )
    assert Harness.model_validate(new.model_dump(mode="json")) == new, "an operator left the legal range"
    assert [finding for finding in lint(new) if finding.severity == "error"] == []
    for tool in new.tools:
        assert len({clean_name(name) for name in tool.argument_names()}) == len(tool.argument_names())
        assert tool.description.strip()
    everything = [item.name for item in (*new.tools, *new.skills)]
    assert len({clean_name(name) for name in everything}) == len(everything)
    assert max(map(len, names(new))) <= 64
    assert set(new.bindings) == {tool.name for tool in new.tools}
    assert (new.digest == harness.digest) == (variant.operators == ()) == (new == harness)


@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_keeps_the_meaning_and_does_something(harness: Harness, name: str) -> None:
    bank = word_bank("train")
    variants = [augment(harness, random.Random(n), bank=bank, strength=1, operators=[name]) for n in range(20)]
    for variant in variants:
        check_laws(harness, variant)
        assert set(variant.operators) <= {name}
        assert variant.behaviour == (name in BEHAVIOUR and bool(variant.operators))
    assert sum(bool(variant.operators) for variant in variants) >= 10
    assert len({variant.harness.digest for variant in variants}) >= 3


@pytest.mark.parametrize("pair", list(itertools.combinations(OPERATORS, 2)), ids="+".join)
def test_each_pair_keeps_the_meaning(harness: Harness, pair: tuple[str, str]) -> None:
    for seed, split in enumerate(("train", "heldout")):
        check_laws(harness, augment(harness, random.Random(seed), bank=word_bank(split), strength=1, operators=pair))


@settings(max_examples=150, deadline=None)
@given(seed=SEEDS, split=SPLITS, strength=st.floats(0, 1))
def test_any_draw_keeps_the_meaning(harness: Harness, seed: int, split: Split, strength: float) -> None:
    check_laws(harness, augment(harness, random.Random(seed), bank=word_bank(split), strength=strength))


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS)
def test_surface_operators_leave_limits_retries_and_persona_alone(harness: Harness, seed: int) -> None:
    new = augment(harness, random.Random(seed), bank=word_bank("train"), strength=1, operators=SURFACE).harness
    assert new.limits == harness.limits
    before, after = ({hook.id: (hook.retries, hook.arguments) for hook in h.hooks} for h in (harness, new))
    assert before == after


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, strength=st.floats(0, 1))
def test_equal_seeds_give_equal_variants(harness: Harness, seed: int, strength: float) -> None:
    first, second = (
        augment(harness, random.Random(seed), bank=word_bank("train"), strength=strength) for _ in range(2)
    )
    assert first == second and first.harness.digest == second.harness.digest


def test_training_and_held_out_surfaces_never_meet(harness: Harness) -> None:
    sets = {}
    for split in ("train", "heldout"):
        bank = word_bank(split)
        variants = [augment(harness, random.Random(n), bank=bank, strength=1, operators=SURFACE) for n in range(200)]
        # Tools of recorded fixtures have no wording of ours; strategy skills and unbound arguments neither.
        sets[split] = [set().union(*(f(v.harness) for v in variants)) for f in (names, words, descriptions)]
    original = surfaces(harness)
    for train, heldout in zip(sets["train"], sets["heldout"], strict=True):
        assert train & heldout - original <= set()
    assert len(sets["train"][0]) > 2_000 and len(sets["heldout"][0]) > 2_000


def test_excluded_words_names_and_descriptions_are_not_used(harness: Harness) -> None:
    bank = word_bank("heldout")
    seen = augment(harness, random.Random(1), bank=bank, strength=1, operators=SURFACE).harness
    exclude = words(seen) | surfaces(seen) | set(bank.words[::2])
    for seed in range(50):
        new = augment(harness, random.Random(seed), bank=bank, strength=1, operators=SURFACE, exclude=exclude).harness
        used = {word for name in names(new) - names(harness) for word in name_words(name)}
        assert used.isdisjoint(exclude)
        assert (surfaces(new) - surfaces(harness)).isdisjoint(exclude)


def test_at_full_strength_every_name_and_description_is_new(harness: Harness) -> None:
    for seed in range(50):
        variant = augment(harness, random.Random(seed), bank=word_bank("heldout"), strength=1, operators=SURFACE)
        assert names(variant.harness).isdisjoint(names(harness))
        kept = descriptions(variant.harness) & descriptions(harness)
        assert kept <= {"Points of a member.", "How to hint at bundles."}  # no wording of ours for those
        assert set(variant.renamed) >= {item.name for item in (*harness.tools, *harness.skills)}


def test_mentions_follow_a_rename(harness: Harness) -> None:
    operators = ["rename_tools", "rename_skills"]
    variant = augment(harness, random.Random(3), bank=word_bank("train"), strength=1, operators=operators)
    everything = "\n".join(texts(variant.harness))
    for old in ("price_check", "load_skill", "coupon.find"):
        assert old not in everything and variant.renamed[old] in everything
    loading = variant.harness.tools_for(Capability.LOAD_SKILL)[0]
    enum = loading.parameters["properties"]["name"]["enum"]
    assert enum == [variant.renamed[name] for name in ("deals", "facts", "talk", "upsell")]


def test_the_persona_changes_everywhere_at_once(harness: Harness) -> None:
    for seed in range(20):
        new = augment(
            harness, random.Random(seed), bank=word_bank("train"), strength=1, operators=["change_persona"]
        ).harness
        markers = next(hook.arguments for hook in new.hooks if hook.id == "sign-off")
        assert markers["address"] != "lovely" and markers["ends_with"] != "💛"
        assert f"Call the viewer {markers['address']}; end with {markers['ends_with']}" in system_prompt(new)
        assert "lovely" not in "\n".join(texts(new)) and "💛" not in "\n".join(texts(new))
        assert "star" not in markers["address"]  # a forbidden word of this merchant


def test_a_stated_limit_follows_the_limit(harness: Harness) -> None:
    new = augment(harness, random.Random(5), bank=word_bank("train"), strength=1, operators=["perturb_limits"]).harness
    assert new.limits.reply_words != 30
    assert f"at most {new.limits.reply_words} words" in system_prompt(new)


def test_at_most_three_decoys(harness: Harness) -> None:
    for seed in range(100):
        new = augment(harness, random.Random(seed), bank=word_bank("train"), strength=1, operators=SURFACE).harness
        decoys = len(new.tools) - len(harness.tools) + len(new.skills) - len(harness.skills)
        assert 1 <= decoys <= 3


def test_strength_raises_what_changes(harness: Harness) -> None:
    def share(strength: float) -> float:
        variants = [augment(harness, random.Random(n), bank=word_bank("train"), strength=strength) for n in range(200)]
        return sum(len(variant.renamed) for variant in variants) / 200

    assert share(0) < share(0.5) < share(1)


def test_names_in_training_cover_the_vocabulary(harness: Harness) -> None:
    bank = word_bank("train")
    used = Counter()
    for seed in range(1500):
        used.update(words(augment(harness, random.Random(seed), bank=bank, strength=1).harness))
    assert len(set(bank.words) & set(used)) > 0.6 * len(bank.words)


def test_bad_arguments_are_named(harness: Harness) -> None:
    with pytest.raises(ValueError, match="allowed: 0 to 1"):
        augment(harness, random.Random(0), bank=word_bank("train"), strength=1.5)
    with pytest.raises(ValueError, match="renam_tools"):
        augment(harness, random.Random(0), bank=word_bank("train"), strength=1, operators=["renam_tools"])
