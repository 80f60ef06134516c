"""Which of two errors a wrong name is, on the oracle's episodes with one name changed."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from components.avatar.agent.actors import OracleActor, ScriptedActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import EpisodeState, Start, run_episodes
from components.avatar.agent.metrics import Judged
from components.avatar.agent.parser import ParsedCall, call_text, parse
from components.avatar.agent.types import Generation
from components.avatar.harness.schema import Capability, Harness
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.oracle import next_action, realise
from components.avatar.simulator.sampling import sample_scenarios
from components.evaluation.naming import judge_names, naming_rates

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def merchant() -> Merchant:
    return load_merchant(ROOT / "infra/harnesses/lumi-beauty")


@pytest.fixture(scope="module")
def chat() -> Chat:
    from transformers import AutoTokenizer

    from components.integrations.weights import resolve_base_model

    return Chat(AutoTokenizer.from_pretrained(resolve_base_model("random:tiny", ROOT / ".cache")))


class Says:
    """A client that continues every prompt with the same text, and remembers the prompts."""

    def __init__(self, chat: Chat, text: str) -> None:
        self.ids, self.text = tuple(chat.agent_ids(text)), text
        self.prompts: list[list[int]] = []

    def generate(self, prompts: list[list[int]], harnesses: list[Harness], **_: object) -> list[Generation]:
        self.prompts += prompts
        return [Generation(self.ids, self.text, "stop") for _ in prompts]


def played(merchant: Merchant, chat: Chat, alter) -> list[Judged]:
    """Episodes on price questions in which every call of the oracle goes through `alter(name, arguments, state)`."""

    def script(state: EpisodeState) -> str:
        done = realise(state.session, next_action(state.session))
        return call_text(*alter(done[1], done[2], state)) if done[0] == "call" else done[1]

    scenarios = sample_scenarios(merchant, 8, seed=1, split="test", families=["price"])
    starts = [Start(merchant.harness, scenario) for scenario in scenarios]
    results = run_episodes(starts, ScriptedActor(chat, script), chat, merchant.catalogue)
    return [Judged(merchant.harness, result) for result in results]


def loader(merchant: Merchant) -> str:
    [tool] = merchant.harness.tools_for(Capability.LOAD_SKILL)
    return tool.name


def misspelt(merchant: Merchant):
    def alter(name: str, arguments: dict, state: EpisodeState) -> tuple[str, dict]:
        if name == loader(merchant):
            return name, arguments
        return f"{name}x", arguments

    return alter


def test_the_oracle_makes_neither_error(merchant: Merchant, chat: Chat) -> None:
    scenarios = sample_scenarios(merchant, 30, seed=1, split="test")
    starts = [Start(merchant.harness, scenario) for scenario in scenarios]
    results = run_episodes(starts, OracleActor(chat), chat, merchant.catalogue)
    judged = judge_names([Judged(merchant.harness, r) for r in results], None, max_new_tokens=8)
    rates = naming_rates(judged)
    assert rates["selection_error_rate"][0] == rates["copy_error_rate"][0] == 0
    assert rates["copy_error_rate"][1] == sum(len(r.calls) for r in results) > 30


def test_a_misspelt_name_is_a_copy_error_if_the_right_tool_was_meant(merchant: Merchant, chat: Chat) -> None:
    episodes = played(merchant, chat, misspelt(merchant))
    [right] = {name for e in episodes for call in e.result.calls for name in call.right_names}
    judged = judge_names(episodes, Says(chat, call_text(right, {})), max_new_tokens=8)
    absent = [[not call.known for call in episode.result.calls] for episode in episodes]
    assert [[naming == "copy" for naming in row] for row in judged] == absent
    assert sum(map(sum, absent)) >= 8


def test_a_misspelt_name_is_a_selection_error_if_another_tool_was_meant(merchant: Merchant, chat: Chat) -> None:
    episodes = played(merchant, chat, misspelt(merchant))
    for said in (call_text(loader(merchant), {"name": "x"}), "No call at all."):
        rates = naming_rates(judge_names(episodes, Says(chat, said), max_new_tokens=8))
        assert rates["copy_error_rate"][0] == 0 and rates["selection_error_rate"][0] > 0.3


def test_the_model_is_asked_at_the_turn_of_the_call(merchant: Merchant, chat: Chat) -> None:
    episodes = played(merchant, chat, misspelt(merchant))
    client = Says(chat, "Hello")
    judge_names(episodes, client, max_new_tokens=8)
    written = iter(client.prompts)
    for episode in episodes:
        ids = list(episode.result.prompt_ids)
        for segment in episode.result.segments:
            parsed = parse(segment.text) if segment.author == "agent" else None
            if isinstance(parsed, ParsedCall) and merchant.harness.tool(parsed.name) is None:
                assert next(written) == ids
            ids.extend(segment.ids)
    assert next(written, None) is None


def test_a_wrong_skill_is_a_selection_error_and_an_absent_one_is_asked_about(merchant: Merchant, chat: Chat) -> None:
    def wrong(name: str, arguments: dict, state: EpisodeState) -> tuple[str, dict]:
        if name != loader(merchant):
            return name, arguments
        others = [s.name for s in merchant.harness.skills if s.name not in {t.name for t in state.session.turn.skills}]
        return name, dict.fromkeys(arguments, random.Random(0).choice(others))

    def absent(name: str, arguments: dict, state: EpisodeState) -> tuple[str, dict]:
        return name, dict.fromkeys(arguments, "no-such-skill") if name == loader(merchant) else arguments

    episodes = played(merchant, chat, wrong)
    assert all(row[0] == "selection" for row in judge_names(episodes, None, max_new_tokens=8))
    episodes = played(merchant, chat, absent)
    [right] = {name for e in episodes for call in e.result.calls for name in call.right_names}
    says = Says(chat, call_text(loader(merchant), {"skill": right}))
    assert all(row[0] == "copy" for row in judge_names(episodes, says, max_new_tokens=8))


def test_an_unscored_episode_has_no_calls_to_judge(merchant: Merchant, chat: Chat) -> None:
    [first, *_] = played(merchant, chat, misspelt(merchant))
    fallen = Judged(first.harness, replace(first.result, score=None))
    assert judge_names([fallen], Says(chat, "x"), max_new_tokens=8) == [[]]
