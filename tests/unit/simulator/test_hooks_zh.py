"""The form of a reply in Chinese: its length, its words, its markers."""

import pytest

from components.avatar.simulator.hooks import form_of, format_passes, word_count, wording_passes
from tests.unit.simulator.shop_zh import zh_harness


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("你好", 2),
        ("3号链接现在128.00元。", 8),  # 3 号 链 接 现 在 128.00 元
        ("茶友，3号 128 元！", 6),
        ("用CHA20减20元", 5),
        ("到21:30结束", 4),
        ("谢谢……慢慢喝。", 5),
        ("好茶🍵", 3),
        ("，。！", 1),  # without a Chinese character blanks alone count
        ("a lovely day 💛", 4),
        ("Hello , you !", 4),
    ],
)
def test_length(text: str, count: int) -> None:
    assert word_count(text) == count


def test_the_limit_counts_characters() -> None:
    harness = zh_harness(limits={"reply_words": 8, "tool_calls": 4, "turns": 6})
    assert form_of("3号链接现在128.00元。", harness).length
    assert not form_of("3号链接现在只要128.00元。", harness).length


@pytest.mark.parametrize(
    ("text", "passes"),
    [("这绝对好喝", False), ("绝对", False), ("绝不对付", True), ("全国第一的茶", False), ("好喝", True)],
)
def test_forbidden_words_stand_anywhere(text: str, passes: bool) -> None:
    assert wording_passes(text, {"words": ["绝对", "第一"]}) == passes


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("茶友，3号128元。慢慢喝。", True),
        ("茶友们，3号128元。慢慢喝。 ", True),
        ("3号128元。慢慢喝。", False),
        ("茶友，3号128元。", False),
    ],
)
def test_markers(text: str, passes: bool) -> None:
    assert format_passes(text, {"address": "茶友", "ends_with": "慢慢喝。"}) == passes
