"""Where the time of training and evaluation goes: one way at a time is changed, and its time stands beside that of the
way the profile works, in the same run.

    python -m pipelines.benchmark.speed --from RUN_DIR --out FILE [--profile local]

Training: forward, backward and optimizer step over the same conversations of the run's augmented examples, a row a
step. Reinforcement: log-probabilities and backward of groups of episodes, copies of one. Generation: the same greedy
episodes of the run's trained model on T2. The ways take turns, so that a neighbour's load falls on all of them; medians
are compared.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch.nn.functional import cross_entropy
from transformers import AutoTokenizer
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.utils import pad

from components.avatar.agent.actors import ModelActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.examples import Example, read_rows, to_ids
from components.avatar.agent.surfaces import Surfaces
from components.avatar.agent.transformers_client import KEPT_BYTES, TransformersClient
from components.avatar.errors import Fault, InputError
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.evaluation.settings import Settings as Evaluation
from components.evaluation.suites import build_suites
from components.integrations import tree_attention
from components.integrations.cli import exit_status
from components.integrations.hardware import device, set_threads, training_dtype, usable_cores
from components.integrations.metrics import write_json
from components.integrations.packing import Encoded, Row, collate, forward_trained, make_rows
from components.integrations.training import load_for_generation, load_for_training, training_arguments
from components.sft.run import freeze
from components.simulator_rl.trainer import SharedPrefixTrainer
from pipelines.benchmark.run import CACHE
from pipelines.benchmark.trials import share_of
from pipelines.preflight import preflight
from pipelines.profile import load_profile
from pipelines.summary import output_of

FROZEN = 15  # half of the layers of the base model of `local`
Decoder = Any  # a transformers model; its classes do not say what their layers are called


@dataclass(frozen=True)
class Training:
    """A way to train."""

    branches: int
    dtype: torch.dtype
    attention: str = tree_attention.NAME
    frozen_layers: int = 0
    lora: bool = False
    compiled: bool = False


@dataclass(frozen=True)
class Generation:
    """A way to play episodes."""

    dtype: torch.dtype
    batch_size: int
    kept_bytes: int = KEPT_BYTES


def training_ways(branches: int, dtype: torch.dtype) -> dict[str, Training]:
    """Name -> way; the first is the profile's own, each other one differs from it in one thing."""
    own = Training(branches, dtype)
    return {
        f"as trained: {branches} a row": own,
        "a row for each conversation": replace(own, branches=1),
        "8 conversations a row": replace(own, branches=8),
        "torch's attention kernel": replace(own, attention=tree_attention.FUSED),
        "in the other precision": replace(own, dtype=_other(dtype)),
        "torch.compile of the MLPs": replace(own, compiled=True),
        f"lower {FROZEN} layers frozen": replace(own, frozen_layers=FROZEN),
        "LoRA of rank 16": replace(own, lora=True),
    }


def generation_ways(batch_size: int, dtype: torch.dtype) -> dict[str, Generation]:
    """As `training_ways`."""
    own = Generation(dtype, batch_size)
    return {
        f"as evaluated: {batch_size} rows": own,
        "one row at a time": replace(own, batch_size=1),
        "nothing kept between turns": replace(own, kept_bytes=0),
        "in the other precision": replace(own, dtype=_other(dtype)),
    }


def _other(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype is torch.bfloat16 else torch.bfloat16


def training_seconds(way: Training, base: Path, conversations: Sequence[Encoded]) -> float:
    """Seconds of the optimizer steps over `conversations`, a row a step; a first row warms up."""
    model, tokenizer = load_for_training(base, base, tuning="lora" if way.lora else "full")
    if way.frozen_layers:
        freeze(model, way.frozen_layers)
    model.set_attn_implementation(way.attention)
    model.to(device()).train()  # pyright: ignore[reportArgumentType]
    if way.compiled:
        decoder: Decoder = model.get_decoder()
        for layer in decoder.layers:
            layer.mlp.forward = torch.compile(layer.mlp.forward, dynamic=True)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-6, fused=True)
    pad_id = int(tokenizer.pad_token_id)  # pyright: ignore[reportArgumentType]
    rows = make_rows(conversations, max_tokens=4096, max_branches=way.branches)
    for row in rows[:2]:  # a second shape: torch.compile is done with compiling
        _step(model, optimizer, row, pad_id, way.dtype)
    started = time.perf_counter()
    for row in rows:
        _step(model, optimizer, row, pad_id, way.dtype)
    return time.perf_counter() - started


def _step(model: Decoder, optimizer: torch.optim.Optimizer, row: Row, pad_id: int, dtype: torch.dtype) -> None:
    batch = {name: value.to(device()) for name, value in collate([vars(row)], pad_id).items()}
    with torch.autocast(device().type, dtype=dtype, enabled=dtype is not torch.float32):
        outputs, places_K = forward_trained(model, batch)
    cross_entropy(outputs.logits[0].float(), batch["labels"][0, 1:][places_K]).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def reinforcement_seconds(method: type[GRPOTrainer], trainer: Any, groups: Sequence[Sequence[Encoded]]) -> float:
    """Seconds of the log-probabilities and their backward, as `method` computes them, a batch of all `groups`: the
    episodes of each share their prompt."""
    ids, mask, kept = padded_batch([(e.ids[: e.mask.index(1)], e.ids[e.mask.index(1) :]) for g in groups for e in g])
    trainer.model.set_attn_implementation("sdpa")
    started = time.perf_counter()
    logps, *_ = method._get_per_token_logps_and_entropies(trainer, trainer.model, ids, mask, kept, compute_entropy=True)
    logps.mean().backward()
    trainer.model.zero_grad()
    return time.perf_counter() - started


