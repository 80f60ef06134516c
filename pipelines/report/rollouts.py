"""The rollout viewer: transcripts with calls, faults, corrections and rewards, and a count of each kind of failure.

The counts are of every case of the evaluation. The transcripts are a sample that takes from every model, decoding,
suite and kind of failure in turn, so that the page stays of a size that opens at once and still shows all kinds.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

from pipelines.steps import MODELS

FAILED_SHOWN, SUCCEEDED_SHOWN, TRAINING_SHOWN = 150, 50, 30  # rollouts on the page
TEXT_SHOWN = 1_500  # characters of one turn
REASONS_SHOWN = 6

NEWEST_FIRST = ("hat", "fixed_rl", "hsa_sft_opd", "hsa_sft", "fixed_sft", "base")
SUITES = {"T2": "T2: held-out surfaces", "T1": "T1: own harness", "T3": "T3: robustness", "RL": "RL: training"}
DECODINGS = ("free", "constrained", "sampled")
OUTCOMES = {"failed": "failed", "recovered": "succeeded after a fault or correction", "succeeded": "succeeded at once"}
KINDS = {
    "system_fault": "our own fault",
    "no_reply": "no reply",
    "malformed": "malformed output",
    "absent_name": "name that the prompt lacks",
    "decoy": "decoy called",
    "unneeded_call": "call that was not needed",
    "wrong_skill": "wrong skill",
    "wrong_arguments": "wrong arguments",
    "false_claim": "false claim",
    "fabricated": "fact stated in an outage",
    "missing_fact": "fact missing",
    "broken_rule": "rule broken",
    "other": "something else",
}
WHO = {
    "viewer": "viewer",
    "tool": "tool result",
    "correction": "hook",
    "call": "agent calls",
    "reply": "agent replies",
    "malformed": "agent (malformed)",
}
FILTERS = ("outcome", "model", "decoding", "suite", "family", "kind")

Row = dict[str, Any]


def rollout_viewer(cases: list[Row], training: list[Row]) -> dict[str, Any] | None:
    """What the template shows of evaluation's cases.jsonl and RL's rollouts.jsonl; None when there is neither."""
    if not cases and not training:
        return None
    played = [
        row | {"arm": "hat", "decoding": "sampled", "suite": "RL", "failed": not _perfect(row), "tools": []}
        for row in training
    ]
    failed = [row for row in cases if row["failed"]]
    sample = [
        *_spread(failed, lambda row: (*_rank(row), failure_kinds(row)[0]), FAILED_SHOWN),
        *_spread([row for row in cases if not row["failed"]], lambda row: (*_rank(row), outcome(row)), SUCCEEDED_SHOWN),
        *_spread(played, lambda row: (*_rank(row), outcome(row)), TRAINING_SHOWN),
    ]
    shown = sorted(map(_view, sample), key=lambda case: case["rank"])
    counts = Counter(map(outcome, [*cases, *played]))
    return {
        "groups": [
            {
                "heading": label.capitalize(),
                "cases": [case for case in shown if case["outcome"] == name],
                "total": counts[name],
            }
            for name, label in OUTCOMES.items()
            if counts[name]
        ],
        "filters": [{"name": name, "options": _options(name, shown)} for name in FILTERS],
        "shown": len(shown),
        "total": len(cases) + len(played),
        "counts": _counts(cases),
    }


def outcome(row: Row) -> str:
    """A key of OUTCOMES."""
    if row["failed"]:
        return "failed"
    return "recovered" if row["corrections"] or row["injected_faults"] else "succeeded"


def failure_kinds(row: Row) -> list[str]:
    """Keys of KINDS that apply to a case, the gravest first; a failed case has at least one."""
    calls, replies = row["calls"], row["replies"]
    missed = [call for call in calls if call["right_tool"] and not call["expected"] and call["known"]]
    found = {
        "system_fault": row["stop"] == "system_fault",
        "no_reply": not replies and row["stop"] != "system_fault",
        "malformed": any(turn["kind"] == "malformed" for turn in row["transcript"]),
        "absent_name": any(not call["known"] for call in calls),
        "decoy": any(call["decoy"] for call in calls),
        "unneeded_call": any(call["known"] and not call["right_tool"] and not call["decoy"] for call in calls),
        "wrong_skill": any(call["capability"] == "load_skill" and not call["decoy"] for call in missed),
        "wrong_arguments": any(call["capability"] != "load_skill" for call in missed),
        "false_claim": any(reply["false_claims"] for reply in replies),
        "fabricated": any(reply["fabricated"] for reply in replies),
        "missing_fact": any(reply["missing_facts"] for reply in replies),
        "broken_rule": any(reply["broken_rules"] for reply in replies),
    }
    kinds = [kind for kind, applies in found.items() if applies]
    return kinds or (["other"] if row["failed"] else [])


def _perfect(row: Row) -> bool:
    """Full accuracy and effectiveness, as the evaluation counts a success."""
    score = row["score"]
    return score is not None and score["accuracy"] + score["effectiveness"] == 2


def _rank(row: Row) -> tuple[int, int, int]:
    """The new model first, free decoding first, held-out surfaces first."""
    return NEWEST_FIRST.index(row["arm"]), DECODINGS.index(row["decoding"]), list(SUITES).index(row["suite"])


def _spread(rows: list[Row], group: Callable[[Row], Any], limit: int) -> list[Row]:
    """At most `limit` rows, taken from each group in turn."""
    groups: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=group):
        groups.setdefault(group(row), []).append(row)
    return [row for layer in zip_longest(*groups.values()) for row in layer if row is not None][:limit]


def _view(row: Row) -> dict[str, Any]:
    kinds = failure_kinds(row)
    return {
        "rank": (list(OUTCOMES).index(outcome(row)), *_rank(row), list(KINDS).index(kinds[0]) if kinds else -1),
        "outcome": outcome(row),
        "model": row["arm"],
        "model_label": MODELS[row["arm"]],
        "decoding": row["decoding"],
        "suite": row["suite"],
        "family": list(dict.fromkeys(row["families"])),
        "kind": kinds,
        "why": "; ".join(_reasons(row)[:REASONS_SHOWN]) or ", ".join(KINDS[kind] for kind in kinds),
        "scenario": row["scenario"],
        "harness_digest": row["harness_digest"],
        "tools": row["tools"],
        "faults": [f"{fault['capability']}: {fault['kind']}" for fault in row["faults"]],
        "stop": str(row["stop"]).replace("_", " "),
        "error": row["error"],
        "corrections": row["corrections"],
        "rewards": [(name.replace("_", " "), f"{value:g}") for name, value in (row["score"] or {}).items()],
        "turns": _turns(row),
    }


def _turns(row: Row) -> list[dict[str, Any]]:
    """The transcript, each call and final reply with what the simulator found about it.

    Calls stand in the row in the order in which they were made, one a call turn; replies too, but a reply that a hook
    sent back is in the transcript alone.
    """
    calls, replies = iter(row["calls"]), iter(row["replies"])
    transcript = row["transcript"]
    turns = []
    for turn, follower in zip_longest(transcript, transcript[1:]):
        kind, text, notes = turn["kind"], turn["text"], []
        if kind == "call" and (call := next(calls, None)) is not None:
            notes = [_call_note(call)]
        elif kind == "reply" and (follower or {}).get("kind") == "correction":
            notes = [("warn", "sent back by a hook")]
        elif kind == "reply" and (reply := next(replies, None)) is not None:
            notes = _reply_notes(reply)
        left_out = max(0, len(text) - TEXT_SHOWN)
        turns.append({"kind": kind, "who": WHO[kind], "text": text[:TEXT_SHOWN], "left_out": left_out, "notes": notes})
    return turns


def _call_note(call: Row) -> tuple[str, str]:
    """(tone, word) of one call."""
    if not call["known"]:
        return "bad", "skill not in the prompt" if call["capability"] == "load_skill" else "not in the prompt"
    if call["decoy"]:
        return "bad", "decoy"
    if not call["right_tool"]:
        return "warn", "not needed"
    if not call["expected"]:
        return "bad", "wrong skill" if call["capability"] == "load_skill" else "wrong arguments"
    if call["fault"]:
        return "warn", f"needed, injected fault: {call['fault']}"
    return "good", "needed"


def _reply_notes(reply: Row) -> list[tuple[str, str]]:
    notes = [
        *(("bad", f"false: {claim}") for claim in reply["false_claims"]),
        *(("bad", f"missing: {fact}") for fact in reply["missing_facts"]),
        *(("warn", f"breaks rule {rule}") for rule in reply["broken_rules"]),
    ]
    if reply["fabricated"]:
        notes.append(("bad", "states what could not be had"))
    return notes or [("good", "says honestly that it could not be had" if reply["unavailable"] else "verified")]


def _reasons(row: Row) -> list[str]:
    """What is wrong with a case, in words, for its headline."""
    reasons = [
        f"loads {', '.join(map(str, call['arguments'].values()))}, a skill that the prompt does not have"
        if call["capability"] == "load_skill"
        else f"calls {call['name']}, which the prompt does not have"
        for call in row["calls"]
        if not call["known"]
    ]
    reasons += [f"calls the decoy {call['name']}" for call in row["calls"] if call["decoy"]]
    for reply in row["replies"]:
        reasons += [word for tone, word in _reply_notes(reply) if tone != "good"]
    if not row["replies"]:
        reasons.append(f"no reply ({str(row['stop']).replace('_', ' ')})")
    return list(dict.fromkeys(reasons))


def _options(name: str, shown: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Values of one filter that occur among the shown rollouts, each with its count."""
    counts: Counter[str] = Counter()
    for case in shown:
        value = case[name]
        counts.update(value if isinstance(value, list) else [value])
    labels = {"outcome": OUTCOMES, "model": MODELS, "suite": SUITES, "kind": KINDS}.get(name, {})
    order = list(labels) or sorted(counts)
    return [
        {"value": value, "label": labels.get(value, value.replace("_", " ")), "n": counts[value]}
        for value in order
        if counts[value]
    ]


def _counts(cases: list[Row]) -> dict[str, Any]:
    """Cases, failures and kinds of failure by model and decoding, over the whole evaluation."""
    columns = [(arm, decoding) for arm in MODELS for decoding in DECODINGS]
    failed = [row for row in cases if row["failed"]]
    total = Counter((row["arm"], row["decoding"]) for row in cases)
    columns = [column for column in columns if total[column]]
    lost = Counter((row["arm"], row["decoding"]) for row in failed)
    kinds = Counter((kind, row["arm"], row["decoding"]) for row in failed for kind in failure_kinds(row))
    return {
        "columns": [(MODELS[arm], decoding) for arm, decoding in columns],
        "cases": [total[column] for column in columns],
        "failed": [lost[column] for column in columns],
        "rows": [
            (label, [kinds[kind, *column] for column in columns])
            for kind, label in KINDS.items()
            if any(kinds[kind, *column] for column in columns)
        ],
    }
