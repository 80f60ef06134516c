"""Fixtures of the agent's tests: the tiny random-weight model (made once a checkout) and the real tokenizer that comes
with it."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from components.avatar.agent.chat import Chat
from components.avatar.harness.files import load_harness
from components.integrations.weights import resolve_base_model

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def tiny_folder() -> Path:
    return resolve_base_model("random:tiny", ROOT / ".cache")


@pytest.fixture(scope="session")
def tokenizer(tiny_folder):
    return AutoTokenizer.from_pretrained(tiny_folder)


@pytest.fixture(scope="session")
def chat(tokenizer):
    return Chat(tokenizer)


@pytest.fixture(scope="session")
def harness():
    return load_harness(ROOT / "infra" / "harnesses" / "lumi-beauty")
