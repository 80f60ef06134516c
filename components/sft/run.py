"""Supervised fine-tuning on verified trajectories.

Removed from the textbook recipe: the chat template at training time (our own ids and masks go in, the very ids that
the episode loop shows the model), padding to a batch (rows are packed by shared prefix), and shuffling (the order is
the augmentation's curriculum; the fixed-harness baseline sees the same scenarios in the same order).

    python -m components.sft --model MODEL_DIR --examples DIR/hsa.jsonl --output OUT
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.avatar.agent.chat import Chat
from components.avatar.agent.examples import Example, read_rows, to_ids
from components.avatar.agent.transformers_client import TransformersClient
from components.avatar.errors import Fault, InputError
from components.integrations import tree_attention
from components.integrations.hardware import set_threads, training_dtype
from components.integrations.metrics import Metric
from components.integrations.packing import Encoded, Row, collate, make_rows
from components.integrations.progress import Progress
from components.integrations.training import (
    CurveCallback,
    load_for_training,
    run_trainer,
    save_model,
    training_arguments,
)
from components.sft.replay import general_replay, interleave
from components.sft.settings import Settings
from components.sft.weights import token_weights

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

GENERATION_BATCH = 128


def run(
    *, model: Path, examples: Path, output: Path, settings: Settings, seed: int, progress: Progress
) -> dict[str, Metric]:
    """Fine-tune `model` (a transformers folder) on the rows of `examples` (JSON lines); writes `output/model` and
    `output/curves.jsonl`.

    Raises InputError when no example fits a row.
    """
    from datasets import Dataset
    from trl.trainer.sft_config import SFTConfig

    from components.sft.trainer import PackedTrainer

    set_threads()
    student, tokenizer = load_for_training(model, model, tuning=settings.tuning, lora_rank=settings.lora_rank)
    if settings.frozen_layers:
        freeze(student, settings.frozen_layers)
    chat = Chat(tokenizer)
    encoded = []
    for example in read_rows(examples, Example):
        ids, mask = to_ids(example, chat)
        weights = token_weights(example, chat, settings.decision_weight)
        encoded.append(Encoded(tuple(ids), tuple(mask), tuple(weights), example.harness_digest))
    fitting = [sequence for sequence in encoded if len(sequence.ids) <= settings.max_row_tokens]
    if not fitting:
        raise InputError(
            [Fault(str(examples), "examples", f"{len(encoded)} too long", f"<= {settings.max_row_tokens} tokens")]
        )
    rows = make_rows(fitting, max_tokens=settings.max_row_tokens, max_branches=settings.max_branches)
    tokens, separate = count(rows), sum(len(sequence.ids) for sequence in fitting)
    progress.note(
        f"{len(fitting)} examples ({len(encoded) - len(fitting)} too long) in {len(rows)} rows: {tokens} tokens "
        f"instead of {separate} without shared prefixes"
    )
    general, replayed = general_rows(student, tokenizer, settings, seed, progress)
    rows = interleave(rows, general)

    pad_id = int(tokenizer.pad_token_id)  # pyright: ignore[reportArgumentType]
    curve = CurveCallback(output / "curves.jsonl", progress, tokens_per_epoch=count(rows))
    accumulation = max(1, settings.rows_per_step // settings.rows_per_batch)
    steps = settings.epochs * math.ceil(math.ceil(len(rows) / settings.rows_per_batch) / accumulation)
    arguments = training_arguments(
        SFTConfig,
        output,
        seed=seed,
        learning_rate=settings.learning_rate,
        warmup_steps=settings.warmup_ratio,  # below 1: a share of all steps
        lr_scheduler_type="warmup_stable_decay",
        lr_scheduler_kwargs={"num_decay_steps": round(settings.decay_ratio * steps), "decay_type": "linear"},
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.rows_per_batch,
        gradient_accumulation_steps=accumulation,
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        max_length=None,
    )
    student.set_attn_implementation(tree_attention.NAME)
    trainer = PackedTrainer(
        model=student,
        args=arguments,
        train_dataset=Dataset.from_list([vars(row) for row in rows]),
        processing_class=tokenizer,
        data_collator=lambda batch: collate(batch, pad_id),
        callbacks=[curve],
    )
    run_trainer(trainer)
    student.set_attn_implementation("sdpa")
    save_model(trainer.model, tokenizer, model, output / "model")
    return {
        "examples": Metric(len(fitting), 1),
        "tokens": Metric(tokens * settings.epochs, 1),
        "prefix_saving": Metric(1 - tokens / separate, 1),
        "general_tokens": Metric(count(general) * settings.epochs, 1),
        "general_verified": replayed,
        **curve.summary("loss", "decision_accuracy"),
    }


def freeze(model: "PreTrainedModel", layers: int) -> None:
    """Keep the embeddings and the lowest `layers` decoder layers as they are."""
    decoder: Any = model.get_decoder()
    for module in (model.get_input_embeddings(), *decoder.layers[:layers]):
        module.requires_grad_(False)


def general_rows(
    student: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    settings: Settings,
    seed: int,
    progress: Progress,
) -> tuple[list[Row], Metric]:
    """Rows of general replay, answered by `student` before it is trained, and the share of the answers that fulfil
    their prompt."""
    answers, verified = general_replay(
        TransformersClient(student, tokenizer, batch_size=GENERATION_BATCH, autocast=training_dtype()),
        Chat(tokenizer),
        tokens=settings.general_tokens,
        samples=settings.general_samples,
        max_new_tokens=settings.general_new_tokens,
        seed=seed,
        progress=progress,
    )
    rows = make_rows(answers, max_tokens=settings.max_row_tokens // 2, max_branches=max(1, len(answers)))
    if rows:
        progress.note(
            f"{len(answers)} general answers of the base model ({verified:.0%} fulfil their prompt) in {len(rows)} "
            f"rows: {count(rows)} tokens"
        )
    return rows, Metric(verified if answers else math.nan, len(answers))


def count(rows: list[Row]) -> int:
    """Tokens of the rows, a shared prefix once."""
    return sum(len(row.input_ids) for row in rows)
