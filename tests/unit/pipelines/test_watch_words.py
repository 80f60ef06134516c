"""Typed changes as a merchant's operator would say them."""

import shutil

import pytest

from components.avatar.harness.diff import diff
from components.avatar.simulator.merchant import load_merchant
from pipelines.watch.words import changes_in_words
from tests.unit.pipelines.watch_parts import MERCHANT

YAML, TOOLS = "harness.yaml", "tools.json"
CASES = [
    (YAML, "tool_calls: 4", "tool_calls: 3", "the most calls for one message: 4, now 3", "behaviour"),
    (
        YAML,
        "Warm, short, plain",
        "Brisk, plain",
        'prompt block "style": text changed: "Warm, short, plain English.", now "Brisk, plain English."',
        "behaviour",
    ),
    (YAML, "kind: style, ", "kind: context, ", 'prompt block "style": block kind changed: "style", now', "behaviour"),
    (
        YAML,
        '      - "State only facts that tools returned."\n',
        "",
        'prompt block "rules": rule removed: "State only facts that tools returned."',
        "behaviour",
    ),
    (YAML, "{id: length,", "{id: short,", 'hook "length" removed (checks reply_length before reply)', "behaviour"),
    (YAML, '"Too long. Say', '"Say', 'hook "length": message changed: "Too long. Say it shorter.", now', "surface"),
    (YAML, "cure, miracle]}", "cure]}", 'hook "claims": arguments changed', "behaviour"),
    ("*", "price_check", "cost_of", 'tool "price_check" is called "cost_of" now', "surface"),
    ("questions.jsonl", '"id"', '"id"', None, ""),
]


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(MERCHANT, tmp_path / "lumi")


def replaced(folder, files, old, new):
    for path in folder.rglob(files):
        if path.is_file():
            path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


@pytest.mark.parametrize(("files", "old", "new", "said", "effect"), CASES)
def test_an_edit_is_told_in_words(folder, files, old, new, said, effect):
    before = load_merchant(folder)
    replaced(folder, files, old, new)
    after = load_merchant(folder)
    told = changes_in_words(before, after)
    assert len(told) == len(diff(before.harness, after.harness))  # every typed change is told
    if said is None:
        assert told == ()
    else:
        assert any(one.text.startswith(said) and one.effect == effect for one in told), told


def test_goods_and_questions_are_counted(folder):
    before = load_merchant(folder)
    lines = (folder / "catalogue.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    cheaper = lines[0].replace('"price": {"amount": "', '"price": {"amount": "1')
    assert cheaper != lines[0]
    (folder / "catalogue.jsonl").write_text("".join([cheaper, *lines[1:-1]]), encoding="utf-8")
    (folder / "events.jsonl").unlink()
    rows = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    gone = before.catalogue.products[-1].link_id
    kept = [line for line, q in zip(rows, before.questions, strict=True) if q.link_id != gone][:-1]
    (folder / "questions.jsonl").write_text("".join(kept), encoding="utf-8")
    told = [one.text for one in changes_in_words(before, load_merchant(folder))]
    assert told == [
        "products: 1 removed, 1 changed",
        f"viewers' questions: {len(rows) - len(kept)} removed",
        f"stream events: {len(set(map(str, before.events)))} removed",
    ]


def test_long_and_odd_texts_are_cut_to_one_line(folder):
    before = load_merchant(folder)
    replaced(folder, YAML, "Warm, short, plain English.", "Calm. " * 100)
    [one] = changes_in_words(before, load_merchant(folder))
    assert len(one.text) < 220 and "\n" not in one.text and one.text.endswith('..."')
