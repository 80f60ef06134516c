"""Command line of the canary: plan a rollout, decide on recorded events, replay a ledger, validate the statistics, and
promote in MLflow's UI.
"""

import argparse
import json
import sys
from pathlib import Path

import yaml
from pydantic import ValidationError

from components.avatar.errors import Fault, InputError, SystemFault, file_fault
from components.canary_deploy import promotion_watch
from components.canary_deploy.config import CanaryConfig
from components.canary_deploy.decision import Decision, decide
from components.canary_deploy.events import EventLog
from components.canary_deploy.evidence import RolloutState
from components.canary_deploy.joining import build_evidence
from components.canary_deploy.ledger import Ledger
from components.canary_deploy.plan import plan
from components.integrations.metrics import write_json
from components.integrations.objects import open_objects


def parser() -> argparse.ArgumentParser:
    """The argument parser of `python -m components.canary_deploy`."""
    root = argparse.ArgumentParser(prog="python -m components.canary_deploy", description=__doc__)
    commands = root.add_subparsers(dest="command", required=True)

    one = commands.add_parser("plan", help="rooms and days a rollout needs; refuses one that cannot be decided")
    one.add_argument("--baseline", type=float, required=True, help="GMV per viewer of the champion")
    one.add_argument("--cv", type=float, required=True, help="coefficient of variation of GMV per viewer between rooms")
    one.add_argument(
        "--rooms-per-day", type=float, required=True, help="room sessions a day, all merchants taking part"
    )
    one.add_argument("--power", type=float, default=0.8)
    one.add_argument("--gain", type=float, default=0.1, help="relative gain to be found (mode superior)")
    one.add_argument("--cuped-r", type=float, default=0.0, help="correlation of a room's GMV with its history")
    one.add_argument("--step-days", type=float, default=1.0, help="days on each ramp step")
    one.add_argument("--config", type=Path, help="YAML: the settings, or a profile that has them")

    one = commands.add_parser("decide", help="decide on events and a rollout state; prints the decision")
    one.add_argument(
        "events", nargs="+", metavar="BATCHES", help="exposures and outcomes: a JSONL file, or a folder or s3:// prefix"
    )
    one.add_argument("--state", type=Path, required=True, help="JSON of the rollout's state")
    one.add_argument("--covariates", type=Path, help="JSON object: room -> GMV per viewer before the rollout")
    one.add_argument("--config", type=Path)
    one.add_argument("--ledger", type=Path, help="append the decision here, and take earlier looks from it")
    one.add_argument("--json", action="store_true", help="print JSON")

    one = commands.add_parser("replay", help="verify a ledger's chain and decide every entry again")
    one.add_argument("ledger", type=Path)

    one = commands.add_parser("validate", help="simulate rollouts and inject faults; writes JSON")
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--runs", type=int, default=2000, help="A/A rollouts")
    one.add_argument("--effect-runs", type=int, default=1000, help="rollouts of each effect and mode")
    one.add_argument("--rooms", type=int, default=200, help="rooms of one arm")
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--jobs", type=int, help="processes (default: one per core)")
    one.add_argument("--config", type=Path)

    promotion_watch.add_commands(commands)
    return root


def main(argv: list[str] | None = None) -> int:
    """Exit code: 0 done, whatever the verdict; 1 bad input, or a ledger that does not hold."""
    args = parser().parse_args(argv)
    try:
        if args.command in promotion_watch.COMMANDS:
            return promotion_watch.main(args)
        return {"plan": _plan, "decide": _decide, "replay": _replay, "validate": _validate}[args.command](args)
    except (InputError, SystemFault) as error:
        print(error, file=sys.stderr)
        return 1


def _plan(args: argparse.Namespace) -> int:
    config = _config(args.config)
    numbers = (args.power, args.gain, args.cuped_r, args.step_days)
    print(plan(args.baseline, args.cv, args.rooms_per_day, config, *numbers).to_text(config))
    return 0


