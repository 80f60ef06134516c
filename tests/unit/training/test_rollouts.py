"""RL's rollouts are the simulator's: ids are the loop's, rewards can be recomputed from the texts alone."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from components.avatar.agent.chat import Chat
from components.avatar.agent.parser import ParsedCall, ParsedReply, parse
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.session import Session
from components.simulator_rl.run import REWARDS, Rollouts, episode_rewards, reward_function
from components.simulator_rl.settings import Settings

SETTINGS = Settings(groups_per_step=2, group_size=2, episodes_per_batch=2, max_new_tokens=12, fault_rate=1.0)


@pytest.fixture(scope="module")
def trainer(tiny: Path) -> Any:
    model = AutoModelForCausalLM.from_pretrained(tiny)
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    return SimpleNamespace(
        model=model,
        processing_class=tokenizer,
        accelerator=SimpleNamespace(unwrap_model=lambda model: model),
        args=SimpleNamespace(bf16=False),
    )


@pytest.fixture
def rollouts(merchant: Merchant, trainer: Any, tmp_path: Path) -> Rollouts:
    return Rollouts(
        merchant, Chat(trainer.processing_class), SETTINGS, seed=3, groups=2, log=tmp_path / "rollouts.jsonl"
    )


def test_columns_run_parallel_and_masks_cover_the_agents_tokens(rollouts: Rollouts, trainer: Any) -> None:
    columns = rollouts(["0", "0", "1", "1"], trainer)
    assert {len(column) for column in columns.values()} == {4}
    for ids, logprobs, mask in zip(columns["completion_ids"], columns["logprobs"], columns["env_mask"], strict=True):
        assert len(ids) == len(logprobs) == len(mask)
        assert any(mask)
        assert all(p < 0 for p, own in zip(logprobs, mask, strict=True) if own)
    assert columns["prompt_ids"][0] == columns["prompt_ids"][1], "a group shares scenario and harness"
    assert columns["prompt_ids"][0] != columns["prompt_ids"][2]


def test_rewards_are_those_of_the_simulator(rollouts: Rollouts, trainer: Any, merchant: Merchant) -> None:
    columns = rollouts(["0", "0", "1", "1"], trainer)
    rows = [json.loads(line) for line in rollouts.log.read_text(encoding="utf-8").splitlines()]
    for index, row in enumerate(rows):
        start = rollouts.starts[index // 2]
        session = Session(start.harness, merchant.catalogue, start.scenario)
        session.begin()
        for segment in row["transcript"]:
            if segment["author"] != "agent" or session.stop is not None:
                continue
            parsed = parse(segment["text"])
            if segment["kind"] == "malformed":
                session.malformed("the turn was too long")
            elif isinstance(parsed, ParsedCall):
                session.call(parsed.name, parsed.arguments)
            elif isinstance(parsed, ParsedReply):
                session.reply(parsed.text)
        score = session.score()
        assert columns["reward_accuracy"][index] == score.accuracy
        assert columns["reward_tool_rationality"][index] == score.tool_rationality
        assert columns["reward_brevity"][index] == -score.length_penalty


def test_the_same_seed_gives_the_same_scenarios(merchant: Merchant, trainer: Any, tmp_path: Path) -> None:
    chat = Chat(trainer.processing_class)
    one, two, other = (
        Rollouts(merchant, chat, SETTINGS, seed=seed, groups=4, log=tmp_path / "r") for seed in (3, 3, 4)
    )
    assert one.starts == two.starts != other.starts


def test_our_own_fault_is_not_scored() -> None:
    failed = SimpleNamespace(score=None)
    assert set(episode_rewards(failed).values()) == {None}  # type: ignore[arg-type]


def test_a_reward_function_hands_on_its_column() -> None:
    functions = [reward_function(name) for name in REWARDS]
    assert [function.__name__ for function in functions] == list(REWARDS)
    assert functions[0](completions=["x"], reward_accuracy=[0.5], reward_brevity=[-1.0]) == [0.5]


def test_batches_must_be_whole() -> None:
    with pytest.raises(ValueError, match="must divide the 6 episodes"):
        Settings(groups_per_step=3, group_size=2, episodes_per_batch=4)
