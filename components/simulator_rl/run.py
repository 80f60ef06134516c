"""Reinforcement learning in the live-stream simulator.

TRL's GRPOTrainer does the update, with a group's episodes in one row (trainer.py); the rollouts are ours: `Rollouts`
plays whole episodes through the one episode loop and hands ids, masks, log-probabilities and the simulator's rewards
back. Removed from the textbook version: a reward model (the simulator's verifiers are the reward), a prompt data set (a
prompt is the number of a scenario; scenario, faults and harness state derive from it) and the KL term (beta = 0 unless
the profile says otherwise).

    python -m components.simulator_rl --model OPD/model --base-model BASE --merchant infra/harnesses/lumi-beauty
--output OUT"""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import torch

from components.avatar.agent.actors import ModelActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.transcript import transcript_row
from components.avatar.agent.transformers_client import TransformersClient
from components.avatar.agent.types import EpisodeResult
from components.avatar.harness.augment import augment
from components.avatar.harness.words import word_bank
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import sample_scenarios
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
from components.simulator_rl.settings import Settings

REWARDS = ("accuracy", "effectiveness", "tool_rationality", "skill_selection", "brevity")


class Rollouts:
    """The `rollout_func` of GRPOTrainer: plays `group_size` episodes of each scenario and keeps the books.

    A prompt is a scenario's number. Everything about an attempt derives from (seed, number, attempt), so a run can be
    repeated."""

    def __init__(
        self, merchant: Merchant, chat: Chat, settings: Settings, *, seed: int, groups: int, log: Path
    ) -> None:
        self.merchant, self.chat, self.settings, self.seed = merchant, chat, settings, seed
        self.log = log
        self.starts = [self._start(number) for number in range(groups)]
        self.episodes = 0
        self.unscored = 0
        self.groups = 0
        self.informative_groups = 0

    def _start(self, number: int) -> Start:
        rng = random.Random(f"rl:{self.seed}:{number}")
        [scenario] = sample_scenarios(
            self.merchant,
            1,
            seed=rng.randrange(2**31),
            split="train",
            families=self.settings.families or None,
            fault_rate=self.settings.fault_rate,
            varied_share=self.settings.varied_share,
            mistyped_share=self.settings.mistyped_share,
        )
        harness = self.merchant.harness
        if rng.random() >= self.settings.original_share:
            harness = augment(harness, rng, bank=word_bank("train"), strength=self.settings.strength).harness
        return Start(harness, scenario.model_copy(update={"id": f"rl-{number}"}))

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, list[Any]]:
        """Prompts arrive repeated `group_size` times, groups together. Lists of the result run parallel to
        `prompts`."""
        starts = [self.starts[int(prompt)] for prompt in prompts]
        # Sampled in the precision that the update computes in, else the importance ratio would correct for rounding.
        autocast = torch.bfloat16 if trainer.args.bf16 else None
        model = trainer.accelerator.unwrap_model(trainer.model)
        model.set_attn_implementation("sdpa")  # the update sets its own
        client = TransformersClient(model, trainer.processing_class, autocast=autocast)
        actor = ModelActor(client, temperature=self.settings.temperature, max_new_tokens=self.settings.max_new_tokens)
        results = run_episodes(
            starts,
            actor,
            self.chat,
            self.merchant.catalogue,
            max_context=self.settings.max_context,
            seed=self.seed * 1_000_003 + self.episodes,
        )
        self._account(starts, results)
        rewards = [episode_rewards(result) for result in results]
        return {
            "prompt_ids": [list(result.prompt_ids) for result in results],
            "completion_ids": [result.completion_ids for result in results],
            "logprobs": [
                [p for s in result.segments for p in (s.logprobs or (0.0,) * len(s.ids))] for result in results
            ],
            "env_mask": [result.agent_mask for result in results],
            **{f"reward_{name}": [row[name] for row in rewards] for name in REWARDS},
        }

    def _account(self, starts: list[Start], results: list[EpisodeResult]) -> None:
        size = self.settings.group_size
        with self.log.open("a", encoding="utf-8") as file:
            for start, result in zip(starts, results, strict=True):
                file.write(json.dumps(transcript_row(result, start.scenario), ensure_ascii=False) + "\n")
        self.episodes += len(results)
        self.unscored += sum(result.score is None for result in results)
        for first in range(0, len(results), size):
            scores = {tuple(episode_rewards(result).values()) for result in results[first : first + size]}
            self.groups += 1
            self.informative_groups += len(scores) > 1


