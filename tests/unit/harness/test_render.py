"""The system message: English to the byte, Chinese without English lines of our own."""

import re
from pathlib import Path

import pytest

from components.avatar.harness.files import load_harness
from components.avatar.harness.render import system_prompt
from components.avatar.harness.schema import Harness
from components.avatar.harness.system_lines import SYSTEM_LINES

ROOT = Path(__file__).parents[3]


def test_english(harness: Harness) -> None:
    assert system_prompt(harness).split("\n")[2:] == [
        "- Load the matching skill with `load_skill` first.",
        "- State only facts that tools returned.",
        "- Prices come from price_check, never from memory.",
        "- Call the viewer lovely; end with 💛",
        "Limits: 30 words a reply, 4 calls a message, 6 messages.",
        "Skills:",
        '- Coupons and final price. -> "deals"',
        '- Price, stock, delivery. -> "facts"',
        '- Greetings. -> "talk"',
        '- How to hint at bundles. -> "upsell"',
    ]
    lines = SYSTEM_LINES["en"]
    assert lines.call_limit.format(tool_calls=4) == "Tool call limit (4) reached. Reply now."
    assert lines.malformed.format(reason="empty turn") == (
        "Malformed output (empty turn). Send one tool call or one reply."
    )


def test_no_skills_no_heading(harness: Harness) -> None:
    assert system_prompt(harness.keeping(skills=())).endswith("6 messages.")


def test_chinese() -> None:
    harness = load_harness(ROOT / "infra/harnesses/yunwu-tea")
    prompt, most = system_prompt(harness), harness.limits
    line = f"限制：每次回复最多{most.reply_words}字，每条消息最多调用工具{most.tool_calls}次，一共{most.turns}条消息。"
    assert f"\n{line}\n技能：\n- " in prompt
    for name in (*(skill.name for skill in harness.skills), *(tool.name for tool in harness.tools)):
        prompt = prompt.replace(name, "")
    assert re.findall("[A-Za-z]{2,}", prompt) == []


@pytest.mark.parametrize("language", SYSTEM_LINES)
def test_every_language_says_the_numbers(language: str, harness: Harness) -> None:
    shown = system_prompt(harness.model_copy(update={"language": language}))
    line = next(line for line in shown.split("\n") if "30" in line and "6" in line)
    assert re.findall(r"\d+", line) == ["30", "4", "6"]
