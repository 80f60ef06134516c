"""One adapter goes through all stages; every model folder also loads with plain transformers."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from components.avatar.simulator.merchant import Merchant
from components.distillation.run import run as distil
from components.distillation.settings import Settings as DistillationSettings
from components.integrations.progress import Progress
from components.integrations.training import ADAPTER
from components.sft.run import run as fine_tune
from components.sft.settings import Settings as SftSettings
from components.simulator_rl.run import run as reinforce
from components.simulator_rl.settings import Settings as RlSettings

ROOT = Path(__file__).parents[3]


def test_one_adapter_goes_through_all_stages(tiny: Path, merchant: Merchant, examples: Path, tmp_path: Path) -> None:
    lora = {"tuning": "lora", "lora_rank": 4, "learning_rate": 1e-2}
    common = {"seed": 0, "progress": Progress("test")}
    outputs = [tmp_path / name for name in ("sft", "opd", "rl")]
    for output in outputs:
        output.mkdir()
    fine_tune(
        model=tiny,
        examples=examples,
        output=outputs[0],
        settings=SftSettings(**lora, rows_per_step=1),
        **common,
    )
    distil(
        model=outputs[0] / "model",
        base_model=tiny,
        output=outputs[1],
        settings=DistillationSettings(**lora, prompts=2, prompts_per_step=2, prompts_per_batch=2, max_new_tokens=4),
        **common,
    )
    rl = RlSettings(
        **lora,
        steps=2,
        groups_per_step=1,
        group_size=2,
        episodes_per_batch=2,
        max_new_tokens=8,
        reward_weights={"brevity": 1.0},
    )
    metrics = reinforce(
        model=outputs[1] / "model",
        base_model=tiny,
        merchant=ROOT / "infra/harnesses/lumi-beauty",
        output=outputs[2],
        settings=rl,
        **common,
    )
    assert metrics["episodes"].value == 2 and metrics["informative_groups"].n == 1

    adapters = [load_file(output / "model" / ADAPTER / "adapter_model.safetensors") for output in outputs]
    assert adapters[0].keys() == adapters[1].keys() == adapters[2].keys()
    assert any(not torch.equal(adapters[0][name], adapters[1][name]) for name in adapters[0])

    base = AutoModelForCausalLM.from_pretrained(tiny).state_dict()
    for output, adapter in zip(outputs, adapters, strict=True):
        merged = AutoModelForCausalLM.from_pretrained(output / "model").state_dict()
        name = "model.layers.0.self_attn.q_proj.weight"
        prefix = f"base_model.model.{name.removesuffix('.weight')}"
        update = 2 * adapter[f"{prefix}.lora_B.weight"] @ adapter[f"{prefix}.lora_A.weight"]  # alpha / rank = 2
        torch.testing.assert_close(merged[name], base[name] + update, rtol=1e-4, atol=1e-5)
