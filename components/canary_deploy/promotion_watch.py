"""`promote-watch`: the controller and its webhook receiver as one process; beside it `promote-status`, `acknowledge`.

A person sets alias `canary` on a version in MLflow's UI and the canary of that version starts. MLflow's server tells
this process by a webhook, which is best effort, so the registry is looked at every `--interval` seconds as well.
"""

import argparse
import fcntl
import functools
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import yaml

from components.avatar.errors import Fault, InputError, file_fault
from components.canary_deploy.inbox import Inbox
from components.canary_deploy.ledger import Ledger
from components.canary_deploy.promotion_state import known_from
from components.canary_deploy.serve import add_server_options, serve
from components.canary_deploy.settings import Settings
from components.canary_deploy.webhook import PATH, create_app, read_secrets
from components.integrations.cli import read_settings, validate_settings

COMMANDS = ("promote-watch", "promote-status", "acknowledge")
SHOWN = 12  # entries of promote-status


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Add this module's commands to those of `python -m components.canary_deploy`."""
    one = commands.add_parser(
        "promote-watch", help="start a canary for the version that is given alias canary in MLflow"
    )
    one.add_argument("--tracking-uri", required=True, help="MLflow server (webhooks come from a server only)")
    one.add_argument("--experiment", default="harness-aware-training", help="where the rollouts' runs appear")
    one.add_argument("--merchant", type=Path, required=True, help="folder of the merchant whose rooms see the canary")
    one.add_argument("--state", type=Path, required=True, metavar="DIR", help="ledger, received deliveries, rollouts")
    one.add_argument("--secret-file", type=Path, required=True, help="the webhook's secret; two lines while it changes")
    one.add_argument(
        "--webhook-url", help=f"register the webhook at MLflow under this address of ours (ends in {PATH})"
    )
    one.add_argument("--settings", help="settings of the canary step: YAML file, a profile, or inline JSON")
    one.add_argument("--cache", type=Path, default=Path(".cache"), help="where stored models are fetched to")
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--interval", type=float, default=30.0, metavar="S", help="seconds between two looks (default 30)")
    add_server_options(one)

    one = commands.add_parser("promote-status", help="champion, rollout, freeze and the last entries of promote-watch")
    one.add_argument("--state", type=Path, required=True, metavar="DIR")

    one = commands.add_parser(
        "acknowledge", help="accept a champion moved by hand, or allow a rolled-back release again"
    )
    one.add_argument("--state", type=Path, required=True, metavar="DIR")
    one.add_argument("--by", required=True, help="who says so")
    one.add_argument("--why", required=True)
    one.add_argument("--release", help="the rolled-back release digest to be allowed again (default: lift the freeze)")


def main(args: argparse.Namespace) -> int:
    return {"promote-watch": _watch, "promote-status": _status, "acknowledge": _acknowledge}[args.command](args)


def _watch(args: argparse.Namespace) -> int:
    # A look that fails is repeated: rather soon again than minutes in one call. MLflow's client reads these.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    from components.canary_deploy.promotion_controller import Controller
    from components.canary_deploy.promotion_registry import PromotionRegistry
    from components.canary_deploy.promotion_rollout import roll_out_versions
    from components.integrations.registry import MODEL_NAME
    from components.integrations.tracking import Tracking

    settings = _checked(args)
    with _alone(args.state):
        inbox = Inbox(args.state / "inbox.db")
        controller = Controller(
            args.state,
            inbox,
            connect=lambda: PromotionRegistry(Tracking(args.tracking_uri, args.experiment)),
            roll=functools.partial(
                roll_out_versions, merchant=args.merchant, cache=args.cache, settings=settings, seed=args.seed
            ),
            subscribe=args.webhook_url
            and (lambda registry: registry.subscribe(args.webhook_url, read_secrets(args.secret_file)[0])),
            shown={"seed": args.seed, "merchant": args.merchant.name, **settings.model_dump(mode="json")},
        )
        app = create_app(MODEL_NAME, args.secret_file, inbox, controller.wake, controller.health)
        loop = threading.Thread(target=controller.run, args=(args.interval,), daemon=True)
        loop.start()
        try:
            return serve(app, args)
        finally:
            controller.stop()
            if controller.rolling:  # its threads would be waited for; the next controller starts it anew
                sys.stdout.flush()
                os._exit(0)


