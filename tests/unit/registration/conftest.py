"""Tiny real models and a real MLflow store in sqlite; both are made once and copied, since making them takes
seconds."""

import json
import shutil

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from components.integrations.tracking import Tracking

WORDS = "<unk> </s> user system tools you sell tea which is mild how much link 3 name three colours price".split()
TEMPLATE = "{% if tools %}tools {% endif %}{% for m in messages %}{{ m.role }} {{ m.content }} </s> {% endfor %}"


def save_tiny(folder, seed):
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>")
    fast.chat_template = TEMPLATE
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=128,
        initializer_range=1.0,  # large weights, so that two seeds really answer differently
        bos_token_id=0,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {arm: save_tiny(root / arm, seed) for seed, arm in enumerate(("base", "fixed_sft", "hat"))}


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    Tracking(f"sqlite:///{path}", "avatar")
    return path


@pytest.fixture
def tracking_uri(empty_database, tmp_path):
    (tmp_path / "runs").mkdir()
    shutil.copy(empty_database, tmp_path / "runs" / "mlflow.db")
    return f"sqlite:///{tmp_path}/runs/mlflow.db"


@pytest.fixture
def write_evaluation(tmp_path):
    def write(**t2):
        def figures(value):
            rows = {name: {"value": value, "n": 400} for name in ("T1", "T2", "general")}
            rows["latency_ms"] = {"value": 9.5, "n": 12}
            return {"free": rows | {"gap": {"value": 0.0, "ci": [-0.02, 0.02], "n": 400}}}

        folder = tmp_path / "evaluation"
        folder.mkdir(exist_ok=True)
        (folder / "evaluation.json").write_text(json.dumps({"models": {arm: figures(v) for arm, v in t2.items()}}))
        return folder

    return write
