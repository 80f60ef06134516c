"""Prints how the reward's and the evaluation's verifier agree with a person's labels and with each other.

python -m components.evaluation.agreement [--out FILE] [--split development|held_out]
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

from components.evaluation.agreement.cases import load_transcripts
from components.evaluation.agreement.playing import Judged, judge
from components.evaluation.agreement.statistics import Agreement, agreement

PAIRS = (("label", "reward"), ("label", "evaluation"), ("reward", "evaluation"))
SCORES = {"accuracy": (0.0, 1.0), "effectiveness": (0.0, 0.5, 1.0)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m components.evaluation.agreement", description=__doc__)
    parser.add_argument("--out", type=Path, help="write the figures and all disagreements as JSON")
    parser.add_argument("--split", choices=["development", "held_out"], help="only one half of the rows")
    arguments = parser.parse_args()
    rows = [r for r in load_transcripts() if arguments.split is None or r.held_out == (arguments.split == "held_out")]
    judged = [judge(row) for row in rows]
    splits = {
        "development": [j for j in judged if not j.row.held_out],
        "held_out": [j for j in judged if j.row.held_out],
        "plain": [j for j in judged if j.row.tricky is None],
        "tricky": [j for j in judged if j.row.tricky is not None],
    }
    report: dict[str, Any] = {"n": len(judged), "tricky": sum(j.row.tricky is not None for j in judged), "splits": {}}
    print(f"{report['n']} replies, {report['tricky']} of them tricky")
    for name, part in splits.items():
        if part:
            report["splits"][name] = _compared(name, part)
    report["disagreements"] = [_difference(j) for j in judged if not _agreed(j)]
    print(f"\nDisagreements with a label ({len(report['disagreements'])})")
    for difference in report["disagreements"]:
        _print(difference)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _compared(name: str, part: list[Judged]) -> dict[str, Any]:
    print(f"\n{name} (n = {len(part)})")
    report: dict[str, Any] = {"n": len(part)}
    for score, values in SCORES.items():
        for first, second in PAIRS:
            found = agreement(
                [getattr(getattr(j, first), score) for j in part], [getattr(getattr(j, second), score) for j in part]
            )
            said = f"  {score:13} {first:6} and {second:10}  agree {found.share:.3f}  kappa {found.kappa:.3f}"
            print(said, _table(found, values))
            report.setdefault(score, {})[f"{first}_{second}"] = {
                "agreement": found.share,
                "kappa": None if math.isnan(found.kappa) else found.kappa,
                "table": {f"{a:g} {b:g}": found.table.get((a, b), 0) for a in values for b in values},
            }
    return report


def _table(found: Agreement, values: tuple[float, ...]) -> str:
    """Rows: the first judge's score; columns: the second's."""
    rows = [f"{a:g}: " + " ".join(f"{found.table.get((a, b), 0)}" for b in values) for a in values]
    return "[" + " | ".join(rows) + "]"


def _agreed(judged: Judged) -> bool:
    label = (judged.label.accuracy, judged.label.effectiveness)
    return all((o.accuracy, o.effectiveness) == label for o in (judged.reward, judged.evaluation))


def _difference(judged: Judged) -> dict[str, Any]:
    row = judged.row
    opinions = {name: getattr(judged, name) for name in ("label", "reward", "evaluation")}
    return {
        "id": row.id,
        "held_out": row.held_out,
        "family": row.family.value,
        "question": row.question,
        "reply": row.reply,
        "tricky": row.tricky,
        **{
            name: {"accuracy": o.accuracy, "effectiveness": o.effectiveness, "why": list(o.why)}
            for name, o in opinions.items()
        },
    }


def _print(difference: dict[str, Any]) -> None:
    print(f"  {difference['id']} {difference['family']}: {difference['question']!r} -> {difference['reply']!r}")
    for name in ("label", "reward", "evaluation"):
        opinion = difference[name]
        print(f"      {name:10} {opinion['accuracy']:g} {opinion['effectiveness']:g}  {'; '.join(opinion['why'])}")


if __name__ == "__main__":
    main()
