"""A finished episode as a JSON row that a person can read and a report can filter."""

from dataclasses import asdict
from typing import Any

from components.avatar.agent.types import EpisodeResult
from components.avatar.simulator.scenario import Scenario


def transcript_row(result: EpisodeResult, scenario: Scenario, **extra: Any) -> dict[str, Any]:
    """`extra` (arm, suite, decoding, ...) comes first; texts are as the model saw and wrote them, ids are left out."""
    return {
        **extra,
        "scenario": result.scenario_id,
        "families": [question.family for question in scenario.questions],
        "faults": [fault.model_dump(mode="json") for fault in scenario.faults],
        "harness_digest": result.harness_digest,
        "stop": result.stop,
        "error": result.error,
        "score": None if result.score is None else asdict(result.score),
        "transcript": [
            {"author": "environment", "kind": "viewer", "text": scenario.questions[0].text},
            *({"author": s.author, "kind": s.kind, "text": s.text} for s in result.segments),
        ],
        "calls": [asdict(call) for call in result.calls],
        "replies": [asdict(reply) for reply in result.replies],
        "parse": result.parse,
        "corrections": result.corrections,
        "injected_faults": result.faults,
    }
