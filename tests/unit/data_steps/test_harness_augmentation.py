"""Augmentation: two arms of the same scenarios, only verified rows, meaning kept, budget kept, nothing held out
shown."""

import itertools
import json

import pytest

from components.avatar.agent.examples import Example, Trajectory, read_rows, to_ids, write_rows
from components.avatar.agent.parser import ParsedCall, parse
from components.avatar.errors import InputError
from components.avatar.harness.operators import OPERATORS
from components.data_validation.verify import verify
from components.harness_augmentation.run import run
from components.harness_augmentation.settings import Settings
from components.integrations.metrics import read_json
from tests.unit.data_steps.conftest import MERCHANT


@pytest.fixture(scope="module")
def arms(augmented):
    return {arm: read_rows(augmented / f"{arm}.jsonl", Example) for arm in ("fixed", "hsa")}


@pytest.fixture(scope="module")
def few(taught, tmp_path_factory):
    """A folder with the first 20 trajectories."""
    folder = tmp_path_factory.mktemp("few")
    write_rows(folder / "trajectories.jsonl", read_rows(taught / "trajectories.jsonl", Trajectory)[:20])
    return folder


def _augment(taught, base_model, output, quiet, seed=0, **settings):
    return run(
        merchant=MERCHANT, trajectories=taught, base_model=base_model, output=output, settings=Settings(**settings),
        seed=seed, progress=quiet,
    )  # fmt: skip


def test_both_arms_tell_the_same_scenarios_in_the_same_order(arms, world):
    fixed, hsa = arms["fixed"], arms["hsa"]
    assert len(fixed) == len(hsa) > 30
    assert [(e.id, e.scenario.id, e.first_message) for e in fixed] == [
        (e.id, e.scenario.id, e.first_message) for e in hsa
    ]
    assert {e.harness_digest for e in fixed} == {world.harness.digest}
    assert all(e.operators == () for e in fixed)


def test_every_row_is_reproduced_by_the_simulator(arms, world):
    assert {verify(example, world.catalogue) for rows in arms.values() for example in rows} == {""}


def test_surface_operators_keep_the_meaning(arms):
    """Under surface operators alone both arms make the same calls by meaning, with other names."""
    renamed = 0
    for own, other in zip(arms["fixed"], arms["hsa"], strict=True):
        if any(OPERATORS[name].kind == "behaviour" for name in other.operators):
            continue
        assert _meanings(own) == _meanings(other)
        renamed += "rename_tools" in other.operators and _names(own) != _names(other)
    assert renamed > 2


def test_neighbours_share_a_variant(arms, world):
    digests = [example.harness_digest for example in arms["hsa"]]
    shared = sum(a == b for a, b in itertools.pairwise(digests))
    assert shared >= len(digests) // 2 - 3, "trajectories_per_variant is 2 here"
    assert 0 < sum(digest == world.harness.digest for digest in digests) < len(digests) / 2


def test_strength_rises_along_the_rows(arms):
    strengths = [example.strength for example in arms["hsa"] if example.operators]
    assert strengths == sorted(strengths) and strengths[0] < 0.4 and strengths[-1] > 0.9


def test_unneeded_tools_and_skills_come_along_the_rows(taught, base_model, tmp_path, quiet, world):
    _augment(taught, base_model, tmp_path, quiet, unneeded_start=0.0, original_share=0.0, operators=("rename_tools",))
    rows = read_rows(tmp_path / "hsa.jsonl", Example)
    sizes = [len(example.harness.tools) + len(example.harness.skills) for example in rows]
    third = len(sizes) // 3
    whole = len(world.harness.tools) + len(world.harness.skills)
    assert sum(sizes[:third]) / third < 0.7 * whole < 0.8 * whole < sum(sizes[-third:]) / third
    assert all(verify(example, world.catalogue) == "" for example in rows[:40]), (
        "what the questions need is still there"
    )


def test_surfaces_list_what_the_rows_show(arms, augmented):
    surfaces = read_json(augmented / "surfaces.json")
    names = {tool.name for rows in arms.values() for e in rows for tool in e.harness.tools}
    assert names <= set(surfaces["names"]) and len(names) > 100


def test_budget_keeps_the_whole_curriculum(taught, base_model, chat, tmp_path, quiet):
    metrics = _augment(taught, base_model, tmp_path, quiet, max_tokens_per_arm=15_000)
    rows = {arm: read_rows(tmp_path / f"{arm}.jsonl", Example) for arm in ("fixed", "hsa")}
    tokens = {arm: sum(len(to_ids(e, chat)[0]) for e in examples) for arm, examples in rows.items()}
    assert tokens == {arm: metrics[f"tokens.{arm}"].value for arm in rows}
    assert max(tokens.values()) <= 15_000 < max(tokens.values()) + 1_000
    strengths = [e.strength for e in rows["hsa"] if e.operators]
    assert strengths[0] < 0.5 and strengths[-1] > 0.8