def _decide(args: argparse.Namespace) -> int:
    config = _config(args.config)
    state = _parse(args.state, RolloutState)
    covariates = json.loads(_text(args.covariates)) if args.covariates else None
    if args.ledger:
        state = state.model_copy(update={"looks": Ledger(args.ledger).looks(state.rollout)})
    log = EventLog(state.rollout, config.currency)
    for source in args.events:
        read_batches(log, source)
    evidence = build_evidence(log, state, config, covariates)
    decision = decide(evidence, config)
    if args.ledger:
        Ledger(args.ledger).append(evidence, config, decision)
    print(json.dumps(decision.to_json(), indent=2) if args.json else describe(decision))
    return 0


def read_batches(log: EventLog, source: str) -> None:
    """Add a JSONL file, or every `*.jsonl` of a folder or of an `s3://bucket/prefix`, in the order of their names."""
    if "://" not in source and not Path(source).is_dir():
        log.read(source)
        return
    objects = open_objects(source)
    batches = [key for key in objects.keys() if key.endswith(".jsonl")]
    if not batches:
        raise InputError([Fault(source, "events", "no batch", "at least one *.jsonl")])
    for key in batches:
        log.add_lines(objects.read(key).splitlines())


def _replay(args: argparse.Namespace) -> int:
    if not args.ledger.exists():
        raise InputError([file_fault(args.ledger, "no such file", "a ledger")])
    ledger = Ledger(args.ledger)
    problems = ledger.verify()
    for problem in problems:
        print(f"chain: {problem}")
    if problems:
        return 1
    replayed = ledger.replay()
    for entry in replayed:
        outcome = "same" if entry.same else f"DIFFERENT: {entry.computed['verdict']}"
        print(f"{entry.number:>4} {entry.recorded['verdict']:<9} {outcome}")
    print(f"chain whole, head {ledger.head()}")
    return 0 if all(entry.same for entry in replayed) else 1


def _validate(args: argparse.Namespace) -> int:
    from components.canary_deploy.validate import table, validate

    result = validate(args.runs, args.effect_runs, args.rooms, args.seed, args.jobs, _config(args.config))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(args.out, result)
    print(table(result))
    print(f"written: {args.out}")
    return 0


def describe(decision: Decision) -> str:
    """A decision for a person: verdict, reason, every check."""
    size = f"{decision.rooms:g} rooms per arm, {decision.fraction:.0%} of the plan"
    lines = [f"{decision.verdict}: {decision.why}", size, ""]
    for check in decision.checks:
        lines.append(f"  {check.step} {check.name:<30} {check.status:<13} {check.reason}")
    return "\n".join(lines)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([file_fault(path, str(error), "a readable UTF-8 file")]) from error


def _faults(path: Path, error: ValidationError) -> InputError:
    return InputError(
        [
            Fault(str(path), ".".join(map(str, e["loc"])) or "file", repr(e["input"])[:80], e["msg"])
            for e in error.errors(include_url=False)
        ]
    )


def _parse(path: Path, kind: type[RolloutState]) -> RolloutState:
    try:
        return kind.model_validate_json(_text(path))
    except ValidationError as error:
        raise _faults(path, error) from error


def _config(path: Path | None) -> CanaryConfig:
    """Defaults without a file. A profile's `canary` section may hold other settings of the step beside the
    decision's.
    """
    if path is None:
        return CanaryConfig()
    try:
        data = yaml.safe_load(_text(path)) or {}
    except yaml.YAMLError as error:
        raise InputError([file_fault(path, str(error), "YAML")]) from error
    for section in ("canary_deploy", "canary"):  # a profile nests them
        if isinstance(data, dict) and isinstance(data.get(section), dict):
            data = data[section]
    try:
        return CanaryConfig.model_validate(data)
    except ValidationError as error:
        raise _faults(path, error) from error


if __name__ == "__main__":
    sys.exit(main())
