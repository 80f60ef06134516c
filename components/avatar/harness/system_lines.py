"""What the system itself says to the agent, in the harness's language: the lines of the prompt that no block holds, and
the session's own corrections.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from components.avatar.harness.schema import Language


@dataclass(frozen=True)
class SystemLines:
    """Templates for str.format; the blanks of `limits` are the fields of Limits."""

    limits: str
    skills: str  # heading of the list of skills
    call_limit: str  # {tool_calls}
    malformed: str  # {reason}: the parser's, in English; a language may leave it out


SYSTEM_LINES: Mapping[Language, SystemLines] = {
    "en": SystemLines(
        limits="Limits: {reply_words} words a reply, {tool_calls} calls a message, {turns} messages.",
        skills="Skills:",
        call_limit="Tool call limit ({tool_calls}) reached. Reply now.",
        malformed="Malformed output ({reason}). Send one tool call or one reply.",
    ),
    "zh": SystemLines(
        limits="限制：每次回复最多{reply_words}字，每条消息最多调用工具{tool_calls}次，一共{turns}条消息。",
        skills="技能：",
        call_limit="工具调用已达上限（{tool_calls}次）。请马上回复。",
        malformed="输出的格式不对。请只发一个工具调用，或只发一条回复。",
    ),
}
