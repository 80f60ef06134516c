"""Each critical expectation is shown a data set that breaks it, and only a data set that breaks it fails it."""

import json
import re
from dataclasses import replace

import pytest

from components.avatar.agent.examples import Example, Trajectory, read_rows, write_rows
from components.avatar.agent.surfaces import Surfaces
from components.avatar.general.constraints import Constraint, Kind
from components.avatar.general.prompts import sample_general_prompts
from components.avatar.harness.banks import banks
from components.avatar.harness.schema import Capability, Family
from components.avatar.harness.words import word_bank
from components.avatar.simulator.merchant import load_merchant
from components.avatar.simulator.sampling import Pool
from components.data_validation import frames
from components.data_validation.docs import ABOUT
from components.data_validation.gate import validate
from components.data_validation.heldout import is_held_out_word, is_held_out_wording
from components.data_validation.run import build_tables, general_prompts, prompt_tables, run
from components.data_validation.settings import Settings
from tests.unit.data_steps.conftest import MERCHANT

PRICE = re.compile(r"(\d+)(\.\d\d)")
AXES = ["skill_identifier", "skill_content", "tools", "prompt", "hooks", "decoys"]
SETTINGS = Settings(min_trajectories=20, min_examples=20, min_per_family=1, general_prompts=300)


@pytest.fixture(scope="session")
def data(taught, augmented):
    return {
        "trajectories": read_rows(taught / "trajectories.jsonl", Trajectory),
        "fixed": read_rows(augmented / "fixed.jsonl", Example),
        "hsa": read_rows(augmented / "hsa.jsonl", Example),
        "surfaces": Surfaces.model_validate_json((augmented / "surfaces.json").read_text()),
        "settings": SETTINGS,
        "train_prompts": sample_general_prompts(120, seed=3, split="train"),
        "test_prompts": sample_general_prompts(120, seed=3, split="test"),
    }


def _tables(data, chat, world):
    arms = {"fixed": data["fixed"], "hsa": data["hsa"]}
    settings = data["settings"]
    return build_tables(data["trajectories"], arms, data["surfaces"], world, chat, settings, branches=2) | (
        prompt_tables(data["train_prompts"], data["test_prompts"], chat, settings)
    )


def _change(rows, index, **update):
    return [*rows[:index], rows[index].model_copy(update=update), *rows[index + 1 :]]


def _segments(example, **update):
    return tuple(segment.model_copy(update=update) for segment in example.segments)


def _harness_with_tool(example, **update):
    harness = example.harness
    tools = (harness.tools[0].model_copy(update=update), *harness.tools[1:])
    return harness.model_copy(update={"tools": tools})


def _lie(d):
    """A stated price with another digit: a transcript that no longer earns its reward."""
    rows = d["hsa"]
    row, at = next(
        (row, at)
        for row, example in enumerate(rows)
        for at, segment in enumerate(example.segments)
        if segment.trained and segment.kind == "reply" and PRICE.search(segment.text)
    )
    segments = list(rows[row].segments)
    text = PRICE.sub(lambda price: f"{int(price[1]) + 1}{price[2]}", segments[at].text)
    segments[at] = segments[at].model_copy(update={"text": text})
    return {"hsa": _change(rows, row, segments=tuple(segments))}


def _short(d):
    return {"settings": d["settings"].model_copy(update={"min_trajectories": len(d["trajectories"]) + 1})}


def _few_examples(d):
    return {"settings": d["settings"].model_copy(update={"min_examples": len(d["fixed"]) + 1})}


def _same_id(d):
    other = d["trajectories"][1].scenario.model_copy(update={"id": d["trajectories"][0].scenario.id})
    return {"trajectories": _change(d["trajectories"], 1, scenario=other)}


def _copied_trajectory(d):
    copy = d["trajectories"][0]
    renamed = copy.scenario.model_copy(update={"id": "copy"})
    return {"trajectories": [*d["trajectories"], copy.model_copy(update={"scenario": renamed})]}


def _poor(name):
    return lambda d: {"trajectories": _change(d["trajectories"], 0, reward={**d["trajectories"][0].reward, name: 0.5})}


def _foreign(d):
    """A question of the test split in a training scenario that still says train."""
    world = load_merchant(MERCHANT)
    question = Pool(world, "test").questions[Family.STOCK][0]
    scenario = d["trajectories"][0].scenario.model_copy(update={"questions": (question,)})
    return {"trajectories": _change(d["trajectories"], 0, scenario=scenario)}


def _no_family(d):
    left = [t for t in d["trajectories"] if Family.PRICE not in t.families]
    return {"trajectories": left}


def _one_family(d):
    return {"settings": d["settings"].model_copy(update={"max_family_share": 0.01})}


def _held_out_name(d):
    word = next(w for w in word_bank("heldout").words if is_held_out_word(w))
    return {"hsa": _change(d["hsa"], 0, harness=_harness_with_tool(d["hsa"][0], name=f"get_{word}"))}


