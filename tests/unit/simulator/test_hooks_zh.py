"""The form of a reply in Chinese: its length, its words, its markers."""

import pytest

from components.avatar.harness.schema import Family
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.hooks import form_of, format_passes, word_count, wording_passes
from components.avatar.simulator.session import Session
from tests.unit.simulator.shop import scenario
from tests.unit.simulator.shop_zh import ZH_PRODUCTS, ZH_QUESTIONS, zh_harness


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


def test_the_sessions_own_corrections_are_chinese() -> None:
    harness = zh_harness(limits={"reply_words": 30, "tool_calls": 2, "turns": 6})
    session = Session(
        harness, Catalogue.model_validate({"products": ZH_PRODUCTS}), scenario(ZH_QUESTIONS[Family.PRICE])
    )
    session.begin()
    said = [session.malformed("the call is not valid JSON").content]
    for _ in range(3):
        observation = session.call("check_price", {"link": 3})
    said.append(observation.content)
    assert said == [
        "输出的格式不对。请只发一个工具调用，或只发一条回复。",
        "工具调用已达上限（2次）。请马上回复。",
    ]
