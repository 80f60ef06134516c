"""Follow the merchants' harnesses and retrain only when one needs it.

    python -m pipelines.watch --merchants infra/harnesses --profile local
    python -m pipelines.watch --merchants s3://bucket/merchants --profile h20 --kfp-host https://kfp.example

An edit that has rested for the debounce time is linted (a bad one is refused and the last good version stays), compared
with the last good version, and put to the harness gate: the champion plays the merchant's test cases under it, as the
profile's `harness_gate` section says, and only a quality below `min_quality` starts a run. Agent services follow
STATE/accepted/<merchant>; reports are in STATE/reports/. Stopped by SIGTERM or Ctrl-C, or killed, it goes on where it
was when it is started again; training runs are not stopped with it.

Exit status: 0 stopped, or with --once all done; 1 with --once when something failed and waits; 2 bad input.
"""

import argparse
import fcntl
import os
import signal
import sqlite3
import sys
import threading
from pathlib import Path
from typing import IO

from components.avatar.errors import Fault, InputError, SystemFault
from components.integrations.objects import S3Settings
from pipelines.profile import Profile, load_profile, unstored_weights
from pipelines.watch.gate import GateProcess
from pipelines.watch.queue import Queue
from pipelines.watch.scan import open_source
from pipelines.watch.trigger import KfpRuns, LocalRuns, Runs
from pipelines.watch.versions import Versions
from pipelines.watch.watcher import Config, Watcher


def main(argv: list[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        return watch(options)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except (SystemFault, sqlite3.Error) as error:  # the queue's disk: everything else is said and tried again
        print(f"FAILED: {error}", file=sys.stderr)
        return 1


def watch(options: argparse.Namespace) -> int:
    """Build the watcher from the command line and run it. Raises InputError with every fault of the input."""
    profile = _checked(options)
    source = open_source(options.merchants)
    state: Path = options.state.absolute()
    lock = _only_one(state)
    queue = Queue(state / "queue.db")
    runs: Runs
    if options.kfp_host:
        runs = KfpRuns(profile, options.kfp_host, queue.token)
    else:
        runs = LocalRuns(profile, state / "jobs", options.runs_dir, queue.token)
    config = Config(
        state=state,
        profile=profile,
        tracking_uri=profile.tracking_uri.replace("{runs}", str(options.runs_dir.absolute())),
        interval_s=options.interval,
        debounce_s=options.debounce,
        max_runs=options.max_runs,
    )
    store = f"{profile.storage_uri.rstrip('/')}/merchants" if profile.storage_uri else str(state / "store")
    versions = Versions(state, store, S3Settings(encryption=profile.storage_encryption))
    watcher = Watcher(config, source, queue, versions, GateProcess(), runs)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    watcher.run(stop, once=options.once)
    training = queue.in_state("running")
    queue.close()
    lock.close()
    print(f"reports  {state}/reports/index.html")
    for change in training:
        print(f"training {change.merchant}: goes on in {change.facts.run.where if change.facts.run else '?'}")
    return int(options.once and watcher.faults > 0)


def _checked(options: argparse.Namespace) -> Profile:
    from pipelines.preflight import refuse_cluster_profile

    faults = [
        Fault("command line", f"--{name}", str(value), allowed)
        for name, value, good, allowed in (
            ("interval", options.interval, 0 < options.interval < float("inf"), "seconds above 0"),
            ("debounce", options.debounce, 0 <= options.debounce < float("inf"), "seconds, 0 or more"),
            ("max-runs", options.max_runs, options.max_runs >= 1, "1 or more"),
        )
        if not good
    ]
    profile = None
    try:
        profile = load_profile(options.profile)
        if not options.kfp_host:
            refuse_cluster_profile(profile)
            faults += unstored_weights(profile)
    except InputError as error:
        faults += error.faults
    if faults or profile is None:
        raise InputError(faults)
    return profile


def _only_one(state: Path) -> IO[str]:
    """A lock on the state folder that lasts as long as this process."""
    try:
        state.mkdir(parents=True, exist_ok=True)
        lock = (state / "lock").open("a+")
    except OSError as error:
        raise InputError(
            [Fault("command line", "--state", f"{state}: {error.strerror}", "a folder to write in")]
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        found = f"{state}: process {lock.read().strip() or '?'} watches there"
        lock.close()
        raise InputError([Fault("command line", "--state", found, "one watcher a folder")]) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.watch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--merchants", required=True, help="folder of merchants' folders, or s3://bucket[/prefix]")
    parser.add_argument(
        "--profile", default="local", help="a name in pipelines/profiles or a YAML file; default: local"
    )
    parser.add_argument("--state", type=Path, default=Path("runs/watch"), help="default: runs/watch")
    parser.add_argument(
        "--runs-dir", type=Path, default=Path("runs"), help="local runs and their registry; default: runs"
    )
    parser.add_argument("--once", action="store_true", help="end when nothing is left to do but training")
    parser.add_argument("--interval", type=float, default=5.0, metavar="S", help="between two looks; default: 5")
    parser.add_argument(
        "--debounce", type=float, default=10.0, metavar="S", help="an edit must rest so long; default: 10"
    )
    parser.add_argument("--max-runs", type=int, default=1, metavar="N",
                        help="runs at the same time, one a merchant; all share one registry; default: 1")  # fmt: skip
    parser.add_argument(
        "--kfp-host", default="", metavar="URL", help="train on Kubeflow Pipelines, not on this machine"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
