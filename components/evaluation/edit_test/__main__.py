"""Error reduction by held-out harness edits, weights frozen.

python -m components.evaluation.edit_test --merchant DIR --surfaces FILE --models fixed_sft=DIR hat=DIR --out DIR
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from components.avatar.agent.surfaces import Surfaces
from components.avatar.errors import Fault, InputError, file_fault
from components.avatar.simulator.merchant import load_merchant
from components.evaluation.edit_test.run import edit_test
from components.integrations.cli import exit_status
from components.integrations.hardware import set_threads
from components.integrations.metrics import write_json
from components.integrations.progress import Progress
from components.integrations.weights import check_model_folder


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0, 1 for a fault of ours or the machine's, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m components.evaluation.edit_test", description=__doc__)
    parser.add_argument("--merchant", type=Path, required=True, metavar="DIR")
    parser.add_argument("--surfaces", type=Path, required=True, metavar="FILE", help="surfaces.json of the training")
    parser.add_argument("--models", nargs="+", required=True, metavar="NAME=DIR", help="the first one is the baseline")
    parser.add_argument("--edits", type=int, default=120, help="edits that are made (default: 120)")
    parser.add_argument("--cases", type=int, default=2, help="test cases of each edit (default: 2)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of evolving a renamed harness (default: 2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/edit-test"), metavar="DIR")
    options = parser.parse_args(argv)
    return exit_status(lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    models = _models(options.models)
    merchant, seen = load_merchant(options.merchant), _surfaces(options.surfaces)
    options.out.mkdir(parents=True, exist_ok=True)
    set_threads()
    progress = Progress("edit_test", options.out / "progress.jsonl")
    report = edit_test(
        merchant,
        models,
        seen,
        edits=options.edits,
        cases=options.cases,
        rounds=options.rounds,
        seed=options.seed,
        progress=progress,
    )
    write_json(options.out / "edits.json", report)
    print(table(report))
    print(f"result   {options.out / 'edits.json'}")


def table(report: dict[str, Any]) -> str:
    """Error before and after, and the share of errors removed with its interval, by model, decoding and kind."""
    lines = [f"{report['edits']} edits, {report['cases']} cases; {report['dropped']} edits do not help the oracle"]
    rows = [("oracle", "-", report["oracle"])]
    rows += [(arm, decoding, cells) for arm, by in report["models"].items() for decoding, cells in by.items()]
    for arm, decoding, cells in rows:
        for kind, cell in cells.items():
            errors = f"errors {100 * cell['error_before']:5.1f}% -> {100 * cell['error_after']:5.1f}%"
            removed = f"removed {_percent(cell['reduction'])} (n={cell['reduction']['n']} edits)"
            lines.append(f"{arm:12} {decoding:12} {kind:10} {errors}   {removed}")
    for name, by in report["differences"].items():
        lines += [f"{name}, {decoding}: {_percent(cell)} points of errors removed" for decoding, cell in by.items()]
    for arm, by in report["rounds"].items():
        for decoding, told in by.items():
            accepted = sum(step["accepted"] for step in told["rounds"])
            quality = f"{100 * told['quality_before']:.1f}% -> {100 * told['quality_after']:.1f}%"
            lines.append(
                f"{arm:12} {decoding:12} {accepted} of {len(told['rounds'])} rounds accepted: quality {quality}, "
                f"{_percent(told['difference'])} (n={told['difference']['n']})"
            )
    return "\n".join(lines)


def _percent(cell: dict[str, Any]) -> str:
    if cell["value"] is None:
        return "-"
    low, high = cell["ci"]
    return f"{100 * cell['value']:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


def _models(pairs: Sequence[str]) -> dict[str, Path]:
    """Folders by name. Raises InputError with every pair that is none and every folder that is no model."""
    faults, models = [], {}
    for pair in pairs:
        name, _, folder = pair.partition("=")
        if not name or not folder:
            faults.append(Fault("command line", "--models", pair, "NAME=DIR"))
            continue
        try:
            models[name] = check_model_folder(Path(folder))
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    return models


def _surfaces(path: Path) -> Surfaces:
    try:
        return Surfaces.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValidationError, UnicodeDecodeError) as error:
        raise InputError(
            [file_fault(path, str(error).splitlines()[0], "surfaces.json of harness_augmentation")]
        ) from None


if __name__ == "__main__":
    raise SystemExit(main())
