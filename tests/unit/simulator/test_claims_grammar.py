"""Marks save searches and never a match: whatever fits a pattern holds one of its marks."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.avatar.simulator.claims import GRAMMARS
from components.avatar.simulator.claims_grammar import Marked

MARKED = [
    pytest.param(pattern, id=f"{language}-{name}")
    for language, grammar in GRAMMARS.items()
    for name, pattern in [*grammar.says.items(), ("clock", grammar.clock), ("code_after", grammar.code_after)]
    if pattern.marks
]
TEXTS = "".join(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("test_*.py"))).split(
    "\n"
)


def spans(marked: Marked, text: str) -> tuple[list, list]:
    return [m.span() for m in marked.finditer(text)], [m.span() for m in marked.pattern.finditer(text)]


@pytest.mark.parametrize("marked", MARKED)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_match_holds_a_mark(marked: Marked, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(marked.pattern))
    found, all_matches = spans(marked, text)
    assert found == all_matches and found


@pytest.mark.parametrize("marked", MARKED)
def test_the_texts_of_these_tests_too(marked: Marked) -> None:
    for line in TEXTS:
        for text in (line, line.lower()):
            found, all_matches = spans(marked, text)
            assert found == all_matches, text


def test_without_marks_the_pattern_is_searched() -> None:
    marked = Marked(GRAMMARS["en"].number)
    assert spans(marked, "3 left") == ([(0, 1)], [(0, 1)])
