"""How much of its errors a model loses when the harness is edited for it, with frozen weights.

Every model plays every edit's cases before and after the edit. Error reduction is 1 - (errors after / errors before),
over all edits that help the oracle; intervals are bootstrapped over edits, since the cases of one edit are no
independent draws.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from components.avatar.agent.actors import ModelActor, OracleActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Actor, Start, run_episodes
from components.avatar.agent.surfaces import Surfaces
from components.avatar.agent.transformers_client import Decoding, TransformersClient
from components.avatar.errors import Fault, InputError
from components.avatar.harness.schema import Harness
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import Scenario
from components.evaluation.edit_test.edits import KINDS, Edit, make_edits
from components.evaluation.edit_test.rounds import Play, evolve
from components.evaluation.suites import held_out
from components.integrations.progress import Progress
from components.integrations.training import load_for_generation

MAX_CONTEXT = 1536
RESAMPLES = 4000


@dataclass(frozen=True)
class Errors:
    """Errors before and after each edit, and how many cases each has; arrays of shape (edits,)."""

    before: np.ndarray
    after: np.ndarray
    cases: np.ndarray

    def reduction(self, chosen: np.ndarray) -> float:
        """Share of the errors that the chosen edits removed; NaN when there was no error before."""
        before = self.before[chosen].sum()
        return float(1 - self.after[chosen].sum() / before) if before else float("nan")


def edit_test(
    merchant: Merchant,
    models: Mapping[str, Path],
    seen: Surfaces,
    *,
    edits: int,
    cases: int,
    seed: int,
    progress: Progress,
    rounds: int = 2,
    round_cases: int = 60,
    decodings: Sequence[Decoding] = ("free", "constrained"),
    max_new_tokens: int = 64,
) -> dict[str, Any]:
    """Error reduction of every model under every decoding, and the difference of each to the first one; then `rounds`
    in which a renamed harness evolves for each model (rounds.py), judged on `round_cases` of each of its sets.

    Raises InputError when none of the edits helps the oracle.
    """
    made = make_edits(merchant, edits, cases, seed, seen)
    helpful: list[Edit] = []
    dropped = 0
    evolved = held_out(merchant.harness, random.Random(f"evolved:{seed}"), 1.0, seen)
    oracle: Errors | None = None
    report: dict[str, Any] = {"models": {}, "differences": {}, "rounds": {}}
    found: dict[tuple[str, str], Errors] = {}
    for arm, folder in models.items():
        weights, tokenizer = load_for_generation(folder)
        chat = Chat(tokenizer)
        if oracle is None:
            everything = _errors(made, OracleActor(chat), chat, merchant)
            helpful = [edit for edit, b, a in zip(made, everything.before, everything.after, strict=True) if a < b]
            dropped = len(made) - len(helpful)
            if not helpful:
                raise InputError([Fault(merchant.name, "edits", "none that helps the oracle", "one at least")])
            oracle = _errors(helpful, OracleActor(chat), chat, merchant)
            report["oracle"] = _summary(oracle, helpful, seed)
        report["models"][arm] = {}
        for decoding in decodings:
            client = TransformersClient(weights, tokenizer, decoding=decoding)
            actor = ModelActor(client, temperature=0.0, max_new_tokens=max_new_tokens)
            errors = _errors(helpful, actor, chat, merchant, progress, f"{arm} {decoding}")
            found[arm, decoding] = errors
            report["models"][arm][decoding] = _summary(errors, helpful, seed)
            if rounds:
                first_set, second_set, third_set = (
                    sample_scenarios(merchant, round_cases, seed=seed * 10 + number, split="test")
                    for number in (1, 2, 3)
                )
                progress.note("evolving the harness", model=f"{arm} {decoding}")
                report["rounds"].setdefault(arm, {})[decoding] = evolve(
                    evolved,
                    _player(actor, chat, merchant),
                    (first_set, second_set, third_set),
                    rounds=rounds,
                    seed=seed,
                )
        del weights
    first = next(iter(models))
    for (arm, decoding), errors in found.items():
        if arm != first:
            report["differences"].setdefault(f"{arm} - {first}", {})[decoding] = _difference(
                errors, found[first, decoding], seed
            )
    return report | {"edits": len(helpful), "dropped": dropped, "cases": int(oracle.cases.sum()) if oracle else 0}


def _player(actor: Actor, chat: Chat, merchant: Merchant) -> Play:
    """Quality by scenario; an episode that our own side failed is no evidence against a harness and counts as 1."""

    def play(harness: Harness, scenarios: Sequence[Scenario]) -> list[float]:
        starts = [Start(harness, scenario) for scenario in scenarios]
        results = run_episodes(starts, actor, chat, merchant.catalogue, max_context=MAX_CONTEXT)
        return [1.0 if result.score is None else result.score.quality for result in results]

    return play


def _errors(
    edits: Sequence[Edit],
    actor: Actor,
    chat: Chat,
    merchant: Merchant,
    progress: Progress | None = None,
    label: str = "",
) -> Errors:
    counted: list[np.ndarray] = []
    for state in ("before", "after"):
        starts = [Start(getattr(edit, state), scenario) for edit in edits for scenario in edit.scenarios]

        def report(done: int, total: int, state: str = state) -> None:
            if progress is not None:
                progress.update(done, total, model=label, harness=state)

        results = iter(
            run_episodes(starts, actor, chat, merchant.catalogue, max_context=MAX_CONTEXT, on_progress=report)
        )
        counted.append(np.array([sum(not edit.achieved(next(results)) for _ in edit.scenarios) for edit in edits]))
    return Errors(counted[0], counted[1], np.array([len(edit.scenarios) for edit in edits]))


def _summary(errors: Errors, edits: Sequence[Edit], seed: int) -> dict[str, Any]:
    everything = np.arange(len(edits))
    kinds = {kind: np.array([i for i, edit in enumerate(edits) if edit.kind == kind], dtype=int) for kind in KINDS}
    return {"all": _cell(errors, everything, seed)} | {
        kind: _cell(errors, chosen, seed) for kind, chosen in kinds.items() if len(chosen)
    }


def _cell(errors: Errors, chosen: np.ndarray, seed: int) -> dict[str, Any]:
    draws = np.random.default_rng(seed).choice(chosen, (RESAMPLES, len(chosen)))
    values = [errors.reduction(draw) for draw in draws]
    low, high = np.nanquantile(values, [0.025, 0.975]) if not np.isnan(values).all() else (None, None)
    value = errors.reduction(chosen)
    cases = errors.cases[chosen].sum()
    return {
        "error_before": float(errors.before[chosen].sum() / cases),
        "error_after": float(errors.after[chosen].sum() / cases),
        "reduction": {
            "value": None if np.isnan(value) else value,
            "ci": [low, high],
            "n": len(chosen),
        },
        "cases": int(cases),
    }


def _difference(errors: Errors, other: Errors, seed: int) -> dict[str, Any]:
    """Difference of two error reductions on the same edits, with its interval over edits."""
    chosen = np.arange(len(errors.before))
    draws = np.random.default_rng(seed).choice(chosen, (RESAMPLES, len(chosen)))
    low, high = np.nanquantile([errors.reduction(d) - other.reduction(d) for d in draws], [0.025, 0.975])
    value = errors.reduction(chosen) - other.reduction(chosen)
    return {"value": value, "ci": [float(low), float(high)], "n": len(chosen)}
