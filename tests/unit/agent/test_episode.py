import statistics
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from components.avatar.agent.actors import (
    ModelActor,
    OracleActor,
    ScriptedActor,
    always_retry,
    call_everything,
    never_call,
    parrot,
)
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.parser import call_text
from components.avatar.agent.transformers_client import TransformersClient
from components.avatar.agent.types import Generation
from components.avatar.errors import SystemFault
from components.avatar.simulator.merchant import load_merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import StreamEvent
from components.avatar.simulator.types import StopReason

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def merchant():
    return load_merchant(ROOT / "infra" / "harnesses" / "lumi-beauty")


@pytest.fixture(scope="module")
def starts(merchant):
    scenarios = sample_scenarios(merchant, 60, 1, "train", fault_rate=0.2, questions_per_episode=2)
    return [Start(merchant.harness, scenario) for scenario in scenarios]


@pytest.fixture(scope="module")
def model(tiny_folder):
    return AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)


def assert_carried(result, tokenizer):
    """What training needs: ids, mask and texts agree, and every agent turn follows a generation prompt."""
    assert len(result.completion_ids) == len(result.agent_mask)
    before = list(result.prompt_ids)
    for segment in result.segments:
        assert len(segment.logprobs) in (0, len(segment.ids))
        if segment.author == "agent":
            assert tokenizer.decode(before).endswith("<|im_start|>assistant\n")
            assert segment.text in tokenizer.decode(list(segment.ids))
        before += segment.ids
    assert [s.author for s in result.segments[::2]] == ["agent"] * len(result.segments[::2])


def test_the_oracle_solves_every_episode(chat, merchant, starts, tokenizer):
    results = run_episodes(starts, OracleActor(chat), chat, merchant.catalogue)
    assert [r.scenario_id for r in results] == [s.scenario.id for s in starts]
    for result in results:
        assert result.stop is StopReason.DONE and result.score.quality == 1.0, result
        assert result.parse["repaired"] == result.parse["failed"] == 0
        assert_carried(result, tokenizer)


@pytest.mark.parametrize("script", [always_retry, never_call, call_everything, parrot])
def test_policies_without_understanding_score_low(chat, merchant, starts, script):
    results = run_episodes(starts, ScriptedActor(chat, script), chat, merchant.catalogue)
    assert statistics.mean(r.score.quality for r in results) < 0.35
    assert statistics.mean(r.score.tool_rationality for r in results) < 0.35


def test_the_result_does_not_depend_on_how_many_run_at_once(chat, merchant, starts):
    one, many = (
        run_episodes(starts, OracleActor(chat), chat, merchant.catalogue, concurrent=n) for n in (1, len(starts))
    )
    assert one == many


@pytest.mark.parametrize("decoding", ["free", "constrained"])
def test_a_model_plays_and_every_id_has_a_logprob(chat, merchant, starts, model, tokenizer, decoding):
    client = TransformersClient(model, tokenizer, decoding=decoding, batch_size=8)
    actor = ModelActor(client, temperature=1.0, max_new_tokens=8)
    results = run_episodes(starts[:10], actor, chat, merchant.catalogue, seed=5)
    for result in results:
        assert result.stop is StopReason.RETRIES_SPENT  # a random model never ends its turn within 8 tokens
        assert_carried(result, tokenizer)
        for segment in result.segments:
            if segment.author == "agent":
                assert len(segment.logprobs) == len(segment.ids)
            else:
                assert segment.ids[0] == chat.end_id  # the closing token of a cut turn is the environment's
    again = run_episodes(starts[:10], actor, chat, merchant.catalogue, seed=5, concurrent=3)
    assert [r.completion_ids for r in again] == [r.completion_ids for r in results]
    other = run_episodes(starts[:10], actor, chat, merchant.catalogue, seed=6)
    assert [r.completion_ids for r in other] != [r.completion_ids for r in results]


class Scripted:
    """Gives one text after the other, whatever it sees; `cut` leaves the closing token away."""

    max_new_tokens = 64

    def __init__(self, chat, *texts, cut=False):
        self.chat, self.texts, self.cut, self.calls = chat, texts, cut, 0

    def act(self, states):
        text = self.texts[min(self.calls, len(self.texts) - 1)]
        self.calls += 1
        ids = tuple(self.chat.agent_ids(text))
        return [Generation(ids[:-1] if self.cut else ids, text, "length" if self.cut else "stop") for _ in states]


