import pytest

from components.avatar.general.constraints import Constraint, Kind, is_answer
from components.avatar.general.prompts import _SUBJECTS, _TASKS, _WORDINGS, _WORDS, sample_general_prompts


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (Constraint(Kind.LOWERCASE), "all small.", "Not small."),
        (Constraint(Kind.UPPERCASE), "LOUD 3.5!", "Loud"),
        (Constraint(Kind.MAX_WORDS, 3), "one two three", "one two three four"),
        (Constraint(Kind.MIN_WORDS, 3), "one two three", "one two"),
        (Constraint(Kind.SENTENCES, 2), "It costs 3.5 yuan. Fine!", "Only one."),
        (Constraint(Kind.INCLUDE, word="river"), "The River bends.", "The rivers bend."),
        (Constraint(Kind.EXCLUDE, word="river"), "The rivers bend.", "A river."),
        (Constraint(Kind.BULLETS, 2), "- a\n- b", "- a"),
        (Constraint(Kind.JSON_ONLY), '{"a": 1}', 'Here: {"a": 1}'),
        (Constraint(Kind.STARTS_WITH, word="Often"), "often it rains", "It often rains"),
        (Constraint(Kind.ENDS_WITH, word="that is all"), "Well, that is all.", "that is all, folks"),
        (Constraint(Kind.QUOTED), '"quoted"', 'say "quoted"'),
        (Constraint(Kind.NO_COMMA), "no pause", "a, b"),
        (Constraint(Kind.PARAGRAPHS, 2), "one\n\ntwo", "one\ntwo"),
        (Constraint(Kind.POSTSCRIPT), "Dear\nP.S. bye", "PSALM"),
        (Constraint(Kind.TITLE), "<<On Snow>>\nIt falls.", "<On Snow>"),
    ],
)
def test_each_kind_tells_right_from_wrong(constraint: Constraint, good: str, bad: str) -> None:
    assert constraint.holds(good)
    assert not constraint.holds(bad)
    assert not constraint.holds("  \n")


def test_splits_share_no_subject_task_word_or_wording() -> None:
    for table in (_TASKS, _SUBJECTS, _WORDS, *_WORDINGS.values()):
        assert not set(table["train"]) & set(table["test"])


def test_prompts_are_deterministic_and_cover_every_kind() -> None:
    prompts = sample_general_prompts(400, seed=1, split="test")
    assert prompts == sample_general_prompts(400, seed=1, split="test")
    assert {constraint.kind for prompt in prompts for constraint in prompt.constraints} == set(Kind)
    assert "{" not in "".join(prompt.text for prompt in prompts)


@pytest.mark.parametrize(
    ("text", "subject", "answers"),
    [
        ("Breathe in, breathe out.", "breathing", True),
        ("RICE NEEDS WATER AND PATIENCE.", "cooking rice", True),
        ('{"wool": "warm"}', "wool", True),
        ("SmolLM, I only know our shop, ask me anything about the products here.", "castles", False),
        ('<tool>{"tool>{"tool>{"tool>{"tool>{"tool>', "puppets", False),
        ("Puppets, the puppets " + "of the sea and " * 12, "puppets", False),
        ("The puppets of the past are gone, yet on every stage a hand still moves them as it did.", "puppets", True),
        ("", "snow", False),
    ],
)
def test_only_a_text_on_the_subject_that_moves_on_is_an_answer(text: str, subject: str, answers: bool) -> None:
    assert is_answer(text, subject) is answers


def test_a_constraint_met_by_accident_is_no_answer() -> None:
    prompts = sample_general_prompts(300, seed=2, split="test")
    assert not any(prompt.fulfilled("<tool tool tool tool") for prompt in prompts)
    assert all(prompt.subject in prompt.text for prompt in prompts)
