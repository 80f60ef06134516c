"""Evaluated episodes in MLflow: a table of failed cases, and a bounded number of episodes as traces to read.

Built from the rows of cases.jsonl (avatar/agent/transcript.py) after the step, so that whoever plays episodes knows
nothing of MLflow. A trace is an AGENT span; below it a CHAIN span a viewer's turn; below that its calls (TOOL), replies
(LLM) and corrections (GUARDRAIL). Rows keep the order of an episode and not its times: every span lasts one
millisecond, and `timing` of the root span says so.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlflow.entities import Span, SpanType
from mlflow.tracing.client import TracingClient
from mlflow.tracing.constant import SpanAttributeKey

from components.integrations.tracking import StepRun, confirm, now_ms, server_faults

TRACES_A_MODEL = 40
TABLE_ROWS_A_MODEL = 200
TABLE = "failed_cases"
_PASSED_SHARE = 4  # one trace in so many shows an episode that went well
_A_REQUEST = 100  # MLflow's MAX_TRACE_LINKS_PER_REQUEST
_SEARCHED = 500  # MLflow's limit of one search
_MS = 1_000_000
_TIMING = "the order of the episode; its times were not kept"

Row = dict[str, Any]


@dataclass
class Node:
    """A span that is being laid out. `failure` says why its status is ERROR; empty: it is OK."""

    name: str
    kind: str
    inputs: Any = None
    outputs: Any = None
    attributes: dict[str, Any] = field(default_factory=dict)
    failure: str = ""
    children: list["Node"] = field(default_factory=list)


def log_cases(tracked: StepRun, cases: Path) -> None:
    """The failed cases of a cases.jsonl as a table of the run, and a sample of all cases as traces linked to it.

    Written again to the same run they replace each other. Raises SystemFault when the server fails.
    """
    kept = _by_kind(_rows(cases))
    failed = [row for kinds in kept.values() for row in _in_turn(_kinds(kinds, failed=True), TABLE_ROWS_A_MODEL)]
    sampled = [row for kinds in kept.values() for row in sample(kinds, TRACES_A_MODEL)]
    named = {row["row"]: trace_id(tracked.run_id, row) for row in sampled}
    tracked.log_table([table_row(row) | {"trace": named.get(row["row"], "")} for row in failed], TABLE)
    client = TracingClient(tracked.uri)
    newest = now_ms() * _MS
    for start in range(0, len(sampled), _A_REQUEST):
        some = sampled[start : start + _A_REQUEST]
        # The UI shows the newest first: what comes first in the sample gets the latest time.
        spans = [s for i, row in enumerate(some, start) for s in spans_of(row, tracked.run_id, newest - i * 1000 * _MS)]
        with server_faults(tracked.uri):
            client.log_spans(tracked.experiment_id, spans)
            tracked.client.link_traces_to_run([named[row["row"]] for row in some], tracked.run_id)
    with server_faults(tracked.uri):
        there = tracked.client.search_traces(
            locations=[tracked.experiment_id], run_id=tracked.run_id, max_results=_SEARCHED, include_spans=False
        )
        confirm(tracked.uri, len(there) >= min(len(sampled), _SEARCHED), f"{len(there)} of {len(sampled)} traces")


def sample(kinds: Mapping[tuple, Sequence[Row]], limit: int) -> list[Row]:
    """At most `limit` rows of one model: failed ones first, of every suite, decoding and family in turn; a quarter is
    for cases that passed, as far as there are any.
    """
    passed = _in_turn(_kinds(kinds, failed=False), limit)
    failed = _in_turn(_kinds(kinds, failed=True), max(limit - len(passed), limit - limit // _PASSED_SHARE))
    return failed + passed[: limit - len(failed)]


def table_row(row: Row) -> dict[str, Any]:
    """One failed case in the words of its verifiers."""
    replies, calls = row["replies"], row["calls"]
    return {
        "arm": row["arm"],
        "decoding": row["decoding"],
        "suite": row["suite"],
        "scenario": row["scenario"],
        "families": _families(row),
        "viewer": " / ".join(part["text"] for part in row["transcript"] if part["kind"] == "viewer"),
        "reply": replies[-1]["text"] if replies else "",
        "false": "; ".join(claim for reply in replies for claim in reply["false_claims"]),
        "missing": "; ".join(fact for reply in replies for fact in reply["missing_facts"]),
        "broken_rules": "; ".join(rule for reply in replies for rule in reply["broken_rules"]),
        "absent_names": ", ".join(call["name"] for call in calls if not call["known"]),
        "calls": ", ".join(call["name"] for call in calls),
        "stop": row["stop"],
        "harness": row["harness_digest"],
    }


def trace_id(run_id: str, row: Row) -> str:
    """The same row of the same run has the same id, so a repeated request replaces and never doubles."""
    return "tr-" + _hex(f"{run_id} {row['row']} {row['scenario']}", 32)


def spans_of(row: Row, run_id: str, start_ns: int) -> list[Span]:
    """The spans of one episode, the root first; `start_ns` is when it is said to begin (nanoseconds since 1970)."""
    trace, root = trace_id(run_id, row), episode(row)
    tags = {
        "mlflow.traceName": f"{row['suite']} {_families(row)}",
        "arm": row["arm"],
        "suite": row["suite"],
        "decoding": row["decoding"],
        "failed": "true" if row["failed"] else "false",
        "scenario": row["scenario"],
        "harness_digest": row["harness_digest"],
    }
    root.attributes |= {f"{SpanAttributeKey.TRACE_TAG_PREFIX}{name}": value for name, value in tags.items()}
    return list(_laid_out(root, trace, "", start_ns, Counter()))


def episode(row: Row) -> Node:
    """The tree of one episode."""
    replies = row["replies"]
    root = Node(
        "episode",
        SpanType.AGENT,
        inputs={"messages": _said(row), "tools": row["tools"]},
        outputs=replies[-1]["text"] if replies else None,
        attributes={"score": row["score"], "stop": row["stop"], "parse": row["parse"], "timing": _TIMING}
        | ({"faults": row["faults"]} if row["faults"] else {}),
        failure=_failure(row),
    )
    calls, finals = iter(row["calls"]), iter(replies)
    turn = Node("turn", SpanType.CHAIN)
    parts = row["transcript"]
    for part, following in zip(parts, [*parts[1:], None], strict=True):
        after = following["kind"] if following else ""
        match part["kind"]:
            case "viewer":
                turn = Node(f"turn {len(root.children) + 1}", SpanType.CHAIN, inputs=part["text"])
                root.children.append(turn)
            case "call":
                turn.children.append(_call(part["text"], next(calls, None)))
            case "malformed":
                turn.children.append(
                    Node("malformed call", SpanType.TOOL, inputs=part["text"], failure="it could not be parsed")
                )
            case "tool" if turn.children:
                turn.children[-1].outputs = part["text"]
            case "reply" if after == "correction":  # not said: a hook sent it back
                turn.children.append(Node("draft reply", SpanType.LLM, outputs=part["text"]))
            case "reply":
                verified = next(finals, None)
                turn.outputs = part["text"]
                turn.children.append(
                    Node("reply", SpanType.LLM, outputs=part["text"], attributes={"verified": verified})
                )
            case _:
                turn.children.append(Node(part["kind"], SpanType.GUARDRAIL, outputs=part["text"]))
    return root


def _call(text: str, record: Mapping[str, Any] | None) -> Node:
    if record is None:
        return Node("call", SpanType.TOOL, inputs=text)
    failure = "" if record["known"] else "the prompt has no such name"
    attributes = {key: value for key, value in record.items() if key not in ("name", "arguments")}
    return Node(record["name"], SpanType.TOOL, record["arguments"], attributes=attributes, failure=failure)


def _families(row: Row) -> str:
    return ", ".join(family or "no family" for family in row["families"])


def _said(row: Row) -> list[dict[str, str]]:
    return [{"role": "user", "content": part["text"]} for part in row["transcript"] if part["kind"] == "viewer"]


def _failure(row: Row) -> str:
    """Why a case failed, in a line; empty when it did not."""
    if not row["failed"]:
        return ""
    told = table_row(row)
    found = [f"{name.replace('_', ' ')}: {told[name]}" for name in ("false", "missing", "broken_rules") if told[name]]
    found += [f"no such name: {told['absent_names']}"] if told["absent_names"] else []
    return "; ".join(found) or (row["error"] or f"ended: {row['stop']}")


def _laid_out(node: Node, trace: str, parent: str, start_ns: int, count: Counter[str]) -> Iterator[Span]:
    """A node and all below it as spans, in order; a node lasts as long as its children together."""
    number = count[trace]
    count[trace] += 1
    span_id = _hex(f"{trace} {number}", 16)
    below: list[Span] = []
    end_ns = start_ns
    for child in node.children:
        spans = list(_laid_out(child, trace, span_id, end_ns, count))
        end_ns = spans[0].end_time_ns or end_ns
        below += spans
    attributes = {
        SpanAttributeKey.REQUEST_ID: trace,
        SpanAttributeKey.SPAN_TYPE: node.kind,
        SpanAttributeKey.INPUTS: node.inputs,
        SpanAttributeKey.OUTPUTS: node.outputs,
        **node.attributes,
    }
    yield Span.from_dict(
        {
            "trace_id": trace,
            "span_id": span_id,
            "parent_span_id": parent,
            "name": node.name,
            "start_time_unix_nano": start_ns,
            "end_time_unix_nano": end_ns if node.children else start_ns + _MS,
            "status": {"code": "ERROR" if node.failure else "OK", "message": node.failure},
            "attributes": {k: json.dumps(v, ensure_ascii=False) for k, v in attributes.items() if v is not None},
            "events": [],
        }
    )
    yield from below


def _rows(cases: Path) -> Iterator[Row]:
    with cases.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            yield json.loads(line) | {"row": number}


def _by_kind(rows: Iterable[Row]) -> dict[str, dict[tuple, list[Row]]]:
    """Arm -> (failed, suite, decoding, families) -> its first rows: no more than are ever shown are kept."""
    kept: dict[str, dict[tuple, list[Row]]] = {}
    for row in rows:
        kind = (row["failed"], row["suite"], row["decoding"], tuple(row["families"]))
        same = kept.setdefault(row["arm"], {}).setdefault(kind, [])
        if len(same) < TABLE_ROWS_A_MODEL:
            same.append(row)
    return kept


def _kinds(kinds: Mapping[tuple, Sequence[Row]], *, failed: bool) -> list[Sequence[Row]]:
    return [rows for kind, rows in kinds.items() if kind[0] == failed]


def _in_turn(kinds: Sequence[Sequence[Row]], limit: int) -> list[Row]:
    """One row of each kind, then a second of each, and so on."""
    longest = max(map(len, kinds), default=0)
    return [rows[i] for i in range(longest) for rows in kinds if i < len(rows)][: max(limit, 0)]


def _hex(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
