"""What strict reading refuses: the exact message of each rule of lint that loading a folder enforces; depth; signs."""

from pathlib import Path

import pytest

from components.avatar.errors import Fault, InputError
from components.avatar.harness.files import load_harness, save_harness
from components.avatar.harness.schema import Capability, Family, Harness, Skill
from components.avatar.harness.strict import MAX_DEPTH, parse_json, parse_yaml, plain

CAPABILITIES = ", ".join(f"'{name.value}'" for name in Capability)
FAMILIES = ", ".join(f"'{name.value}'" for name in Family)


def any_of(names: str) -> str:
    """As pydantic lists the members of an enumeration."""
    head, _, last = names.rpartition(", ")
    return f"{head} or {last}"


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "harness.yaml",
            "capability: price_lookup",
            "capability: price_find",
            f"bindings.price_check.capability: found 'price_find'; allowed: {any_of(CAPABILITIES)}",
        ),
        (
            "harness.yaml",
            "reply_words: 30",
            "reply_words: 3",
            "limits.reply_words: found 3; allowed: greater than or equal to 8",
        ),
        (
            "harness.yaml",
            "tool_calls: 4",
            "tool_calls: 13",
            "limits.tool_calls: found 13; allowed: less than or equal to 12",
        ),
        ("harness.yaml", "turns: 6", "turns: 0", "limits.turns: found 0; allowed: greater than or equal to 1"),
        ("harness.yaml", "retries: 2", "retries: 6", "hooks.3.retries: found 6; allowed: less than or equal to 5"),
        (
            "skills/deals/SKILL.md",
            "---\nname",
            "name",
            "front matter: found 'name: deals'; allowed: name and description between two lines of ---",
        ),
        (
            "skills/deals/SKILL.md",
            "description: Coupons and final price.\n",
            "",
            "front matter.description: found nothing; allowed: a value (the field is required)",
        ),
        (
            "skills/deals/SKILL.md",
            "- coupon\n",
            "- coupons\n",
            f"front matter.handles.0: found 'coupons'; allowed: {any_of(FAMILIES)}",
        ),
    ],
)
def test_a_refusal_and_its_message(folder: Path, file: str, old: str, new: str, message: str) -> None:
    path = folder / file
    text = path.read_text(encoding="utf-8")
    assert old in text, "the case does not apply"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_harness(folder)
    assert [str(fault) for fault in caught.value.faults] == [f"{path}: {message}"]


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, 300, 900, 100_000])
def test_deep_nesting_is_a_fault_and_no_crash(depth: int) -> None:
    for text, parse in (("[" * depth + "]" * depth, parse_json), ("[" * depth + "]" * depth, parse_yaml)):
        faults: list[Fault] = []
        value = parse(text, Path("x"), faults)
        assert (value is None) == bool(faults) == (depth > MAX_DEPTH)
        if faults:
            assert "nesting" in faults[-1].found


def test_bad_leaves_are_reported_in_the_order_of_the_text() -> None:
    faults: list[Fault] = []
    assert parse_json('{"a": ["\\ud800", {"\\udfff": 1}], "b": 1e999}', Path("x"), faults) is None
    assert [fault.found.split(" in ")[0] for fault in faults] == ["a lone surrogate", "a lone surrogate", "inf"]


def test_unprintable_signs_are_escaped() -> None:
    assert plain("价格 \x1b[31m\u202e\n💛") == "价格 \\x1b[31m\\u202e\\n💛"


def test_two_skills_never_share_a_folder(harness: Harness, tmp_path: Path) -> None:
    names = ["ü", "skill-01", "Deals", "deals", "con/cern"]
    skills = tuple(Skill(name=name, description=name, body=name) for name in names)
    changed = harness.model_copy(update={"skills": skills})
    save_harness(changed, tmp_path)
    assert load_harness(tmp_path) == changed
    folders = [path.name.lower() for path in (tmp_path / "skills").iterdir()]
    assert len(set(folders)) == len(names)
