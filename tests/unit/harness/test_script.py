"""Words with and without blanks between them: Chinese needs no boundaries, everything else keeps its own."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.avatar.harness.edits import rename_tools, word_pattern
from components.avatar.harness.schema import Harness
from components.avatar.harness.script import has_han, search_terms, whole, words


@pytest.mark.parametrize(
    ("text", "within", "found"),
    [
        ("star", "a star.", True),
        ("star", "a starling", False),
        ("star", "这个star真好", True),
        ("绝对", "这绝对是", True),
        ("茶友", "茶友们好", True),
        ("150克", "1150克", False),
        ("50克", "净含量50克装", True),
        ("💛", "ok💛", True),
        ("cha_jia", "用cha_jia查价", True),
        ("cha_jia", "用cha_jia2查价", False),
    ],
)
def test_whole_words(text: str, within: str, found: bool) -> None:
    assert (re.search(whole(text), within) is not None) == found
    assert (word_pattern(text).search(within) is not None) == found


@settings(deadline=None)
@given(st.text(alphabet=st.characters(max_codepoint=0x2FFF), max_size=40), st.text("ab_1.é💛", min_size=1, max_size=4))
def test_without_chinese_characters_a_boundary_is_the_usual_one(text: str, word: str) -> None:
    assert words(text) == re.findall(r"\w+", text)
    before = r"(?<!\w)" if word[0].isalnum() else ""
    after = r"(?!\w)" if word[-1].isalnum() else ""
    usual = before + re.escape(word) + after
    assert [m.span() for m in re.finditer(whole(word), text)] == [m.span() for m in re.finditer(usual, text)]


def test_words_and_search_terms() -> None:
    assert words("3号是 rose 香。") == ["3", "号", "是", "rose", "香"]
    assert search_terms("rose oil") == {"rose", "oil"}
    assert search_terms("兰花香 tea") == {"兰花", "花香", "tea"}
    assert search_terms("2018老白茶") == {"2018", "老白", "白茶"} and search_terms("茶") == {"茶"}
    assert has_han("号") and not has_han("é💛")


def test_a_mention_in_chinese_text_follows_a_rename(harness: Harness) -> None:
    block = harness.prompt[2].model_copy(update={"items": ("先用price_check查价，再用`price_check`核对。",)})
    harness = harness.model_copy(update={"prompt": (*harness.prompt[:2], block)})
    assert rename_tools(harness, {"price_check": "cha_jia"}).prompt[2].items == (
        "先用cha_jia查价，再用`cha_jia`核对。",
    )
