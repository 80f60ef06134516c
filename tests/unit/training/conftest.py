from pathlib import Path

import pytest

from components.avatar.simulator.merchant import Merchant, load_merchant
from components.integrations.weights import resolve_base_model

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def merchant() -> Merchant:
    return load_merchant(ROOT / "infra/harnesses/lumi-beauty")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return resolve_base_model("random:tiny", tmp_path_factory.mktemp("cache"))
