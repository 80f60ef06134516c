"""What the three training steps share: loading weights to train, trainer arguments for this machine, curves, saving.

A model folder is a plain transformers folder. With LoRA it also holds `adapter/`: the one adapter that goes through
all stages, kept beside the merged weights so that the next stage trains on instead of starting a new one."""

import json
import math
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from components.avatar.errors import SystemFault
from components.integrations.hardware import device, training_dtype
from components.integrations.metrics import Metric
from components.integrations.progress import Progress

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast, Trainer

A = TypeVar("A", bound=TrainingArguments)
ADAPTER = "adapter"


def load_for_training(
    folder: Path, base_model: Path, *, tuning: Literal["full", "lora"] = "full", lora_rank: int = 16
) -> "tuple[PreTrainedModel, PreTrainedTokenizerFast]":
    """Model in fp32 master weights (small updates vanish in bf16) and tokenizer of a model folder.

    With `tuning="lora"` the model is a PEFT model: `base_model` under the folder's own adapter if it has one, else the
    folder's weights under a fresh adapter on all linear layers."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    dtype = torch.bfloat16 if tuning == "lora" and torch.cuda.is_available() else torch.float32
    if tuning == "full":
        return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype), tokenizer
    from peft import LoraConfig, PeftModel, get_peft_model

    adapter = folder / ADAPTER
    if adapter.is_dir():
        model = AutoModelForCausalLM.from_pretrained(base_model, dtype=dtype)
        return PeftModel.from_pretrained(model, str(adapter), is_trainable=True), tokenizer  # pyright: ignore[reportReturnType]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    config = LoraConfig(r=lora_rank, lora_alpha=2 * lora_rank, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(model, config), tokenizer  # pyright: ignore[reportReturnType]


def load_for_generation(folder: Path) -> "tuple[PreTrainedModel, PreTrainedTokenizerFast]":
    """Model in the fastest dtype of this machine, in evaluation mode on its device, and tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=training_dtype()).eval()
    return model.to(device()), AutoTokenizer.from_pretrained(folder)  # pyright: ignore[reportArgumentType]


def training_arguments(kind: type[A], output: Path, *, seed: int, **arguments: Any) -> A:
    """`kind` (SFTConfig, DistillationConfig, GRPOConfig) for this machine: device, dtype by measurement, no hub, no
    checkpoints.

    A step that dies starts again from its inputs: the steps are the pipeline's checkpoints.
    """
    import torch

    cpu = not torch.cuda.is_available()
    return kind(
        output_dir=str(output / "trainer"),
        seed=seed,
        use_cpu=cpu,
        bf16=training_dtype() is torch.bfloat16,
        dataloader_pin_memory=not cpu,
        gradient_checkpointing=not cpu,  # a CPU has memory to spare and no time
        max_grad_norm=1.0,
        logging_strategy="steps",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        **arguments,
    )


def run_trainer(trainer: "Trainer") -> None:
    """Train; a loss that is not a number or an allocation that fails is our fault and stops the step with a
    SystemFault."""
    trainer.remove_callback(_printer())  # raw dictionaries on stdout; Progress prints instead
    try:
        trainer.train()
    except MemoryError as error:
        raise SystemFault(
            "out of memory while training; lower rows_per_batch or max_row_tokens in the profile"
        ) from error
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    if not losses or not all(math.isfinite(loss) for loss in losses):
        raise SystemFault(f"training diverged: {len(losses)} logged losses, last {losses[-1] if losses else 'none'}")


def _printer() -> type[TrainerCallback]:
    from transformers.trainer_callback import PrinterCallback

    return PrinterCallback


def save_model(
    model: "torch.nn.Module | None", tokenizer: "PreTrainedTokenizerFast", source: Path, folder: Path
) -> None:
    """Write a plain transformers folder (LoRA merged, `adapter/` kept beside), fp32, with tokenizer and chat
    template."""
    from peft import PeftModel

    assert model is not None, "a trainer that has trained has a model"
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(model, PeftModel):
        model.save_pretrained(str(folder / ADAPTER))
        model = model.merge_and_unload()
    model.save_pretrained(str(folder))  # pyright: ignore[reportCallIssue, reportOptionalMemberAccess]
    tokenizer.save_pretrained(str(folder))
    (folder / "source.json").write_text(json.dumps({"trained_from": source.name}) + "\n", encoding="utf-8")


class CurveCallback(TrainerCallback):
    """Writes every logged step to `curves.jsonl` ({"step", "loss", ...}) and reports progress."""

    def __init__(self, path: Path, progress: Progress, *, tokens_per_epoch: int | None = None) -> None:
        self.path, self.progress, self.tokens_per_epoch = path, progress, tokens_per_epoch
        self.rows: list[dict[str, float]] = []
        path.unlink(missing_ok=True)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        numbers = {name: float(value) for name, value in (logs or {}).items() if isinstance(value, int | float)}
        if "loss" not in numbers:
            return
        self.rows.append({"step": float(state.global_step), **numbers})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.rows[-1]) + "\n")
        shown = {
            name: numbers[name]
            for name in ("loss", "reward", "mean_token_accuracy", "decision_accuracy")
            if name in numbers
        }
        self.progress.update(state.global_step, state.max_steps, **shown)

    def summary(self, *names: str) -> dict[str, Metric]:
        """Mean of each logged quantity over the first and over the last tenth of the steps: `<name>_first`,
        `<name>_last`."""
        found: dict[str, Metric] = {}
        for name in names:
            values = [row[name] for row in self.rows if name in row]
            if values:
                tenth = max(1, len(values) // 10)
                found[f"{name}_first"] = Metric(statistics.fmean(values[:tenth]), tenth)
                found[f"{name}_last"] = Metric(statistics.fmean(values[-tenth:]), tenth)
        return found