def padded_batch(rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Ids and mask of (prompt, completion) pairs as TRL pads them, prompts on the left and completions on the right,
    (B, T) each, and the width of the completions."""
    ids, mask = [], []
    for part, side in zip(zip(*rows, strict=True), ("left", "right"), strict=True):
        tokens = [torch.tensor(row, device=device()) for row in part]
        ids.append(pad(tokens, padding_value=0, padding_side=side))
        mask.append(pad([torch.ones_like(row) for row in tokens], padding_value=0, padding_side=side))
    return torch.cat(ids, dim=1), torch.cat(mask, dim=1), ids[1].shape[1]


def group_trainer(base: Path, scratch: Path) -> SharedPrefixTrainer:
    """A trainer that is only asked for log-probabilities."""
    model, tokenizer = load_for_training(base, base)
    return SharedPrefixTrainer(
        model=model,
        args=training_arguments(GRPOConfig, scratch, seed=0, per_device_train_batch_size=8),
        reward_funcs=[lambda completions, **_: [0.0] * len(completions)],
        train_dataset=Dataset.from_list([{"prompt": "0"}]),
        processing_class=tokenizer,
    )


def generation_seconds(way: Generation, folder: Path, world: Merchant, starts: list[Start], asked: Evaluation) -> float:
    """Seconds of the greedy episodes of `starts`."""
    model, tokenizer = load_for_generation(folder)
    client = TransformersClient(
        model.to(way.dtype),  # pyright: ignore[reportArgumentType]
        tokenizer,
        batch_size=way.batch_size,
        kept_bytes=way.kept_bytes,
    )
    actor = ModelActor(client, max_new_tokens=asked.max_new_tokens)
    chat = Chat(tokenizer)
    run_episodes(starts[:1], actor, chat, world.catalogue, max_context=asked.max_context)
    started = time.perf_counter()
    run_episodes(starts, actor, chat, world.catalogue, max_context=asked.max_context)
    return time.perf_counter() - started


def in_turn(ways: dict[str, Callable[[], float]], rounds: int) -> dict[str, dict[str, Any]]:
    """Way -> median seconds, its ratio to the first way's, and all samples; in each round every way goes once."""
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, measure in ways.items():
            samples[name].append(measure())
            print(f"round {number + 1} of {rounds}: {name} {samples[name][-1]:.1f} s", flush=True)
    medians = {name: statistics.median(taken) for name, taken in samples.items()}
    first = next(iter(medians.values()))
    return {
        name: {"seconds": round(medians[name], 2), "ratio": round(medians[name] / first, 2), "samples": samples[name]}
        for name in ways
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0, 1 when the machine failed, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.benchmark.speed", description="What each way costs.")
    parser.add_argument("--from", dest="from_run", type=Path, required=True, metavar="RUN_DIR")
    parser.add_argument("--out", type=Path, required=True, help="JSON file with all figures")
    parser.add_argument("--profile", default="local")
    parser.add_argument("--conversations", type=int, default=32, metavar="N", help="of a training way (default: 32)")
    parser.add_argument("--episodes", type=int, default=32, metavar="N", help="of a way to generate (default: 32)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    options = parser.parse_args(argv)
    return exit_status(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    set_threads()
    profile = load_profile(options.profile)
    prepared = preflight(profile, options.out.parent, CACHE)
    outputs = {name: output_of(options.from_run, name) for name in ("harness_augmentation", "sft_hsa")}
    if missing := [name for name, folder in outputs.items() if folder is None]:
        raise InputError([Fault(str(options.from_run), ", ".join(missing), "no complete output", "a pipeline run")])
    data, trained = (folder for folder in outputs.values() if folder)
    chat = Chat(AutoTokenizer.from_pretrained(prepared.base_model))
    conversations = []
    total = len(read_rows(data / "hsa.jsonl", Example))
    for example in share_of(data / "hsa.jsonl", min(1.0, options.conversations / total)):  # rows grow along the file
        ids, mask = to_ids(example, chat)
        conversations.append(Encoded(tuple(ids), tuple(mask), tuple(map(float, mask)), example.harness_digest))
    world = load_merchant(prepared.merchant)
    asked = Evaluation(cases=options.episodes, robustness_cases=0, pass_cases=0)
    seen = Surfaces.model_validate_json((data / "surfaces.json").read_text(encoding="utf-8"))
    starts = build_suites(world, asked, profile.seed, seen).t2
    dtype = training_dtype()
    training = training_ways(profile.sft.max_branches, dtype)
    generation = generation_ways(asked.batch_size, dtype)
    size = profile.simulator_rl.group_size
    groups = [[conversation] * size for conversation in conversations[:: max(1, len(conversations) // 4)][:4]]
    trainer = group_trainer(prepared.base_model, options.out.parent / "speed")
    reinforcement = {"as trained: a row a group": SharedPrefixTrainer, "a row for each episode": GRPOTrainer}
    result = {
        "machine": {"cores": usable_cores(), "dtype": str(dtype), "torch": torch.__version__},
        "training": in_turn(
            {n: partial(training_seconds, way, prepared.base_model, conversations) for n, way in training.items()},
            options.rounds,
        ),
        "reinforcement": in_turn(
            {name: partial(reinforcement_seconds, method, trainer, groups) for name, method in reinforcement.items()},
            options.rounds,
        ),
        "generation": in_turn(
            {n: partial(generation_seconds, w, trained / "model", world, starts, asked) for n, w in generation.items()},
            options.rounds,
        ),
    }
    write_json(options.out, result)
    for part in ("training", "reinforcement", "generation"):
        for name, row in result[part].items():
            print(f"{part:13} {name:30} {row['seconds']:7.1f} s  ratio {row['ratio']:.2f}")
    print(f"figures {options.out}")


if __name__ == "__main__":
    raise SystemExit(main())
