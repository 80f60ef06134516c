"""The law of a group's shared row: log-probabilities, entropies and gradients of TRL's separate rows."""

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from components.integrations import tree_attention
from components.simulator_rl.trainer import SharedPrefixTrainer
from pipelines.benchmark.speed import padded_batch

PROMPTS = [[5, 6, 7, 8, 9], [5, 6, 7, 8, 9], [11, 12], [5, 6, 7, 8, 9]]  # a group of three, not in one stretch
COMPLETIONS = [[21, 22, 23], [21, 24], [31, 32, 33, 34], [41]]


@pytest.fixture(scope="module", params=[1.0, 0.7], ids=lambda temperature: f"temperature {temperature}")
def trainer(tiny: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Any:
    arguments = GRPOConfig(
        output_dir=str(tmp_path_factory.mktemp("grpo")),
        per_device_train_batch_size=4,
        num_generations=2,
        temperature=request.param,
        use_cpu=True,
        bf16=False,
        report_to="none",
    )
    return SharedPrefixTrainer(
        model=AutoModelForCausalLM.from_pretrained(tiny),
        args=arguments,
        reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
        train_dataset=Dataset.from_list([{"prompt": "0"}]),
        processing_class=AutoTokenizer.from_pretrained(tiny),
    )


def test_a_groups_row_has_the_log_probabilities_and_gradients_of_separate_rows(trainer: Any) -> None:
    ids, mask, kept = padded_batch(list(zip(PROMPTS, COMPLETIONS, strict=True)))
    real = mask[:, -kept:].bool()
    found = {}
    for method in (GRPOTrainer, SharedPrefixTrainer):
        trainer.model.set_attn_implementation("sdpa")
        trainer.model.zero_grad()
        logps, entropies, _ = method._get_per_token_logps_and_entropies(
            trainer, trainer.model, ids, mask, kept, compute_entropy=True
        )
        assert logps.shape == entropies.shape == real.shape
        logps[real].sum().backward()
        found[method] = logps[real], entropies[real], [p.grad.clone() for p in trainer.model.parameters()]
    theirs, ours = found[GRPOTrainer], found[SharedPrefixTrainer]
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-4, atol=1e-5)
    for own, other in zip(ours[2], theirs[2], strict=True):
        torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-5)


def test_a_prompt_is_computed_once_a_group(trainer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, mask, kept = padded_batch(list(zip(PROMPTS, COMPLETIONS, strict=True)))
    widths: list[int] = []
    forward = trainer.model.forward
    monkeypatch.setattr(
        trainer.model,
        "forward",
        lambda **features: widths.append(features["input_ids"].shape[1]) or forward(**features),
    )
    trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, kept)
    # The last token of a prompt opens each branch: it predicts the branch's first token.
    assert widths == [4 + (1 + 3) + (1 + 2) + (1 + 1), 2 + 4]
    assert trainer.model.config._attn_implementation == tree_attention.NAME
