"""An episode as a chat-completions conversation, and an answer of such a server as an agent turn.

A foreign model has a chat template of its own, so it gets OpenAI messages and tools where ours gets prompt ids. What
it says comes back in our form: one call as `<tool_call>` text, or a reply.

Many servers refuse what our harness may hold, so three things differ on the wire. A tool name that OpenAI's rules do
not allow (dots, other scripts) travels under a clean alias. A correction is the result of the call that it answers, or
a message of the user that says what it is: templates take a system message at the start only. The conversation's
system message is always that of the present harness.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import EpisodeState
from components.avatar.agent.parser import CALL_END, CALL_START, ParsedCall, call_text, parse
from components.avatar.agent.types import Message, Segment
from components.avatar.harness.render import system_prompt, tools_of
from components.avatar.harness.schema import Harness
from components.avatar.simulator.session import Session

CORRECTION = "[Note of the live-stream system, not of the viewer] {}"
MAX_NAME = 64  # OpenAI: ^[a-zA-Z0-9_-]{1,64}$

_THOUGHTS = re.compile(r"\A\s*<think>.*?(?:</think>|\Z)", re.DOTALL)  # of servers without a reasoning parser


class Function(BaseModel):
    """`arguments` is JSON text; some servers send the object itself."""

    name: str
    arguments: str | dict[str, Any] | None = None


class ToolCall(BaseModel):
    function: Function


class AssistantMessage(BaseModel):
    """The part of a server's message that is read."""

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None


def conversation(state: EpisodeState, chat: Chat) -> list[Message]:
    """The episode so far: system, viewer, then the agent's turns and what followed each."""
    session, aliases = state.session, wire_names(state.harness)
    first = Session(session.harness, session.catalogue, session.scenario).begin().content
    messages: list[Message] = [
        {"role": "system", "content": chat.neutralise(system_prompt(state.harness))},
        {"role": "user", "content": chat.neutralise(first)},
    ]
    call_id = ""
    for number, segment in enumerate(state.segments):
        if segment.author == "agent":
            call_id = f"call{number:05}" if segment.kind == "call" else ""  # Mistral: nine letters and digits
            messages.append(_agent_message(segment, call_id, aliases))
        else:
            messages.append(_observed(segment, call_id, chat))
    return messages


def wire_tools(harness: Harness) -> list[dict[str, Any]]:
    """The harness's tools in OpenAI's form, under names that its rules allow."""
    aliases, tools = wire_names(harness), tools_of(harness)
    return [{**tool, "function": {**tool["function"], "name": aliases[tool["function"]["name"]]}} for tool in tools]


def wire_names(harness: Harness) -> dict[str, str]:
    """Tool name -> its name on the wire, unique; most are the same."""
    names = [tool.name for tool in harness.tools]
    aliases: dict[str, str] = {}
    for number, name in enumerate(names, start=1):
        alias = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_NAME]
        others = {*aliases.values(), *(other for other in names if other != name)}
        if alias in others or not re.search(r"[A-Za-z0-9]", alias):
            alias = next(free for free in (f"tool_{n}" for n in range(number, 10_000)) if free not in others)
        aliases[name] = alias
    return aliases


def turn_text(message: AssistantMessage, harness: Harness) -> str:
    """The agent turn that `message` stands for. Of several calls the first counts, as everywhere.

    A call that cannot be read stays as it is: the parser says what is wrong with it."""
    if message.tool_calls:
        function = message.tool_calls[0].function
        raw = function.arguments if isinstance(function.arguments, str) else json.dumps(function.arguments or {})
        text = f'{CALL_START}{{"name": {json.dumps(function.name)}, "arguments": {raw.strip() or "{}"}}}{CALL_END}'
    else:
        text = _THOUGHTS.sub("", message.content or "").strip()
    text = text.encode("utf-8", "replace").decode()  # lone surrogates fit into no file
    parsed = parse(text)
    if not isinstance(parsed, ParsedCall):
        return text
    names = {alias: name for name, alias in wire_names(harness).items()}
    return call_text(names.get(parsed.name, parsed.name), parsed.arguments)


def _agent_message(segment: Segment, call_id: str, aliases: Mapping[str, str]) -> Message:
    parsed = parse(segment.text)
    if not call_id or not isinstance(parsed, ParsedCall):
        return {"role": "assistant", "content": segment.text}
    function = {
        "name": re.sub(r"[^A-Za-z0-9_-]", "_", aliases.get(parsed.name, parsed.name))[:MAX_NAME],
        "arguments": json.dumps(parsed.arguments, ensure_ascii=False),
    }
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def _observed(segment: Segment, call_id: str, chat: Chat) -> Message:
    text = chat.neutralise(segment.text)
    if call_id:
        return {"role": "tool", "tool_call_id": call_id, "content": text}
    return {"role": "user", "content": text if segment.kind == "viewer" else CORRECTION.format(text)}