def kinds(result):
    return [segment.kind for segment in result.segments]


@pytest.mark.parametrize(
    ("texts", "counts"),
    [
        ([call_text("price_check", {"link": 3})], {"strict": 6, "repaired": 0, "failed": 0}),
        (["Well: " + call_text("price_check", {"link": 3})], {"strict": 0, "repaired": 6, "failed": 0}),
        (["<tool_call>{nothing}"], {"strict": 0, "repaired": 0, "failed": 2}),
        ([""], {"strict": 0, "repaired": 0, "failed": 0}),
    ],
)
def test_parses_are_counted_over_attempted_calls(chat, merchant, starts, texts, counts):
    [result] = run_episodes(starts[:1], Scripted(chat, *texts), chat, merchant.catalogue)
    assert result.parse == counts
    assert result.stop in (StopReason.CALL_LIMIT, StopReason.RETRIES_SPENT)


def test_special_tokens_inside_a_turn_are_malformed(chat, merchant, starts):
    class Breaking(Scripted):
        def act(self, states):
            return [Generation((1, *g.ids), g.text, "stop") for g in super().act(states)]

    [result] = run_episodes(starts[:1], Breaking(chat, "Hello lovely"), chat, merchant.catalogue)
    assert set(kinds(result)[::2]) == {"malformed"}


def test_a_cut_turn_is_malformed_and_closed_by_the_environment(chat, merchant, starts):
    [result] = run_episodes(starts[:1], Scripted(chat, "It is lovely and", cut=True), chat, merchant.catalogue)
    assert kinds(result) == ["malformed", "correction", "malformed"]
    assert chat.end_id not in result.segments[0].ids and result.segments[1].ids[0] == chat.end_id


def test_a_full_context_ends_the_episode_scored(chat, merchant, starts):
    prompt = len(chat.prompt_ids(starts[0].harness, starts[0].scenario.questions[0].text))
    for room, turns in ((0, 0), (64, 1)):
        [result] = run_episodes(
            starts[:1],
            Scripted(chat, call_text("now_showing", {})),
            chat,
            merchant.catalogue,
            max_context=prompt + room,
        )
        assert result.stop is StopReason.CONTEXT_FULL and result.score.quality == 0.0
        assert sum(segment.author == "agent" for segment in result.segments) == turns


def test_our_own_faults_are_never_scored(chat, merchant, starts):
    class Flaky(OracleActor):
        failed = 0

        def act(self, states):
            if self.failed < 2:
                self.failed += 1
                raise SystemFault("connection refused")
            return super().act(states)

    results = run_episodes(starts[:6], Flaky(chat), chat, merchant.catalogue, concurrent=2)
    assert [r.stop for r in results] == [StopReason.SYSTEM_FAULT] * 4 + [StopReason.DONE] * 2
    assert all(r.score is None and r.error == "connection refused" for r in results[:4])


def test_a_dead_backend_stops_the_run(chat, merchant, starts):
    class Dead(OracleActor):
        def act(self, states):
            raise SystemFault("connection refused")

    with pytest.raises(SystemFault, match="refused"):
        run_episodes(starts, Dead(chat), chat, merchant.catalogue, concurrent=2)


def test_a_harness_edited_mid_episode_is_shown_and_the_past_stays(chat, merchant, starts, tokenizer):
    renamed = StreamEvent(at_s=0.1, kind="tool_renamed", value={"from": "price_check", "to": "tag_reader"})
    scenario = starts[0].scenario.model_copy(update={"events": (renamed,)})
    [result] = run_episodes([Start(merchant.harness, scenario)], OracleActor(chat), chat, merchant.catalogue)
    assert result.score.quality == 1.0 and result.harness_digest == merchant.harness.digest
    assert_carried(result, tokenizer)
    shown = tokenizer.decode([*result.prompt_ids, *result.completion_ids])
    assert shown.count('-> "price_check" {') == 1 and shown.count('-> "tag_reader" {') == 1
    assert shown.index('"price_check" {') < shown.index('"tag_reader" {')


def test_progress_reaches_the_total(chat, merchant, starts):
    seen = []
    run_episodes(
        starts, OracleActor(chat), chat, merchant.catalogue, concurrent=7, on_progress=lambda *a: seen.append(a)
    )
    assert seen[-1] == (len(starts), len(starts)) and seen == sorted(seen)


def test_nothing_to_do(chat, merchant):
    assert run_episodes([], OracleActor(chat), chat, merchant.catalogue) == []
