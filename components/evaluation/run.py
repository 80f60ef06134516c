"""Evaluation of the arms on the same cases: T1 (merchant's harness), T2 (held-out surfaces), T3 (robustness),
general, latency.

Everything is said with its n; T1 - T2 and the lead over the baseline are paired and come with a bootstrap interval.
Both decodings are reported, so that constrained decoding cannot pass for learning.

    python -m components.evaluation --merchant DIR --models base=DIR fixed_sft=DIR hat=DIR --surfaces surfaces.json
--output OUT"""

import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from components.avatar.agent.actors import ModelActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.metrics import rate
from components.avatar.agent.surfaces import Surfaces
from components.avatar.agent.transcript import transcript_row
from components.avatar.agent.transformers_client import TransformersClient
from components.avatar.general.prompts import GeneralPrompt, sample_general_prompts
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.evaluation.naming import judge_names
from components.evaluation.playing import Played, play
from components.evaluation.settings import Decoding, Settings
from components.evaluation.suites import Suites, build_suites
from components.evaluation.summary import leads, summarise
from components.evaluation.verdicts import agreement_rates, by_verifier
from components.integrations.hardware import set_threads
from components.integrations.metrics import Metric, write_json
from components.integrations.progress import Progress
from components.integrations.training import load_for_generation


def run(
    *,
    merchant: Path,
    models: dict[str, Path],
    surfaces: Path,
    output: Path,
    settings: Settings,
    seed: int,
    progress: Progress,
) -> dict[str, Metric]:
    """Evaluate the model folders `models` (arm -> folder); `surfaces` is the augmentation step's surfaces.json: it
    proves that T2's surfaces are new. Writes evaluation.json and
    cases.jsonl.

    Raises InputError when a held-out surface occurs in the training data.
    """
    set_threads()
    world = load_merchant(merchant)
    seen = Surfaces.model_validate_json(surfaces.read_text(encoding="utf-8"))
    suites = build_suites(world, settings, seed, seen)
    prompts = sample_general_prompts(settings.general_prompts, seed=seed, split="test")
    report: dict[str, Any] = {
        "models": {},
        "general": {},  # arm -> 1 or 0 by prompt: for paired differences between arms
        "seed": seed,
        "sizes": {name: len(s) for name, s in suites.by_name().items()},
    }
    judged: dict[tuple[str, Decoding], Played] = {}
    cases_path = output / "cases.jsonl"
    cases_path.unlink(missing_ok=True)
    for arm, folder in models.items():
        model, tokenizer = load_for_generation(folder)
        chat = Chat(tokenizer)
        report["models"][arm] = {}
        as_played: dict[Decoding, Played] = {}
        free = TransformersClient(model, tokenizer, batch_size=settings.batch_size)
        constrained = TransformersClient(model, tokenizer, decoding="constrained", batch_size=settings.batch_size)
        fulfilled = _general(free, chat, prompts, settings, progress, arm)
        report["general"][arm] = [int(flag) for flag in fulfilled]
        for decoding in settings.decodings:
            client = free if decoding == "free" else constrained
            label = f"{arm} {decoding}"
            raw = play(client, chat, world, suites, settings, seed, progress, label, as_played.get("free"))
            as_played[decoding] = raw
            played, same = by_verifier(raw, suites, world.catalogue)
            judged[arm, decoding] = played
            named = {
                suite: judge_names(
                    episodes, constrained if client is free else None, max_new_tokens=settings.max_new_tokens
                )
                for suite, episodes in played.items()
            }
            others = {"general": rate(fulfilled)} | agreement_rates(same)
            report["models"][arm][decoding] = summarise(played, named, frozenset(seen.names), others, seed)
            if settings.latency_cases:
                report["models"][arm][decoding] |= _latency(
                    client, chat, world, suites.t1[: settings.latency_cases], settings
                )
            with cases_path.open("a", encoding="utf-8") as file:
                for row in _rows(played, suites, arm, decoding):
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
        del model
    report["leads"] = leads(judged, seed)
    write_json(output / "evaluation.json", _finite(report))
    return _flat(report)


def _general(
    client: TransformersClient,
    chat: Chat,
    prompts: list[GeneralPrompt],
    settings: Settings,
    progress: Progress,
    arm: str,
) -> list[bool]:
    """Whether every constraint of each general prompt holds. No tools in the prompt, the base model's own template,
    greedy."""
    ids = [
        chat.messages_ids([{"role": "user", "content": prompt.text}], add_generation_prompt=True) for prompt in prompts
    ]
    fulfilled: list[bool] = []
    for first in range(0, len(prompts), settings.batch_size):
        batch = slice(first, first + settings.batch_size)
        answers = client.generate(
            ids[batch], [None] * len(ids[batch]), max_new_tokens=settings.general_new_tokens, temperature=0.0
        )
        fulfilled += [p.fulfilled(a.text) for p, a in zip(prompts[batch], answers, strict=True)]
        progress.update(min(batch.stop, len(prompts)), len(prompts), model=arm, suite="general")
    return fulfilled


def _latency(
    client: TransformersClient, chat: Chat, world: Merchant, starts: list[Start], settings: Settings
) -> dict[str, Any]:
    """Wall seconds of an episode's turn answered alone (batch of one), as a viewer would wait for it on this
    machine."""
    actor = ModelActor(client, temperature=0.0, max_new_tokens=settings.max_new_tokens)
    seconds = []
    for start in starts:
        begun = time.perf_counter()
        run_episodes([start], actor, chat, world.catalogue, max_context=settings.max_context)
        seconds.append((time.perf_counter() - begun) / len(start.scenario.questions))
    return {
        "p50_s": {"value": statistics.median(seconds), "n": len(seconds)},
        "p95_s": {"value": float(np.quantile(seconds, 0.95)), "n": len(seconds)},
    }


def _rows(played: Played, suites: Suites, arm: str, decoding: str) -> list[dict[str, Any]]:
    starts = suites.by_name()
    return [
        transcript_row(
            episode.result,
            start.scenario,
            arm=arm,
            decoding=decoding,
            suite=suite,
            failed=episode.result.score is None or episode.result.score.quality < 1,
            tools=[tool.name for tool in start.harness.tools],
        )
        for suite, episodes in played.items()
        for start, episode in zip(starts[suite], episodes, strict=True)
    ]


def _finite(value: Any) -> Any:
    """NaN (nothing to measure) becomes null: JSON has no NaN and a report must not show a zero."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _flat(report: dict[str, Any]) -> dict[str, Metric]:
    """`<arm>.<decoding>.<metric>` for MLflow; the whole structure stays in evaluation.json."""
    return {
        f"{arm}.{decoding}.{name}": Metric(cell["value"], cell["n"])
        for arm, decodings in report["models"].items()
        for decoding, cells in decodings.items()
        for name, cell in cells.items()
    }