def episode_rewards(result: EpisodeResult) -> dict[str, float | None]:
    """The simulator's rewards of one episode. All None when the episode fell to our own fault: TRL then leaves it
    out."""
    if result.score is None:
        return dict.fromkeys(REWARDS)
    score = result.score
    return {
        "accuracy": score.accuracy,
        "effectiveness": score.effectiveness,
        "tool_rationality": score.tool_rationality,
        "skill_selection": score.skill_selection,
        "brevity": -score.length_penalty,
    }


def reward_function(name: str) -> Any:
    """TRL hands the rollout's extra columns to each reward function; TRL logs it under the function's `__name__`."""

    def reward(**columns: Any) -> list[float | None]:
        return columns[f"reward_{name}"]

    reward.__name__ = name
    return reward


def run(
    *, model: Path, base_model: Path, merchant: Path, output: Path, settings: Settings, seed: int, progress: Progress
) -> dict[str, Metric]:
    """Train `model` on its own episodes (`base_model` carries its adapter, if it has one); writes `output/model`,
    `output/curves.jsonl` and `output/rollouts.jsonl`."""
    if settings.steps == 0:
        progress.note("no steps in the profile: the model passes through unchanged")
        shutil.copytree(model, output / "model")
        return {"rl_steps": Metric(0, 1)}

    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig

    from components.simulator_rl.trainer import SharedPrefixTrainer

    set_threads()
    policy, tokenizer = load_for_training(model, base_model, tuning=settings.tuning, lora_rank=settings.lora_rank)
    groups = -(-settings.steps // settings.iterations) * settings.groups_per_step
    (output / "rollouts.jsonl").unlink(missing_ok=True)
    rollouts = Rollouts(
        load_merchant(merchant), Chat(tokenizer), settings, seed=seed, groups=groups, log=output / "rollouts.jsonl"
    )
    batch = settings.groups_per_step * settings.group_size
    curve = CurveCallback(output / "curves.jsonl", progress)
    weights = settings.reward_weights.model_dump()
    arguments = training_arguments(
        GRPOConfig,
        output,
        seed=seed,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="constant",
        max_steps=settings.steps,
        per_device_train_batch_size=settings.episodes_per_batch,
        gradient_accumulation_steps=batch // settings.episodes_per_batch,
        num_generations=settings.group_size,
        num_iterations=settings.iterations,
        temperature=settings.temperature,
        max_completion_length=settings.max_context,
        beta=settings.beta,
        epsilon=settings.clip,
        importance_sampling_level="sequence",  # GSPO
        loss_type="grpo",  # whose loss is a mean over episodes: others would weigh them by their length
        multi_objective_aggregation="normalize_then_sum",  # GDPO
        reward_weights=[weights[name] for name in REWARDS],
        shuffle_dataset=False,
    )
    trainer = SharedPrefixTrainer(
        model=policy,
        args=arguments,
        reward_funcs=[reward_function(name) for name in REWARDS],
        train_dataset=Dataset.from_list([{"prompt": str(number)} for number in range(groups)]),
        processing_class=tokenizer,
        rollout_func=rollouts,
        callbacks=[curve],
    )
    run_trainer(trainer)
    policy.set_attn_implementation("sdpa")
    save_model(trainer.model, tokenizer, model, output / "model")
    clip = [row["clip_ratio/region_mean"] for row in curve.rows if "clip_ratio/region_mean" in row]
    return {
        "rl_steps": Metric(settings.steps, 1),
        "episodes": Metric(rollouts.episodes, 1),
        "unscored_episodes": Metric(rollouts.unscored, rollouts.episodes),
        "informative_groups": Metric(rollouts.informative_groups, rollouts.groups),
        "clip_share": Metric(sum(clip) / max(1, len(clip)), len(clip)),
        **curve.summary("loss", *(f"rewards/{name}/mean" for name in REWARDS)),
    }
