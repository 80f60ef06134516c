"""Evaluated episodes as traces and failed cases as a table, in a real MLflow store."""

import json
from itertools import product

import pytest

from components.integrations import traces
from components.integrations.traces import TRACES_A_MODEL, log_cases, sample, trace_id
from tests.unit.integrations.episode_rows import failed_row, passed_row


@pytest.fixture
def cases(tmp_path):
    def write(rows):
        path = tmp_path / "cases.jsonl"
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return path

    return write


def stored(tracking, run_id):
    return tracking.client.search_traces(locations=[tracking.experiment_id], run_id=run_id, max_results=500)


def test_an_episode_is_an_agent_span_over_turns_calls_and_replies(tracking, cases):
    with tracking.step_run(None, "evaluation") as run:
        log_cases(run, cases([failed_row(3)]))
    [trace] = stored(tracking, run.run_id)
    spans = {span.span_id: span for span in trace.data.spans}
    lines = [
        (span.name, span.span_type, str(span.status.status_code), spans[span.parent_id].name if span.parent_id else "")
        for span in trace.data.spans
    ]
    ok, error = "SpanStatusCode.OK", "SpanStatusCode.ERROR"
    assert lines == [
        ("episode", "AGENT", error, ""),
        ("turn 1", "CHAIN", ok, "episode"),
        ("price_check", "TOOL", error, "turn 1"),
        ("malformed call", "TOOL", error, "turn 1"),
        ("correction", "GUARDRAIL", ok, "turn 1"),
        ("get_cost", "TOOL", ok, "turn 1"),
        ("draft reply", "LLM", ok, "turn 1"),
        ("correction", "GUARDRAIL", ok, "turn 1"),
        ("reply", "LLM", ok, "turn 1"),
        ("turn 2", "CHAIN", ok, "episode"),
        ("reply", "LLM", ok, "turn 2"),
    ]
    root, tool = trace.data.spans[0], trace.data.spans[5]
    assert root.inputs["messages"][0] == {"role": "user", "content": "price of 7?"}
    assert root.outputs == "My pleasure." and "times were not kept" in root.attributes["timing"]
    assert root.attributes["score"]["accuracy"] == 0.5 and "false: 99.00" in root.status.description
    assert (tool.inputs, tool.outputs) == ({"link": 7}, {"price": "129.00"})
    assert tool.attributes["capability"] == "price_lookup"
    first, second = (span for span in trace.data.spans if span.name == "reply")
    assert first.attributes["verified"]["false_claims"] == ["99.00"] and first.outputs == "It is 99 yuan."
    assert second.attributes["verified"]["accuracy"] == 1.0
    starts = [span.start_time_ns for span in trace.data.spans]
    assert starts == sorted(starts)  # the tree reads in the order of the episode
    for span in trace.data.spans[1:]:
        above = spans[span.parent_id]
        assert above.start_time_ns <= span.start_time_ns < span.end_time_ns <= above.end_time_ns


def test_a_trace_can_be_found_by_what_was_evaluated(tracking, cases):
    rows = [failed_row(0), passed_row(1, arm="base", decoding="constrained", suite="T1")]
    with tracking.step_run(None, "evaluation") as run:
        log_cases(run, cases(rows))
    search = tracking.client.search_traces
    [found] = search(locations=[tracking.experiment_id], filter_string="tags.arm = 'base' and tags.failed = 'false'")
    expected = {"arm": "base", "suite": "T1", "decoding": "constrained", "failed": "false", "scenario": "s1"}
    assert expected.items() <= found.info.tags.items() and found.info.tags["harness_digest"] == "abc"
    assert str(found.info.state) == "OK" and "Hello!" in found.info.response_preview
    assert found.info.tags["mlflow.traceName"] == "T1 chit_chat"
    assert {trace.info.trace_id for trace in stored(tracking, run.run_id)} == {
        trace_id(run.run_id, row | {"row": number}) for number, row in enumerate(rows)
    }


def test_failed_cases_are_a_table_that_names_their_traces(tracking, cases, tmp_path):
    with tracking.step_run(None, "evaluation") as run:
        log_cases(run, cases([passed_row(0), failed_row(1)]))
    table = json.loads(next((tmp_path / "runs").rglob("failed_cases.json")).read_text())
    [row] = [dict(zip(table["columns"], values, strict=True)) for values in table["data"]]
    assert (row["scenario"], row["false"], row["missing"], row["absent_names"]) == (
        "s1",
        "99.00",
        "129.00",
        "price_check",
    )
    assert row["viewer"] == "price of 7? / thanks" and row["families"] == "price, chit_chat"
    assert tracking.client.get_trace(row["trace"]).info.tags["scenario"] == "s1"


def test_writing_again_replaces(tracking, cases):
    path = cases([failed_row(0), passed_row(1)])
    with tracking.step_run(None, "evaluation") as run:
        log_cases(run, path)
        log_cases(run, path)
    assert len(stored(tracking, run.run_id)) == 2


def test_many_episodes_are_sampled_for_each_model(tracking, cases, monkeypatch):
    monkeypatch.setattr(traces, "_A_REQUEST", 25)  # several requests
    rows = [failed_row(i, arm=arm) for arm, i in product(("base", "hat"), range(TRACES_A_MODEL + 5))]
    rows += [passed_row(i, arm="hat") for i in range(100, 130)]
    with tracking.step_run(None, "evaluation") as run:
        log_cases(run, cases(rows))
    kept = [(t.info.tags["arm"], t.info.tags["failed"]) for t in stored(tracking, run.run_id)]
    assert [kept.count(kind) for kind in (("base", "true"), ("hat", "true"), ("hat", "false"))] == [40, 30, 10]
    assert kept[:3] == [("base", "true")] * 3  # newest, so first in the UI: what failed


@pytest.mark.parametrize(
    ("failed", "passed", "expected"), [(9, 9, (6, 2)), (1, 9, (1, 7)), (9, 0, (8, 0)), (0, 2, (0, 2))]
)
def test_failed_cases_come_first_and_a_quarter_is_for_the_others(failed, passed, expected):
    kinds = {
        (True, "T1"): [{"failed": True}] * failed,
        (False, "T1"): [{"failed": False}] * passed,
    }
    found = [row["failed"] for row in sample(kinds, 8)]
    assert found == [True] * expected[0] + [False] * expected[1]


def test_every_kind_of_failure_has_its_turn():
    kinds = {(True, name): [{"failed": True, "kind": name}] * n for name, n in (("a", 100), ("b", 1), ("c", 3))}
    assert [row["kind"] for row in sample(kinds, 6)] == ["a", "b", "c", "a", "c", "a"]