def test_equal_transcripts_are_not_shown_twice(taught, base_model, tmp_path, quiet):
    """Two scenarios with the same small talk in the same words: under the merchant's own harness their rows would be
    equal."""
    rows = read_rows(taught / "trajectories.jsonl", Trajectory)[:6]
    twins = [
        row.model_copy(update={"scenario": row.scenario.model_copy(update={"id": f"{row.scenario.id}-twin"})})
        for row in rows
    ]
    write_rows(tmp_path / "trajectories.jsonl", [*rows, *twins])
    _augment(tmp_path, base_model, tmp_path, quiet, original_share=1.0, strength_start=1.0)
    hsa = read_rows(tmp_path / "hsa.jsonl", Example)
    assert len(hsa) == 12
    assert len({example.content for example in hsa}) == 12
    assert len({e.content for e in read_rows(tmp_path / "fixed.jsonl", Example)}) == 6


def test_several_variants_of_a_trajectory(few, base_model, tmp_path, quiet):
    _augment(few, base_model, tmp_path, quiet, variants_per_trajectory=2, original_share=0.0)
    fixed, hsa = (read_rows(tmp_path / f"{arm}.jsonl", Example) for arm in ("fixed", "hsa"))
    trajectories = read_rows(few / "trajectories.jsonl", Trajectory)
    assert len(fixed) == len(hsa) == 2 * len(trajectories)
    assert len({e.id for e in hsa}) == len(hsa)
    by_scenario: dict[str, set[str]] = {}
    for example in hsa:
        by_scenario.setdefault(example.scenario.id, set()).add(example.harness_digest)
    assert {len(digests) for digests in by_scenario.values()} == {2}


def test_operators_can_be_chosen_and_are_counted(few, base_model, tmp_path, quiet):
    _augment(few, base_model, tmp_path, quiet, operators=("rename_tools",), original_share=0.0)
    rows = read_rows(tmp_path / "hsa.jsonl", Example)
    assert {e.operators for e in rows} == {("rename_tools",)}
    report = json.loads((tmp_path / "augmentation.json").read_text())
    assert list(report["operators"]) == ["rename_tools"]
    assert report["operators"]["rename_tools"]["tried"] >= len(rows)


def test_a_row_that_never_passes_leaves_both_arms(few, base_model, tmp_path, quiet, monkeypatch):
    """Variants whose skills are gone cannot earn the reward of skill selection: they are rejected, counted and
    dropped."""
    from components.harness_augmentation import run as step

    real = step.augment

    def broken(harness, rng, **options):
        variant = real(harness, rng, **options)
        stranger = [skill.model_copy(update={"handles": ()}) for skill in variant.harness.skills]
        if rng.random() < 0.8:
            harness = variant.harness.model_copy(update={"skills": tuple(stranger)})
        return step.Variant(harness, variant.operators, variant.renamed)

    monkeypatch.setattr(step, "augment", broken)
    _augment(few, base_model, tmp_path, quiet, original_share=0.0, attempts=2)
    report = json.loads((tmp_path / "augmentation.json").read_text())
    fixed, hsa = (read_rows(tmp_path / f"{arm}.jsonl", Example) for arm in ("fixed", "hsa"))
    assert report["rejections"] and report["rows"]["dropped"] > 0
    assert len(fixed) == len(hsa) == report["rows"]["built"] == report["rows"]["wanted"] - report["rows"]["dropped"]


def test_equal_seeds_give_equal_bytes(few, base_model, tmp_path, quiet):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        _augment(few, base_model, tmp_path / name, quiet, seed=seed)
    a, b, c = ((tmp_path / name / "hsa.jsonl").read_bytes() for name in "abc")
    assert a == b != c


def test_no_trajectories_is_bad_input(base_model, tmp_path, quiet):
    (tmp_path / "trajectories.jsonl").write_text("")
    with pytest.raises(InputError, match="at least one"):
        _augment(tmp_path, base_model, tmp_path, quiet)


def _names(example):
    calls = [parse(segment.text) for segment in example.segments if segment.kind == "call"]
    return [call.name for call in calls if isinstance(call, ParsedCall)]


def _meanings(example):
    """Capability and canonical arguments of every call but missteps; a skill by the families it handles."""
    meanings = []
    for segment in example.segments:
        call = parse(segment.text)
        if segment.kind != "call" or not isinstance(call, ParsedCall) or (example.missteps and not segment.trained):
            continue
        binding = example.harness.bindings[call.name]
        arguments = {binding.arguments[name]: value for name, value in call.arguments.items()}
        skill = example.harness.skill(str(arguments.get("skill")))
        meanings.append((binding.capability, sorted(skill.handles) if skill else sorted(arguments.items())))
    return meanings
