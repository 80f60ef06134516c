"""Loading and saving: what is written comes back; what is broken is named, all of it at once."""

import json
from pathlib import Path

import pytest
import yaml

from components.avatar.errors import InputError
from components.avatar.harness.files import load_harness, save_harness
from components.avatar.harness.schema import Harness, Skill


def faults_of(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        load_harness(folder)
    return str(caught.value)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"the case does not apply: {old!r} is not in {path.name}"
    path.write_text(text.replace(old, new, 1))


def test_crlf_loads_like_lf(folder: Path, harness: Harness) -> None:
    for path in folder.rglob("*.*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_harness(folder) == harness


def test_order_of_skills_and_odd_names_survive(harness: Harness, tmp_path: Path) -> None:
    odd = (Skill(name="z/../ü b", description="odd", body="x"), *reversed(harness.skills))
    changed = harness.model_copy(update={"skills": odd})
    save_harness(changed, tmp_path / "a")
    assert load_harness(tmp_path / "a") == changed
    assert not (tmp_path / "ü b").exists()


@pytest.mark.parametrize(
    "sign", ["\x85", "\u2028", "\u2029", "\t", "\x07", "\ufeff", "\xa0", "\u202e", "\U000bf066", "👩‍🔬"]
)
def test_signs_that_yaml_takes_for_breaks_survive(harness: Harness, tmp_path: Path, sign: str) -> None:
    name = f"{sign}º {sign}m: {sign}"
    binding = harness.bindings["club_points"].model_copy(update={"arguments": {name: name}})
    rules = harness.prompt[2].model_copy(update={"items": (name, f"one\n{name}\n")})
    changed = harness.model_copy(
        update={
            "bindings": harness.bindings | {"club_points": binding},
            "prompt": (*harness.prompt[:2], rules),
            "skills": (Skill(name=name, description=name, body="x"),),
        }
    )
    save_harness(changed, tmp_path / "a")
    assert load_harness(tmp_path / "a") == changed


def test_saving_over_an_older_state_leaves_nothing_of_it(folder: Path, harness: Harness) -> None:
    fewer = harness.model_copy(update={"skills": harness.skills[:1]})
    save_harness(fewer, folder)
    assert load_harness(folder) == fewer


def test_all_faults_of_all_files_are_reported_at_once(folder: Path) -> None:
    edit(folder / "harness.yaml", "reply_words: 30", "reply_words: 3")
    edit(folder / "harness.yaml", "capability: price_lookup", "capability: price_lookups")
    (folder / "tools.json").write_text("[{]")
    (folder / "skills/deals/SKILL.md").write_text("no front matter")
    (folder / "skills/facts/SKILL.md").write_bytes(b"---\nname: f\xff")
    message = faults_of(folder)
    for part in ("5 faults", "limits.reply_words", "'price_lookups'", "tools.json", "deals/SKILL.md", "0xff in line 2"):
        assert part in message


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("harness.yaml", "format: 1", "format: 2", "format: found 2; allowed: 1"),
        ("harness.yaml", "format: 1", "format: true", "format: found True; allowed: 1"),
        ("harness.yaml", "format: 1\n", "", "format: found nothing"),
        ("harness.yaml", "turns: 6", "turns: '6'", "limits.turns: found '6'; allowed: a valid integer"),
        ("harness.yaml", "turns: 6", "turns: 6.5", "limits.turns"),
        ("harness.yaml", "turns: 6", "turns: 6\n  turns: 7", "key 'turns' twice"),
        ("harness.yaml", "turns: 6", "turn: 6", "limits.turn: found 6; allowed: no such field"),
        ("harness.yaml", "language: en", "language: no", "language: found False"),
        ("harness.yaml", "prompt:", "prompt: [", "well-formed YAML"),
        ("harness.yaml", "turns: 6", "turns: &n 6\nextra: *n", "extra"),
        ("harness.yaml", "check: skill_loaded", "check: skil_loaded", "hooks.0.check"),
        ("tools.json", '"type": "function"', '"type": "functions"', "0: found"),
        ("tools.json", '"name": "price_check"', '"name": "price_check", "name": "x"', "key 'name' twice"),
        ("tools.json", '"name": "price_check"', '"name": 5', "0.function.name: found 5"),
        ("tools.json", '"type": "object"', '"type": "array"', "parameters.type"),
        ("tools.json", '"link"\n', '"lnk"\n', "parameters.required: found 'lnk'"),
        ("tools.json", '"type": "integer"', '"type": NaN', "NaN"),
        ("tools.json", "Price of a link.", "\\ud83d", "lone surrogate"),
        ("skills/deals/SKILL.md", "name: deals", "name: facts", "'facts'"),
        ("skills/deals/SKILL.md", "- coupon", "- coupons", "handles.0: found 'coupons'"),
        ("skills/deals/SKILL.md", "\n---\n#", "\n#", "never ends"),
        ("skills/deals/SKILL.md", "description:", "describes:", "front matter.description: found nothing"),
    ],
)
def test_one_fault_is_named(folder: Path, file: str, old: str, new: str, expected: str) -> None:
    edit(folder / file, old, new)
    message = faults_of(folder)
    assert expected in message and file in message


@pytest.mark.parametrize("file", ["harness.yaml", "tools.json", "skills/deals/SKILL.md"])
def test_missing_empty_and_marked_files(folder: Path, file: str) -> None:
    path = folder / file
    text = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + text)
    assert "byte order mark" in faults_of(folder)
    path.write_bytes(b" \n")
    assert "an empty file" in faults_of(folder)
    path.unlink()
    assert "no such file" in faults_of(folder)


def test_truncated_json_says_so(folder: Path) -> None:
    text = (folder / "tools.json").read_text()
    for length in (len(text) // 3, len(text) // 2, len(text) - 3):
        (folder / "tools.json").write_text(text[:length])
        assert "cut off" in faults_of(folder)


def test_every_truncation_of_the_yaml_is_refused_or_loads_whole(folder: Path, harness: Harness) -> None:
    text = (folder / "harness.yaml").read_text()
    end = text.index("hooks:")  # what comes before is required; a cut inside the last list can be a shorter list
    for length in range(0, end, 37):
        (folder / "harness.yaml").write_text(text[:length])
        if yaml_is_complete(text[:length]):
            continue
        with pytest.raises(InputError):
            load_harness(folder)


def yaml_is_complete(text: str) -> bool:
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    return isinstance(value, dict) and {"format", "merchant", "prompt", "limits", "bindings"} <= set(value)


@pytest.mark.parametrize("content", ["{}", '"x"', "3", "null"])
def test_tools_of_another_shape(folder: Path, content: str) -> None:
    (folder / "tools.json").write_text(content)
    assert "a list of OpenAI function tools" in faults_of(folder)


def test_a_tool_without_parameters_takes_none(folder: Path) -> None:
    tools = json.loads((folder / "tools.json").read_text())
    del tools[4]["function"]["parameters"]
    (folder / "tools.json").write_text(json.dumps(tools))
    assert load_harness(folder).tools[4].argument_names() == ()


def test_skill_order_that_does_not_fit_the_folder(folder: Path) -> None:
    edit(folder / "harness.yaml", "format: 1", "format: 1\nskills: [facts, facts, nowhere]")
    message = faults_of(folder)
    assert "'facts' twice" in message and "'nowhere'" in message and "'deals' is not listed" in message


def test_no_folder(tmp_path: Path) -> None:
    assert "no such folder" in faults_of(tmp_path / "nothing")
