"""Constrained decoding is played anew only where it changes something."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from components.avatar.agent.actors import OracleActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.constrained import TokenTable
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.surfaces import surfaces_of
from components.avatar.agent.transformers_client import TransformersClient
from components.avatar.agent.types import EpisodeResult
from components.avatar.harness.augment import augment
from components.avatar.harness.words import word_bank
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import StreamEvent
from components.evaluation.playing import play, same_when_constrained
from components.evaluation.settings import Settings
from components.evaluation.suites import build_suites
from components.integrations.progress import Progress
from components.integrations.training import load_for_generation
from components.integrations.weights import resolve_base_model

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def merchant() -> Merchant:
    return load_merchant(ROOT / "infra/harnesses/lumi-beauty")


@pytest.fixture(scope="module")
def tiny():
    return load_for_generation(resolve_base_model("random:tiny", ROOT / ".cache"))


@pytest.fixture(scope="module")
def table(tiny) -> TokenTable:
    return TokenTable(tiny[1])


@pytest.fixture(scope="module")
def solved(merchant: Merchant, tiny) -> list[tuple[Start, EpisodeResult]]:
    """Episodes of the oracle under the merchant's own harness; each calls a tool."""
    starts = [Start(merchant.harness, scenario) for scenario in sample_scenarios(merchant, 40, seed=3, split="test")]
    chat = Chat(tiny[1])
    results = run_episodes(starts, OracleActor(chat), chat, merchant.catalogue)
    return [(start, result) for start, result in zip(starts, results, strict=True) if result.calls]


def test_calls_with_the_harness_own_names_are_kept(solved, table: TokenTable) -> None:
    assert solved and all(same_when_constrained(table, start, result) for start, result in solved)


def test_calls_with_names_of_another_harness_are_played_anew(solved, table: TokenTable, merchant: Merchant) -> None:
    renamed = augment(
        merchant.harness, random.Random(1), bank=word_bank("train"), strength=1.0, operators=["rename_tools"]
    ).harness
    assert not any(same_when_constrained(table, replace(start, harness=renamed), result) for start, result in solved)


def test_an_episode_whose_harness_may_change_is_played_anew(solved, table: TokenTable) -> None:
    start, result = solved[0]
    event = StreamEvent(at_s=5, kind="stock", value={"link_id": 1, "stock": 0})
    changing = replace(start, scenario=start.scenario.model_copy(update={"events": (event,)}))
    assert not same_when_constrained(table, changing, result)


def test_kept_and_replayed_episodes_stand_in_the_order_of_their_starts(merchant: Merchant, tiny) -> None:
    model, tokenizer = tiny
    settings = Settings(cases=6, robustness_cases=3, general_prompts=0, latency_cases=0, max_new_tokens=12)
    suites = build_suites(merchant, settings, 0, surfaces_of([merchant.harness]))
    chat, progress = Chat(tokenizer), Progress("evaluation")
    clients = {d: TransformersClient(model, tokenizer, decoding=d) for d in ("free", "constrained")}

    def played(decoding: str, free=None):
        return play(clients[decoding], chat, merchant, suites, settings, 0, progress, decoding, free)

    free = played("free")
    # What the oracle wrote under the merchant's own harness breaks the constraint of a renamed one: must be replaced.
    oracle = run_episodes(suites.t1, OracleActor(chat), chat, merchant.catalogue)
    free["T2"][:3] = [replace(episode, result=oracle[i]) for i, episode in enumerate(free["T2"][:3])]
    both, alone = played("constrained", free), played("constrained")
    for suite, starts in suites.by_name().items():
        assert [e.result.scenario_id for e in both[suite]] == [start.scenario.id for start in starts]
        assert [e.result.completion_ids for e in both[suite]] == [e.result.completion_ids for e in alone[suite]]
