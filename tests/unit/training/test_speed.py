"""The speed benchmark changes one thing at a time, and every way computes the same thing."""

from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer

from components.avatar.agent.chat import Chat
from components.avatar.agent.examples import Example, read_rows, to_ids
from components.integrations.packing import Encoded
from pipelines.benchmark.speed import generation_ways, in_turn, training_seconds, training_ways


@pytest.fixture(scope="module")
def conversations(tiny: Path, examples: Path) -> list[Encoded]:
    chat = Chat(AutoTokenizer.from_pretrained(tiny))
    pairs = [(to_ids(example, chat), example.harness_digest) for example in read_rows(examples, Example)[:4]]
    return [Encoded(tuple(ids), tuple(mask), tuple(map(float, mask)), group) for (ids, mask), group in pairs]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_way_differs_from_the_first_in_one_thing(dtype: torch.dtype) -> None:
    for ways in (training_ways(4, dtype), generation_ways(32, dtype)):
        first, *others = (asdict(way) for way in ways.values())
        assert all(sum(way[field] != first[field] for field in first) == 1 for way in others)


def test_every_way_trains(tiny: Path, conversations: list[Encoded], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: compiled.append(function) or function)
    monkeypatch.setattr("pipelines.benchmark.speed.FROZEN", 1)
    for way in training_ways(2, torch.float32).values():
        assert training_seconds(way, tiny, conversations) > 0
    assert len(compiled) == 2, "one MLP for each of the two layers"


def test_ways_take_turns_and_are_compared_with_the_first() -> None:
    calls: list[str] = []

    def way(name: str, seconds: float):
        return lambda: calls.append(name) or seconds

    found = in_turn({"own": way("own", 2.0), "slow": way("slow", 5.0)}, rounds=2)
    assert calls == ["own", "slow", "own", "slow"]
    assert [found[name]["ratio"] for name in found] == [1.0, 2.5]
