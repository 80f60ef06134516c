from pathlib import Path

import pytest
from transformers import AutoTokenizer

from components.avatar.agent.actors import OracleActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.examples import example_from_episode, write_rows
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.integrations.weights import resolve_base_model

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def merchant() -> Merchant:
    return load_merchant(ROOT / "infra/harnesses/lumi-beauty")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return resolve_base_model("random:tiny", tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def examples(tiny: Path, merchant: Merchant, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of eight examples of the oracle under the merchant's own harness."""
    chat = Chat(AutoTokenizer.from_pretrained(tiny))
    scenarios = sample_scenarios(merchant, 8, seed=0, split="train")
    results = run_episodes([Start(merchant.harness, s) for s in scenarios], OracleActor(chat), chat, merchant.catalogue)
    path = tmp_path_factory.mktemp("examples") / "rows.jsonl"
    write_rows(
        path,
        [
            example_from_episode(str(i), scenario, merchant.harness, scenario.questions[0].text, result)
            for i, (scenario, result) in enumerate(zip(scenarios, results, strict=True))
        ],
    )
    return path
