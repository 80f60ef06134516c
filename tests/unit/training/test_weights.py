import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from components.avatar.agent.actors import OracleActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.examples import ExampleSegment, example_from_episode, to_ids
from components.avatar.agent.parser import call_text
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.sft.weights import fact_spans, leaves, overlapping_tokens, token_weights, value_spans


@pytest.fixture(scope="module")
def chat(tiny: Path) -> Chat:
    return Chat(AutoTokenizer.from_pretrained(tiny))


def _json(segment: ExampleSegment) -> dict:
    try:
        return json.loads(segment.text) if segment.kind == "tool" else {}
    except json.JSONDecodeError:
        return {}


@pytest.mark.parametrize(
    ("name", "arguments", "values"),
    [
        ("price_check", {"link": 17}, ["price_check", "17"]),
        ("now_showing", {}, ["now_showing"]),
        ("open.manual", {"key": 'a "quoted" name'}, ["open.manual", 'a \\"quoted\\" name']),
        ("delivery", {"city": "Wuhan", "link": 3}, ["delivery", "Wuhan", "3"]),
    ],
)
def test_exactly_the_values_of_a_call_decide(chat: Chat, name: str, arguments: dict, values: list[str]) -> None:
    text = call_text(name, arguments)
    ids = chat.agent_ids(text)
    chosen = chat.decode([ids[place] for place in overlapping_tokens(text, value_spans(text), chat)])
    assert all(value in chosen for value in values)
    assert not any(frame in chosen for frame in ("arguments", "tool_call", "link", "city", "key"))


def test_the_facts_of_a_reply_decide() -> None:
    result = '{"link_id":7,"code":"SCRUB10","value":"10%","days":null,"open":true,"all":[{"city":"Xi\'an"}]}'
    facts = set(leaves(result))
    assert facts == {"7", "SCRUB10", "10%", "Xi'an"}
    reply = "Use SCRUB10 for 10% off link 7 (not 17), Xi'an."
    assert [reply[a:b] for a, b in fact_spans(reply, facts)] == ["SCRUB10", "10%", "7", "Xi'an"]
    assert fact_spans("Use SCRUB10.", set()) == []


@pytest.mark.parametrize("text", ["- Look it up, then reply.", '{"link_id":9', ""])
def test_a_result_that_is_not_json_holds_no_facts(text: str) -> None:
    assert list(leaves(text)) == []


def test_weights_run_parallel_to_the_ids_and_mark_calls_and_facts(chat: Chat, merchant: Merchant) -> None:
    scenarios = sample_scenarios(merchant, 40, seed=2, split="train", fault_rate=0.5)
    results = run_episodes([Start(merchant.harness, s) for s in scenarios], OracleActor(chat), chat, merchant.catalogue)
    stated = 0
    for scenario, result in zip(scenarios, results, strict=True):
        example = example_from_episode("e", scenario, merchant.harness, scenario.questions[0].text, result)
        ids, mask = to_ids(example, chat)
        weights = token_weights(example, chat, 5.0)
        assert len(weights) == len(ids)
        heavy = [i for i, weight in enumerate(weights) if weight == 5.0]
        assert heavy and all(mask[i] for i in heavy)
        marked = chat.decode([ids[i] for i in heavy])
        assert all(segment.text.split('"')[3] in marked for segment in example.segments if segment.kind == "call")
        price = next((r["price"] for r in map(_json, example.segments) if "price" in r), None)
        if price is not None and price in example.segments[-1].text:
            stated += 1
            assert price in marked
    assert stated > 2
