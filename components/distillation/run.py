"""General on-policy distillation: get back what domain training cost.

The student answers *general* instruction prompts; the teacher is the model from before SFT; the student minimises the
reverse KL to it on its own samples, over the full vocabulary (TRL's DistillationTrainer, beta = 1). Removed from the
textbook version: tool trajectories (their distillation is reported unstable) and any outside teacher.

    python -m components.distillation --model SFT/model --base-model BASE --output OUT
"""

import shutil
from pathlib import Path

from components.avatar.general.prompts import sample_general_prompts
from components.distillation.settings import Settings
from components.integrations.hardware import set_threads
from components.integrations.metrics import Metric
from components.integrations.progress import Progress
from components.integrations.training import (
    CurveCallback,
    load_for_training,
    run_trainer,
    save_model,
    training_arguments,
)


def run(
    *, model: Path, base_model: Path, output: Path, settings: Settings, seed: int, progress: Progress
) -> dict[str, Metric]:
    """Distil `base_model` into `model` on general prompts; writes `output/model` and `output/curves.jsonl`.

    Both must share a vocabulary (no tokens are ever added); TRL raises otherwise.
    """
    if settings.prompts == 0:
        progress.note("no prompts in the profile: the model passes through unchanged")
        shutil.copytree(model, output / "model")
        return {"prompts": Metric(0, 1)}

    from datasets import Dataset
    from transformers import AutoModelForCausalLM
    from trl.trainer.distillation_config import DistillationConfig
    from trl.trainer.distillation_trainer import DistillationTrainer

    set_threads()
    student, tokenizer = load_for_training(model, base_model, tuning=settings.tuning, lora_rank=settings.lora_rank)
    teacher = AutoModelForCausalLM.from_pretrained(base_model)
    prompts = sample_general_prompts(settings.prompts, seed=seed, split="train")
    curve = CurveCallback(output / "curves.jsonl", progress)
    arguments = training_arguments(
        DistillationConfig,
        output,
        seed=seed,
        learning_rate=settings.learning_rate,
        num_train_epochs=1,
        per_device_train_batch_size=settings.prompts_per_batch,
        gradient_accumulation_steps=max(1, settings.prompts_per_step // settings.prompts_per_batch),
        max_completion_length=settings.max_new_tokens,
        temperature=settings.temperature,
        beta=1.0,  # reverse KL
    )
    trainer = DistillationTrainer(
        model=student,
        teacher_model=teacher,
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": p.text}]} for p in prompts]),
        processing_class=tokenizer,
        callbacks=[curve],
    )
    run_trainer(trainer)
    save_model(trainer.model, tokenizer, model, output / "model")
    return {"prompts": Metric(len(prompts), 1), **curve.summary("loss")}