def _checked(args: argparse.Namespace) -> Settings:
    """The settings. Raises InputError with the faults of all arguments together."""
    faults: list[Fault] = []
    settings = Settings()
    for check in (lambda: read_secrets(args.secret_file), lambda: _problems(args.state)):
        try:
            check()
        except InputError as error:
            faults += error.faults
    try:
        settings = _settings(args.settings)
    except InputError as error:
        faults += error.faults
    if not (args.merchant / "harness.yaml").is_file():
        faults.append(file_fault(args.merchant, "no harness.yaml in it", "a merchant's folder", "--merchant"))
    if not args.tracking_uri.startswith(("http://", "https://", "sqlite:///")):
        faults.append(Fault("command line", "--tracking-uri", args.tracking_uri, "http(s)://HOST or sqlite:///FILE"))
    if args.webhook_url and not args.webhook_url.endswith(PATH):
        faults.append(Fault("command line", "--webhook-url", args.webhook_url, f"an address that ends in {PATH}"))
    if args.interval <= 0:
        faults.append(Fault("command line", "--interval", f"{args.interval:g}", "more than 0 seconds"))
    if faults:
        raise InputError(faults)
    return settings


def _settings(text: str | None) -> Settings:
    """The step's settings: themselves, or those of a profile (its section `canary_deploy`, else the defaults)."""
    if text and not text.lstrip().startswith("{"):
        try:
            data = yaml.safe_load(Path(text).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            data = None  # read_settings says what is wrong
        if isinstance(data, dict) and ("canary_deploy" in data or "base_model" in data):
            return validate_settings(Settings, data.get("canary_deploy") or {}, f"{text}: canary_deploy")
    return read_settings(Settings, text)


def _problems(state: Path) -> None:
    problems = Ledger(state / "ledger.jsonl").verify()
    if problems:
        raise InputError([file_fault(state / "ledger.jsonl", "; ".join(problems), "a whole ledger")])


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """One controller a state folder."""
    state.mkdir(parents=True, exist_ok=True)
    with open(state / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError([file_fault(state, "another promote-watch uses it", "a folder of its own")]) from error
        yield


def _ledger(args: argparse.Namespace) -> Ledger:
    ledger = Ledger(args.state / "ledger.jsonl")
    if not ledger.path.is_file():
        raise InputError([file_fault(ledger.path, "no such file", "the state folder of promote-watch")])
    return ledger


def _status(args: argparse.Namespace) -> int:
    ledger = _ledger(args)
    problems = ledger.verify()
    for problem in problems:
        print(f"chain: {problem}")
    if problems:
        return 1
    entries = list(ledger.entries())
    known = known_from(entries)
    print(f"champion  {known.champion or 'none'}")
    running = known.running
    print(f"rollout   {running.rollout if running else 'none'}" + (f", attempt {running.attempt}" if running else ""))
    print(f"frozen    {known.frozen.why if known.frozen else 'no'}")
    for release, why in known.latched.items():
        print(f"latched   release {release}: {why}")
    starts = [e.body["noticed"] for e in entries if e.kind == "started" and e.body["noticed"]["by"] == "webhook"]
    if starts:
        print(f"webhook to canary start  {starts[-1]['seconds']:.2f} s (last of {len(starts)})")
    for entry in entries[-SHOWN:]:
        what = entry.body.get("why") or entry.body.get("version") or entry.body.get("champion") or ""
        if entry.kind in ("started", "ended"):
            what = " ".join([entry.body["running"]["rollout"], *_outcome(entry.body.get("ended", {}))])
        print(f"{datetime.fromtimestamp(entry.at, UTC):%Y-%m-%d %H:%M:%SZ}  {entry.kind:<13} {what}")
    return 0


def _outcome(ended: dict) -> list[str]:
    return [text for text in (ended.get("outcome"), ended.get("verdict"), ended.get("why")) if text]


def _acknowledge(args: argparse.Namespace) -> int:
    ledger = _ledger(args)
    known = known_from(ledger.entries())
    if args.release:
        if args.release not in known.latched:
            allowed = ", ".join(known.latched) or "none: no release is latched"
            raise InputError([Fault("command line", "--release", args.release, allowed)])
        ledger.clear(args.release, args.by, args.why, time.time())
        print(f"release {args.release} may be rolled out again")
        return 0
    if known.frozen is None:
        raise InputError([Fault(str(ledger.path), "state", "not frozen", "a freeze to acknowledge")])
    body = {"champion": known.frozen.found, "by": args.by, "why": args.why}
    ledger.record("acknowledged", time.time(), body)
    print(f"champion is version {known.frozen.found or 'none'}; promote-watch goes on at its next look")
    return 0
