"""BFCL, clean and under perturbed surfaces, for any model folders: does what was trained on a live stream's tools
transfer to tools that nobody here wrote?

Every model gets the same cases and surfaces. Decoding is greedy. What a model writes freely within the limits of
constrained decoding is not decoded a second time (as in `evaluation/playing.py`).
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.avatar.agent.chat import Chat
from components.avatar.agent.constrained import TokenTable, keeps_to
from components.avatar.agent.transformers_client import TransformersClient
from components.avatar.agent.types import Generation
from components.evaluation.bfcl.checker import Verdict
from components.evaluation.bfcl.data import VERSION, Case
from components.evaluation.bfcl.judge import judge
from components.evaluation.bfcl.results import BASELINE, Outcome, lead, summarise
from components.evaluation.bfcl.surface import Surface, clean_surface, perturbed_surface
from components.evaluation.settings import Decoding
from components.integrations.metrics import write_json
from components.integrations.progress import Progress
from components.integrations.training import load_for_generation

DECODINGS: tuple[Decoding, ...] = ("free", "constrained")
NEW_TOKENS = 160  # of one turn: every gold call fits (the longest has about 145)
CONTEXT = 2048  # tokens that the base model was trained on
HABIT = 450  # tokens of a prompt in this project's training data: longer ones are counted
CHUNK = 32  # prompts between two lines of progress: one batch of the client


@dataclass(frozen=True)
class Prompt:
    """One case under one surface; `variant` None is the clean one."""

    case: Case
    variant: int | None
    surface: Surface
    ids: list[int]


def run(
    models: dict[str, Path], cases: Sequence[Case], *, variants: int, output: Path, seed: int, progress: Progress
) -> dict[str, Any]:
    """Writes bfcl.json (returned) and cases.jsonl: every turn with its verdict. `models`: arm -> model folder.

    A case of which any prompt is longer than the context is left out for that model, in all its surfaces, and counted.
    """
    started = time.perf_counter()
    surfaces = [
        (case, [clean_surface(case), *(perturbed_surface(case, number, seed) for number in range(variants))])
        for case in cases
    ]
    report: dict[str, Any] = {
        "arms": {},
        "leads": {},
        "prompts": {},
        "variants": variants,
        "seed": seed,
        "wheel": VERSION,
    }
    outcomes: dict[tuple[str, Decoding], list[Outcome]] = {}
    output.mkdir(parents=True, exist_ok=True)
    with (output / "cases.jsonl").open("w", encoding="utf-8") as file:
        for arm, folder in models.items():
            model, tokenizer = load_for_generation(folder)
            prompts, report["prompts"][arm] = _prompts(surfaces, Chat(tokenizer))
            report["arms"][arm] = {}
            turns: list[Generation] = []
            for decoding in DECODINGS:
                client = TransformersClient(model, tokenizer, decoding=decoding)
                turns = _generate(client, prompts, turns, progress, f"{arm} {decoding}")
                verdicts = [judge(p.case, p.surface, t.text) for p, t in zip(prompts, turns, strict=True)]
                outcomes[arm, decoding] = _outcomes(prompts, verdicts)
                report["arms"][arm][decoding] = summarise(outcomes[arm, decoding], seed)
                for prompt, turn, verdict in zip(prompts, turns, verdicts, strict=True):
                    file.write(json.dumps(_row(arm, decoding, prompt, turn, verdict), ensure_ascii=False) + "\n")
    for (arm, decoding), own in outcomes.items():
        if arm != BASELINE and (BASELINE, decoding) in outcomes:
            report["leads"].setdefault(arm, {})[decoding] = lead(own, outcomes[BASELINE, decoding], seed)
    report |= {"variants": variants, "seed": seed, "wheel": VERSION}
    report["seconds"] = time.perf_counter() - started
    write_json(output / "bfcl.json", report)
    return report


def _prompts(surfaces: list[tuple[Case, list[Surface]]], chat: Chat) -> tuple[list[Prompt], dict[str, Any]]:
    """The prompts of the cases that fit, those of one case together and the clean one first; what was left out."""
    prompts: list[Prompt] = []
    left_out: dict[str, int] = {}
    for case, several in surfaces:
        encoded = [chat.prompt_ids(surface.harness, case.question) for surface in several]
        if max(map(len, encoded)) > CONTEXT - NEW_TOKENS:
            left_out[case.category] = left_out.get(case.category, 0) + 1
            continue
        prompts += [
            Prompt(case, number - 1 if number else None, surface, ids)
            for number, (surface, ids) in enumerate(zip(several, encoded, strict=True))
        ]
    lengths = sorted(len(prompt.ids) for prompt in prompts)
    return prompts, {
        "left_out": left_out,
        "limit": CONTEXT - NEW_TOKENS,
        "n": len(prompts),
        "median": lengths[len(lengths) // 2] if lengths else None,
        "longest": lengths[-1] if lengths else None,
        f"over_{HABIT}": sum(length > HABIT for length in lengths),
    }


def _generate(
    client: TransformersClient, prompts: list[Prompt], free: list[Generation], progress: Progress, label: str
) -> list[Generation]:
    """One greedy turn a prompt. `free`: the turns of the same model without constraint, of which a constrained client
    keeps those that obey it by themselves."""
    turns: dict[int, Generation] = {}
    if free and client.decoding == "constrained":
        tokens = TokenTable(client.tokenizer)
        turns = {
            index: turn
            for index, (prompt, turn) in enumerate(zip(prompts, free, strict=True))
            if keeps_to(tokens, prompt.surface.harness, turn.ids)
        }
    rest = sorted((i for i in range(len(prompts)) if i not in turns), key=lambda i: len(prompts[i].ids))
    for first in range(0, len(rest), CHUNK):
        part = rest[first : first + CHUNK]
        fresh = client.generate(
            [prompts[i].ids for i in part],
            [prompts[i].surface.harness for i in part],
            max_new_tokens=NEW_TOKENS,
            temperature=0.0,
        )
        turns |= zip(part, fresh, strict=True)
        progress.update(len(turns), len(prompts), model=label)
    return [turns[index] for index in range(len(prompts))]


def _outcomes(prompts: list[Prompt], verdicts: list[Verdict]) -> list[Outcome]:
    clean: dict[str, tuple[Case, Verdict]] = {}
    perturbed: dict[str, list[Verdict]] = {}
    for prompt, verdict in zip(prompts, verdicts, strict=True):
        if prompt.variant is None:
            clean[prompt.case.id] = (prompt.case, verdict)
        else:
            perturbed.setdefault(prompt.case.id, []).append(verdict)
    return [Outcome(id_, case.category, verdict, tuple(perturbed[id_])) for id_, (case, verdict) in clean.items()]


def _row(arm: str, decoding: Decoding, prompt: Prompt, turn: Generation, verdict: Verdict) -> dict[str, Any]:
    return {
        "arm": arm,
        "decoding": decoding,
        "case": prompt.case.id,
        "variant": prompt.variant,
        "verdict": verdict,
        "question": prompt.case.question,
        "tools": [tool.name for tool in prompt.surface.harness.tools],
        "turn": turn.text,
    }