def _held_out_wording(d):
    text = banks().capabilities[Capability.PRICE_LOOKUP].heldout[0].format(item="a link")
    return {"hsa": _change(d["hsa"], 0, harness=_harness_with_tool(d["hsa"][0], description=f"Get {text}."))}


def _unlisted(d):
    return {"surfaces": d["surfaces"].model_copy(update={"names": ()})}


def _no_axis(axis):
    operators = frames.OPERATORS

    def poison(d):
        kept = [
            tuple(o for o in e.operators if operators[o].axis != axis and axis not in ("decoys",)) for e in d["hsa"]
        ]
        if axis == "decoys":
            kept = [tuple(o for o in e.operators if "decoy" not in o) for e in d["hsa"]]
        return {"hsa": [e.model_copy(update={"operators": o}) for e, o in zip(d["hsa"], kept, strict=True)]}

    return poison


def _settings(**update):
    return lambda d: {"settings": d["settings"].model_copy(update=update)}


def _prompt(**update):
    """The first training prompt changed."""
    return lambda d: {"train_prompts": [replace(d["train_prompts"][0], **update), *d["train_prompts"][1:]]}


def _without_kind(kind):
    def poison(d):
        left = [p for p in d["test_prompts"] if kind not in {constraint.kind for constraint in p.constraints}]
        return {"test_prompts": left}

    return poison


def _only_kind(kind):
    return lambda d: {"train_prompts": [replace(p, constraints=(Constraint(kind),)) for p in d["train_prompts"]]}


POISONS = {
    "trajectories.enough": _short,
    "trajectories.ids": _same_id,
    "trajectories.duplicates": _copied_trajectory,
    "trajectories.accuracy": _poor("accuracy"),
    "trajectories.effectiveness": _poor("effectiveness"),
    "trajectories.tool_rationality": _poor("tool_rationality"),
    "trajectories.skill_selection": _poor("skill_selection"),
    "trajectories.split": lambda d: {"trajectories": _change(d["trajectories"], 0, split="test")},
    "trajectories.disjoint": _foreign,
    "trajectories.actions": lambda d: {"trajectories": _change(d["trajectories"], 0, actions=())},
    "trajectories.retries": _settings(max_retry_share=0.0),
    "questions.coverage": _no_family,
    "questions.balance": _one_family,
    "examples_fixed.enough": _few_examples,
    "examples_fixed.equal_arms": lambda d: {"hsa": d["hsa"][:-1]},
    "examples_fixed.ids": lambda d: {"fixed": _change(d["fixed"], 1, id=d["fixed"][0].id)},
    "examples_fixed.own_harness": lambda d: {"fixed": d["hsa"]},
    "examples_hsa.trained_tokens": lambda d: {
        "hsa": _change(d["hsa"], 0, segments=_segments(d["hsa"][0], trained=False))
    },
    "examples_hsa.length": lambda d: {"hsa": _change(d["hsa"], 0, first_message="how much " * 1000)},
    "examples_hsa.verified": _lie,
    "examples_hsa.language": lambda d: {
        "hsa": [e.model_copy(update={"segments": _segments(e, text="价格是一百二十九元")}) for e in d["hsa"]]
    },
    "examples_hsa.duplicates": lambda d: {"hsa": [*d["hsa"][:-1], d["hsa"][0].model_copy(update={"id": "copy"})]},
    "examples_hsa.augmented": lambda d: {"hsa": d["fixed"]},
    "examples_hsa.variants": _settings(min_variants=1000),
    "families_hsa.coverage": lambda d: {"hsa": d["fixed"]},
    "families_hsa.balance": _one_family,
    "axes.coverage": _no_axis("hooks"),
    "axes.balance": _settings(min_axis_share=1.0),
    "surfaces.held_out": _held_out_name,
    "surfaces.listed": _unlisted,
    "budget.tokens": lambda d: {"settings": d["settings"].model_copy(update={"max_tokens_per_arm": 100})},
    "budget.imbalance": lambda d: {"settings": d["settings"].model_copy(update={"max_token_imbalance": 0.0})},
    "general_prompts.ids": lambda d: {"train_prompts": [*d["train_prompts"], d["train_prompts"][0]]},
    "general_prompts.duplicates": lambda d: {
        "train_prompts": [replace(p, text=d["train_prompts"][0].text) for p in d["train_prompts"]]
    },
    "general_prompts.disjoint": lambda d: _prompt(text=f"What is this? {d['test_prompts'][0].text}")(d),
    "general_prompts.constraints": _prompt(constraints=()),
    "general_prompts.contradictions": _prompt(
        constraints=(Constraint(Kind.SENTENCES, 1), Constraint(Kind.SENTENCES, 3))
    ),
    "general_prompts.length": _prompt(text="word " * 200),
    "general_prompts.language": _prompt(text="请用一句话介绍月亮。"),
    "constraints.coverage": _without_kind(Kind.TITLE),
    "constraints.balance": _only_kind(Kind.NO_COMMA),
}
WARNINGS = {
    "trajectories.retries", "questions.balance", "families_hsa.coverage", "families_hsa.balance", "axes.balance",
    "budget.imbalance", "constraints.balance",
}  # fmt: skip


