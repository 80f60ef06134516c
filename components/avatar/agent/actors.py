"""Who acts in an episode: a model, the oracle, and scripted policies that must score low (a reward that likes one of
them is broken)."""

import random
from collections.abc import Callable

from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import EpisodeState
from components.avatar.agent.parser import call_text
from components.avatar.agent.types import Generation, ModelClient
from components.avatar.simulator.oracle import next_action, realise

SCRIPTED_MAX_TOKENS = 256  # room that run_episodes keeps for a turn of an actor that is not a model


class ModelActor:
    """Continues every episode with the model behind `client`. `temperature` 0 is greedy."""

    def __init__(self, client: ModelClient, temperature: float = 0.0, max_new_tokens: int = 96) -> None:
        self.client = client
        self.temperature = temperature
        self.max_new_tokens = max_new_tokens

    def act(self, states: list[EpisodeState]) -> list[Generation]:
        return self.client.generate(
            [state.ids for state in states],
            [state.harness for state in states],
            max_new_tokens=self.max_new_tokens,
            temperature=self.temperature,
            seeds=[state.seed for state in states],
        )


class OracleActor:
    """The embedded teacher: knows what is asked, takes facts from tool results only."""

    max_new_tokens = SCRIPTED_MAX_TOKENS

    def __init__(self, chat: Chat) -> None:
        self.chat = chat

    def act(self, states: list[EpisodeState]) -> list[Generation]:
        return [_written(self.chat, _oracle_text(state)) for state in states]


class ScriptedActor:
    """Writes what `script(state)` returns. The scripts below see only what an agent sees."""

    max_new_tokens = SCRIPTED_MAX_TOKENS

    def __init__(self, chat: Chat, script: Callable[[EpisodeState], str]) -> None:
        self.chat = chat
        self.script = script

    def act(self, states: list[EpisodeState]) -> list[Generation]:
        return [_written(self.chat, self.script(state)) for state in states]


def _written(chat: Chat, text: str) -> Generation:
    return Generation(tuple(chat.agent_ids(text)), text, "stop")


def _oracle_text(state: EpisodeState) -> str:
    done = realise(state.session, next_action(state.session))
    return call_text(done[1], done[2]) if done[0] == "call" else done[1]


def always_retry(state: EpisodeState) -> str:
    """Calls the first tool again and again."""
    return _call(state, 0)


def never_call(state: EpisodeState) -> str:
    """Answers everything from nothing."""
    return "Great choice, lovely! It is a wonderful price and in stock 💛"


def call_everything(state: EpisodeState) -> str:
    """Every tool once, in prompt order, then a general answer."""
    made = sum(segment.kind == "call" for segment in state.segments)
    return _call(state, made) if made < len(state.harness.tools) else never_call(state)


def parrot(state: EpisodeState) -> str:
    """Says back what it saw last: the viewer's message, a tool's result, a correction."""
    seen = [segment.text for segment in state.segments if segment.author == "environment"]
    return seen[-1] if seen else state.session.question.text


def _call(state: EpisodeState, index: int) -> str:
    """A call of tool number `index` with arguments of the right types, drawn at random."""
    tools = state.harness.tools
    if not tools:
        return never_call(state)
    tool, rng = tools[index % len(tools)], random.Random(state.seed)
    schemas = tool.parameters.get("properties", {})
    return call_text(tool.name, {name: _value(schemas[name].get("type"), rng) for name in tool.required()})


def _value(kind: str | None, rng: random.Random) -> object:
    match kind:
        case "integer" | "number":
            return rng.randint(1, 9)
        case "boolean":
            return True
        case "array":
            return [rng.randint(1, 9), rng.randint(1, 9)]
        case "object":
            return {}
        case _:
            return rng.choice(["Paris", "deals", "shade", "A1"])
