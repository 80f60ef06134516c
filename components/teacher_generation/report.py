"""acceptance.json: what became of the scenarios, and, for an endpoint, what it took and what it cost."""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from components.avatar.agent.examples import Misstep
from components.avatar.harness.schema import Family, HookCheck
from components.avatar.simulator.scenario import Scenario
from components.integrations.metrics import Metric
from components.teacher_generation.acceptance import Solved
from components.teacher_generation.attempts import Attempt, Tokens, Vote
from components.teacher_generation.settings import Endpoint, Settings

MILLION = Decimal(1_000_000)


def acceptance(solved: Sequence[Solved]) -> dict[str, Any]:
    """Tried and accepted scenarios, reasons of rejected attempts, both also by family. Scenarios that our own side
    failed are left out, here and everywhere."""
    tried: Counter[Family] = Counter()
    accepted: Counter[Family] = Counter()
    reasons: Counter[str] = Counter()
    by_family: dict[Family, Counter[str]] = {}
    for one in solved:
        families = families_of(one.scenario)
        tried.update(families)
        accepted.update(families if one.trajectory is not None else ())
        reasons.update(one.rejected)
        for family in families:
            by_family.setdefault(family, Counter()).update(one.rejected)
    kept = [one.trajectory for one in solved if one.trajectory is not None]
    mistakes = [trajectory.mistake.kind for trajectory in kept if trajectory.mistake is not None]
    return {
        "episodes": len(solved),
        "accepted": len(kept),
        "families": {
            family: {"tried": n, "accepted": accepted[family], "rejected": dict(by_family[family].most_common())}
            for family, n in sorted(tried.items())
        },
        "rejected": dict(reasons.most_common()),
        "retries_kept": sum(isinstance(kind, HookCheck) for kind in mistakes),
        "missteps_kept": sum(isinstance(kind, Misstep) for kind in mistakes),
        "faulty": sum(bool(trajectory.scenario.faults) for trajectory in kept),
    }


def endpoint_report(solved: Sequence[Solved], wasted: Tokens, settings: Settings) -> dict[str, Any]:
    """Attempts, tokens, cost, votes and our own faults. Costs are decimal strings in the currency of the prices;
    attempts of earlier runs are counted in, `wasted` are the tokens of attempts that our own faults ended."""
    assert settings.endpoint is not None
    attempts = [attempt for one in solved for attempt in one.attempts]
    faults = Counter(one.fault for one in solved if one.fault)
    tokens = sum((attempt.tokens for attempt in attempts), wasted)
    costs = {"teacher": cost(tokens, settings.endpoint)}
    for judge in settings.judges:
        costs[f"judge:{judge.model}"] = cost(spent_by(judge.model, attempts), judge)
    report = {
        "model": settings.endpoint.model,
        "attempts": {
            "played": len(attempts),
            "of_an_earlier_run": sum(one.resumed for one in solved),
            "own_harness": _share([attempt for attempt in attempts if not attempt.operators]),
            "augmented_harness": _share([attempt for attempt in attempts if attempt.operators]),
        },
        "tokens": {**tokens.model_dump(), "wasted": wasted.prompt + wasted.completion},
        "cost": {name: str(value) for name, value in costs.items()} | {"total": str(sum(costs.values(), Decimal(0)))},
        "own_faults": {"scenarios": faults.total(), "reasons": dict(faults.most_common())},
    }
    if settings.judges:
        report["judges"] = _votes([attempt.votes for attempt in attempts if attempt.votes], settings.judges)
    return report


def endpoint_metrics(report: dict[str, Any]) -> dict[str, Metric]:
    """The figures of `endpoint_report` that are worth a curve."""
    played = report["attempts"]["played"]
    accepted = sum(report["attempts"][part]["accepted"] for part in ("own_harness", "augmented_harness"))
    metrics = {
        "attempt_acceptance_rate": Metric(accepted / max(1, played), played),
        "prompt_tokens": Metric(report["tokens"]["prompt"], report["tokens"]["requests"]),
        "completion_tokens": Metric(report["tokens"]["completion"], report["tokens"]["requests"]),
        "cost": Metric(float(report["cost"]["total"]), 1),
        "own_faults": Metric(report["own_faults"]["scenarios"], 1),
    }
    if judged := report.get("judges"):
        metrics["judge_agreement"] = Metric(judged["agreement"], judged["pairs"])
    return metrics


def families_of(scenario: Scenario) -> list[Family]:
    return [question.family for question in scenario.questions if question.family is not None]


def cost(tokens: Tokens, endpoint: Endpoint) -> Decimal:
    return (tokens.prompt * endpoint.prompt_price + tokens.completion * endpoint.completion_price) / MILLION


def spent_by(judge: str, attempts: Iterable[Attempt]) -> Tokens:
    return sum((vote.tokens for a in attempts for vote in a.votes if vote.judge == judge), Tokens())


def _share(attempts: Sequence[Attempt]) -> dict[str, int]:
    return {"played": len(attempts), "accepted": sum(not attempt.verdict for attempt in attempts)}


def _votes(judged: Sequence[tuple[Vote, ...]], judges: Sequence[Endpoint]) -> dict[str, Any]:
    """`agreement`: share of the `pairs` of readable votes on one episode that say the same."""
    pairs = [
        (one.accept, other.accept)
        for votes in judged
        for number, one in enumerate(votes)
        for other in votes[number + 1 :]
        if one.accept is not None and other.accept is not None
    ]
    said = {judge.model: Counter(vote.accept for votes in judged for vote in votes if vote.judge == judge.model)
            for judge in judges}  # fmt: skip
    return {
        "episodes": len(judged),
        "agreement": sum(one == other for one, other in pairs) / max(1, len(pairs)),
        "pairs": len(pairs),
        "by_judge": {
            model: {"accept": votes[True], "reject": votes[False], "unreadable": votes[None]}
            for model, votes in said.items()
        },
    }