@pytest.fixture(scope="module")
def poisoned(data, chat, world, tmp_path_factory):
    """Poison -> failures of its table, in half of the data; all in one context, for one a poison is slow."""
    data = data | {rows: data[rows][::2] for rows in ("trajectories", "fixed", "hsa")}
    poisons = {check: (check.split(".")[0], poison) for check, poison in POISONS.items()}
    poisons |= {f"axis {axis}": ("axes", _no_axis(axis)) for axis in AXES}
    poisons["held-out wording"] = ("surfaces", _held_out_wording)
    tables = {
        f"{table} poisoned by {name}": _tables(data | poison(data), chat, world)[table]
        for name, (table, poison) in poisons.items()
    }
    untouched = _tables(data, chat, world)
    tables |= {f"{table} poisoned by nothing": untouched[table] for table in ("surfaces", "axes", "general_prompts")}
    output = tmp_path_factory.mktemp("poisoned")
    failures = {}
    for failure in validate(tables, output, output / "docs").failures:
        table, _, check = failure.name.rpartition(".")
        kind, _, name = table.partition(" poisoned by ")
        failures.setdefault(name, {})[f"{kind}.{check}"] = failure
    return failures


@pytest.mark.parametrize("check", POISONS)
def test_poisoned_data_breaks_the_expectation(check, poisoned):
    assert check in poisoned[check], sorted(poisoned[check])
    assert poisoned[check][check].severity == ("warning" if check in WARNINGS else "critical")


@pytest.mark.parametrize("axis", AXES)
def test_every_axis_must_occur(axis, poisoned):
    assert axis in poisoned[f"axis {axis}"]["axes.coverage"].why


def test_held_out_wordings_are_noticed_too(poisoned):
    assert "surfaces.held_out" in poisoned["held-out wording"]
    assert "nothing" not in poisoned


def test_every_expectation_has_a_poison(data, chat, world):
    tables = _tables(data, chat, world)
    checks = {f"{name}.{e.meta['name']}" for name, (_, expectations) in tables.items() for e in expectations}
    shared = {check.split(".")[1] for check in POISONS if check.startswith("examples_")}
    uncovered = {c for c in checks - set(POISONS) if not (c.startswith("examples_") and c.split(".")[1] in shared)}
    assert uncovered == set()


def test_real_data_passes_end_to_end(taught, augmented, base_model, tmp_path, quiet):
    metrics = run(
        merchant=MERCHANT, trajectories=taught, examples=augmented, base_model=base_model, output=tmp_path,
        settings=SETTINGS, seed=0, progress=quiet,
    )  # fmt: skip
    verdict = json.loads((tmp_path / "validation.json").read_text())
    assert verdict["passed"] and verdict["failed"] == [], verdict["why"]
    index = (tmp_path / "docs" / "index.html").read_text(encoding="utf-8")
    assert all(f'<section id="{table}">' in index for table in ABOUT), "every table has its section"
    assert metrics["passed"].value == 1 and metrics["expectations"].value >= 45
    assert (tmp_path / "docs" / "index.html").is_file()


def test_a_critical_failure_is_a_verdict_with_its_reason(taught, augmented, base_model, tmp_path, quiet):
    rows = read_rows(taught / "trajectories.jsonl", Trajectory)
    write_rows(tmp_path / "trajectories.jsonl", _change(rows, 0, split="test"))
    run(
        merchant=MERCHANT, trajectories=tmp_path, examples=augmented, base_model=base_model, output=tmp_path / "out",
        settings=SETTINGS, seed=0, progress=quiet,
    )  # fmt: skip
    verdict = json.loads((tmp_path / "out" / "validation.json").read_text())
    assert not verdict["passed"]
    assert [failed["name"] for failed in verdict["failed"]] == ["trajectories.split"]
    assert "test split" in verdict["why"]


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_checked_prompts_contain_those_that_the_steps_draw(split):
    """Each draws its own number with the run's seed; more are checked."""
    checked = dict(zip(("train", "test"), general_prompts(Settings(), seed=7), strict=True))[split]
    assert checked[:1400] == sample_general_prompts(1400, seed=7, split=split)


@pytest.mark.parametrize(
    ("text", "language", "share"),
    [
        ("price 129", "en", 1.0),
        ("价格 ab", "en", 0.5),
        ("价格 ab", "zh-CN", 1.0),
        ("", "en", 1.0),
        ("💛 12", "en", 1.0),
    ],
)
def test_script_share(text, language, share):
    assert frames.script_share(text, language) == share


def test_vocabularies_are_told_apart():
    assert not any(is_held_out_word(word) for word in word_bank("train").words)
    assert all(is_held_out_word(word) for word in word_bank("heldout").words)
    for wordings in (*banks().capabilities.values(), *banks().families.values()):
        assert not any(is_held_out_wording(text.replace("{item}", "a link")) for text in wordings.train)
