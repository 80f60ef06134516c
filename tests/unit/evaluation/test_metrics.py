"""Metrics on hand-made episodes with known answers."""

import math
from typing import Any

import pytest

from components.avatar.agent.metrics import Judged, absent_names, episode_metrics, paired_difference, paired_qualities
from components.avatar.agent.types import EpisodeResult
from components.avatar.harness.schema import Binding, Capability, Family, Harness, Limits, Skill, Tool
from components.avatar.simulator.types import CallRecord, Reply, Score, StopReason

HARNESS = Harness(
    merchant="m",
    prompt=(),
    limits=Limits(reply_words=30, tool_calls=4, turns=4),
    tools=tuple(
        Tool(name=name, description=name, parameters={"type": "object", "properties": {"x": {"type": "string"}}})
        for name in ("peek", "open_skill", "fake")
    ),
    bindings={
        "peek": Binding(capability=Capability.PRICE_LOOKUP, arguments={"x": "link_id"}),
        "open_skill": Binding(capability=Capability.LOAD_SKILL, arguments={"x": "skill"}),
        "fake": Binding(capability=Capability.DECOY),
    },
    skills=(Skill(name="facts", description="d", handles=(Family.PRICE,)),),
    hooks=(),
)


def call(name: str, **changes: Any) -> CallRecord:
    known = HARNESS.tool(name) is not None
    values: dict[str, Any] = {
        "name": name, "arguments": {}, "capability": None, "known": known, "ok": known, "fault": None,
        "decoy": name == "fake", "expected": name == "peek", "right_tool": name == "peek",
    }  # fmt: skip
    return CallRecord(**(values | changes))


def reply(**changes: Any) -> Reply:
    values: dict[str, Any] = {
        "question_id": "q", "family": Family.PRICE, "text": "t", "accuracy": 1.0, "effectiveness": 1.0,
        "false_claims": (), "missing_facts": (), "broken_rules": (), "persona_kept": True, "fabricated": False,
        "unavailable": False, "seconds": 1.0,
    }  # fmt: skip
    return Reply(**(values | changes))


def episode(name: str, quality: float | None, calls: tuple = (), replies: tuple = (), **changes: Any) -> Judged:
    score = None if quality is None else Score(quality, quality, 1.0, 1.0, 0.0)
    stop = StopReason.SYSTEM_FAULT if quality is None else StopReason.DONE
    return Judged(HARNESS, EpisodeResult(name, "d", (), (), calls, replies, score, stop, **changes))


def test_rates_have_the_right_numerator_and_n() -> None:
    episodes = [
        episode("a", 1.0, (call("peek"), call("price_check")), (reply(),), corrections=1),
        episode("b", 0.0, (call("fake"), call("mangled")), (reply(accuracy=0.0, broken_rules=("length",)),), faults=1),
        episode("c", 1.0, (), (reply(unavailable=True, fabricated=True, persona_kept=False),), faults=1),
        episode("d", None),
    ]
    rates = episode_metrics(episodes, frozenset({"price_check"}))
    assert rates["quality"] == (pytest.approx(2 / 3), 3)
    assert rates["stale_name_rate"] == (0.25, 4)
    assert rates["absent_name_rate"] == (0.5, 4)
    assert rates["decoy_call_rate"] == (0.25, 4)
    assert rates["fabricated_rate"] == (1.0, 1)
    assert rates["recovery_rate"] == (0.5, 2), "an outage allows no accurate fact, so it is no chance to recover"
    assert rates["persona_rate"] == (pytest.approx(2 / 3), 3)
    assert rates["violation_rate"] == (pytest.approx(1 / 3), 3)
    assert rates["system_faults"] == (1.0, 4)


def test_nothing_to_measure_is_not_zero() -> None:
    value, n = episode_metrics([episode("a", 1.0)], frozenset())["stale_name_rate"]
    assert math.isnan(value) and n == 0


@pytest.mark.parametrize(
    ("name", "arguments", "absent"),
    [
        ("peek", {"x": "nothing"}, set()),
        ("price_check", {}, {"price_check"}),
        ("open_skill", {"x": "facts"}, set()),
        ("open_skill", {"x": "item_qa"}, {"item_qa"}),
    ],
)
def test_a_stale_skill_counts_like_a_stale_tool(name: str, arguments: dict, absent: set[str]) -> None:
    assert absent_names(HARNESS, name, arguments) == absent


def test_paired_difference_knows_a_right_answer() -> None:
    difference = paired_difference([1, 1, 0, 1] * 25, [0, 1, 0, 1] * 25)
    assert difference.value == 0.25 and difference.n == 100
    # Normal approximation: 0.25 +- 1.96 * sqrt(0.25 * 0.75 / 100).
    assert difference.low == pytest.approx(0.165, abs=0.02) and difference.high == pytest.approx(0.335, abs=0.02)
    with pytest.raises(ValueError, match="pairs"):
        paired_difference([], [])


def test_pairs_leave_out_what_either_side_did_not_score() -> None:
    first = [episode("a", 1.0), episode("b", None), episode("c", 0.5)]
    second = [episode("c", 0.0), episode("b", 1.0), episode("a", None)]
    assert paired_qualities(first, second) == ([0.5], [0.0])
