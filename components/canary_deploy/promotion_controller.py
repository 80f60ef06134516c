"""The controller: looks at the registry, does what reconciler.py says, runs the rollout, and keeps the ledger.

What must not be lost is in the ledger before it is done (a start, a move of `champion`, a freeze) or done before it is
in the ledger (a mark that may be written twice), so a controller that is killed at any point goes on from its ledger.
"""

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Protocol

from components.avatar.errors import InputError, SystemFault
from components.canary_deploy import reconciler as do
from components.canary_deploy.inbox import Delivery, Inbox
from components.canary_deploy.ledger import Ledger
from components.canary_deploy.promotion_registry import PromotionRegistry
from components.canary_deploy.promotion_rollout import Withdrawn, read_back
from components.canary_deploy.promotion_state import Ended, Known, Running, known_from
from components.canary_deploy.reconciler import BY, CONTROLLER, ROLLOUT, RUN, STATE, VERDICT, WHY, Seen, Version
from components.canary_deploy.run import ReadBack
from components.integrations.metrics import Metric, read_json, read_metrics, write_metrics
from components.integrations.task import LOGGED_BYTES, describe

MAX_ACTIONS = 20  # in one look; what is left waits for the next
MAX_PAUSE_S = 30.0  # between two looks while MLflow does not answer


class Roll(Protocol):
    """Plays a rollout to its verdict and leaves canary.json in `output`; `read_back` may raise Withdrawn."""

    def __call__(
        self, *, champion: Version, canary: Version, output: Path, read_back: ReadBack
    ) -> dict[str, Metric]: ...


class Controller:
    """One controller of one registered model; `folder` keeps its ledger and its rollouts.

    Args:
        connect: opens the registry; called again at each look until it succeeds.
        roll: the rollout itself, run in a thread of its own, one at a time.
        subscribe: registers the webhook; called again until it succeeds. None: somebody else has done it.
        shown: the settings, as parameters of the MLflow run.
    """

    def __init__(
        self,
        folder: Path,
        inbox: Inbox,
        connect: Callable[[], PromotionRegistry],
        roll: Roll,
        subscribe: Callable[[PromotionRegistry], object] | None = None,
        shown: dict | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self.inbox, self.clock = folder, inbox, clock
        self.ledger = Ledger(folder / "ledger.jsonl")
        self.trouble = ""
        self._connect, self._roll, self._subscribe, self._shown = connect, roll, subscribe, shown or {}
        self._registry: PromotionRegistry | None = None
        self._thread: threading.Thread | None = None
        self._wake, self._stopped = threading.Event(), threading.Event()

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    @property
    def rolling(self) -> bool:
        """A rollout's thread runs."""
        return bool(self._alive())

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    def run(self, interval_s: float) -> None:
        """Look at every wake and at least every `interval_s`, until `stop`. After a failure look again soon."""
        failures = 0
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                self.look()
                if failures:
                    _say("all is well again")
                failures, self.trouble = 0, ""
            except Exception as error:  # the controller outlives whatever one look runs into
                if not isinstance(error, InputError | SystemFault | OSError):
                    traceback.print_exc()
                failures += 1
                if self.trouble != describe(error):
                    self.trouble = describe(error)
                    _say(f"trouble, trying again: {self.trouble}")
            self._wake.wait(min(interval_s, MAX_PAUSE_S, 2.0 ** min(failures, 10)) if failures else interval_s)

    def look(self) -> None:
        """One look at the registry, and everything that follows from it. Raises SystemFault when MLflow fails."""
        waiting = self.inbox.waiting()
        if self._registry is None:
            self._registry = self._connect()
        for _ in range(MAX_ACTIONS):
            known = known_from(self.ledger.entries())
            seen = self._registry.look()
            action = do.next_action(known, seen, self._alive())
            if action is None:
                break
            self._do(self._registry, action, known, seen, waiting)
        self.inbox.done(waiting, self.clock())
        if self._subscribe is not None:  # last: without the webhook the interval still brings everything
            self._subscribe(self._registry)
            self._subscribe = None

    def health(self) -> dict:
        """For GET /healthz. `ready`: deliveries can be taken; MLflow's own state is in `trouble`."""
        known = known_from(self.ledger.entries())
        return {
            "ready": True,
            "trouble": self.trouble,
            "champion": known.champion,
            "rollout": known.running.rollout if known.running else "",
            "frozen": known.frozen.why if known.frozen else "",
            "waiting": len(self.inbox.waiting()),
        }

    def _alive(self) -> str:
        return self._thread.name if self._thread and self._thread.is_alive() else ""

    def _do(
        self, registry: PromotionRegistry, action: do.Action, known: Known, seen: Seen, waiting: Sequence[Delivery]
    ) -> None:
        match action:
            case do.Adopt(champion, why, rollout):
                self._record("adopted", {"champion": champion, "why": why, "rollout": rollout})
            case do.Leave(version, rollout):
                self._record("left", {"version": version, "rollout": rollout, "by": do.PIPELINE})
            case do.Freeze(found, why):
                self._record("frozen", {"found": found, "expected": known.champion, "why": why})
            case do.Acknowledge(champion, by):
                self._record("acknowledged", {"champion": champion, "by": by, "why": "in the UI"})
            case do.Say(why):
                run_id = known.running.run_id if known.running else seen.champion.run_id if seen.champion else ""
                registry.say_frozen(seen.champion.number if seen.champion else "", run_id, why)
            case do.Promote(version, before):
                self._record("moving", {"version": version, "before": before})
                registry.move_champion(version)
                self._record("moved", {"version": version})
            case do.Moved(version):
                self._record("moved", {"version": version})
            case do.Withdraw(why):
                self._record("withdrawn", {"why": why})
            case do.Release(version):
                self._record("released", {"version": version})
            case do.Wait(version, why):
                registry.mark(version.number, {STATE: "waiting", WHY: why, BY: CONTROLLER})
                _say(f"version {version.number} waits: {why}")
            case do.Consider(version, champion):
                self._consider(registry, version, champion, known, waiting)
            case do.Resume():
                self._resume(known, seen)
            case do.Close(outcome, why):
                if known.running:
                    self._end(known.running, Ended(known.running, outcome, "", why, ""))
            case do.Publish():
                if known.ended:
                    self._publish(registry, known.ended, known)

    def _consider(
        self,
        registry: PromotionRegistry,
        version: Version,
        champion: Version | None,
        known: Known,
        waiting: Sequence[Delivery],
    ) -> None:
        """Start the canary of `version`, or refuse it: the reason is on the version before it is in the ledger."""
        faults = admission(version, champion, known)
        faults = faults or registry.failed_gates(version)
        if faults or champion is None:
            why = "; ".join(faults) + ". To try again, remove the alias canary and set it again"
            registry.mark(
                version.number, {STATE: "refused", WHY: why, BY: CONTROLLER, VERDICT: "", ROLLOUT: "", RUN: ""}
            )
            self._record("refused", {"version": version.number, "why": why})
            return
        rollout = f"{registry.name}-v{version.number}-{known.rollouts + 1}"
        tags = {
            STATE: "running",
            BY: CONTROLLER,
            "registered_model": registry.name,
            "model_version": version.number,
            "champion_version": champion.number,
            "release_digest": version.tags.get("release_digest", ""),
            "mlflow.note.content": _links(registry.name, version, champion),
        }
        run_id = registry.open_run(rollout, version, tags, self._shown)
        registry.mark(
            version.number,
            {STATE: "running", WHY: "", VERDICT: "", ROLLOUT: rollout, RUN: run_id, BY: CONTROLLER},
        )
        running = Running(rollout, version.number, champion.number, version.tags.get("release_digest", ""), run_id)
        self._start(running, champion, version, _noticed(waiting, version.number, self.clock()))

    def _resume(self, known: Known, seen: Seen) -> None:
        running = known.running
        if running is None or seen.champion is None or seen.canary is None:
            return
        again = replace(running, attempt=running.attempt + 1)
        self._start(again, seen.champion, seen.canary, {"by": "restart"})

    def _start(self, running: Running, champion: Version, canary: Version, noticed: dict) -> None:
        self._record("started", {"running": asdict(running), "noticed": noticed})
        self._thread = threading.Thread(
            target=self._play, args=(running, champion, canary), name=running.rollout, daemon=True
        )
        self._thread.start()

    def _play(self, running: Running, champion: Version, canary: Version) -> None:
        """The rollout's thread: ends with an entry in the ledger, whatever happens."""
        output = self.folder / "rollouts" / f"{running.rollout}-{running.attempt}"
        verdict, registry = "", self._registry

        def stop() -> str:
            now = known_from(self.ledger.entries()).running
            return (now.withdrawn if now else "") or ("the controller stops" if self._stopped.is_set() else "")

        try:
            if registry is None:
                raise SystemFault("a rollout without a registry")
            output.mkdir(parents=True)
            watch = read_back(registry, champion.number, canary.number, stop)
            metrics = self._roll(champion=champion, canary=canary, output=output, read_back=watch)
            write_metrics(output, metrics)
            report = read_json(output / "canary.json")
            outcome, verdict, why = "finished", str(report["verdict"]), str(report["why"])
        except Withdrawn as error:
            if self._stopped.is_set():
                return  # the next controller starts it anew
            outcome, why = "withdrawn", str(error)
        except Exception as error:
            if not isinstance(error, InputError | SystemFault | OSError):
                traceback.print_exc()
            outcome, why = "failed", describe(error)
        self._end(running, Ended(running, outcome, verdict, why, str(output)))
        self.wake()

    def _end(self, running: Running, ended: Ended) -> None:
        body = asdict(ended)
        body.pop("running")
        head = Ledger(Path(ended.folder) / "ledger.jsonl").head() if ended.folder else ""
        self._record("ended", {"running": asdict(running), "ended": body, "decisions": head})

    def _publish(self, registry: PromotionRegistry, ended: Ended, known: Known) -> None:
        """Write the outcome on the run and on the version, then end the run."""
        running, folder = ended.running, Path(ended.folder) if ended.folder else None
        why = ended.why
        if ended.verdict == "promote" and known.champion != running.version:
            why += "; not promoted: alias champion was moved by hand meanwhile"
        tags = {STATE: ended.outcome, VERDICT: ended.verdict, WHY: why[:5000]}
        files = [folder / name for name in ("canary.json", "ledger.jsonl", "progress.jsonl")] if folder else []
        files = [file for file in files if file.is_file() and file.stat().st_size <= LOGGED_BYTES]
        metrics = read_metrics(folder) if folder and (folder / "metrics.json").is_file() else {}
        registry.close_run(running.run_id, tags, metrics, files, failed=ended.outcome == "failed")
        registry.mark(running.version, tags)
        self._record("published", {"rollout": running.rollout})

    def _record(self, kind: str, body: dict) -> None:
        self.ledger.record(kind, self.clock(), body)
        told = body.get("running", {}) | body.get("ended", {}) | body.get("noticed", {}) | body
        shown = ("rollout", "version", "champion", "by", "seconds", "outcome", "verdict", "why")
        _say(kind + "".join(f"  {key}={told[key]}" for key in shown if told.get(key)))


def admission(version: Version, champion: Version | None, known: Known) -> list[str]:
    """What speaks against a canary of `version`, gates apart; empty: nothing."""
    faults = []
    release = version.tags.get("release_digest", "")
    if champion is None:
        faults.append("there is no champion to compare with")
    elif champion.number == version.number:
        faults.append("it is the champion already")
    elif release and champion.tags.get("release_digest") == release:
        faults.append(f"it is the same release as champion version {champion.number}")
    if version.status != "READY":
        faults.append(f"its state is {version.status}, not READY")
    if not version.tags.get("uri") or not release:
        faults.append("it was not registered by this project: its tags name no stored model (uri, release_digest)")
    if champion is not None and not champion.tags.get("uri"):
        faults.append(f"champion version {champion.number} has no stored model (tag uri)")
    if release in known.latched:
        faults.append(f"this release was rolled back ({known.latched[release]}) and nobody cleared it")
    return faults


def _noticed(waiting: Sequence[Delivery], version: str, now: float) -> dict:
    """How a start was noticed: by a webhook (with the seconds since MLflow's server sent it) or by a look."""
    for delivery in reversed(waiting):
        if (delivery.event, delivery.alias, delivery.version) == ("created", "canary", version):
            return {"by": "webhook", "delivery": delivery.id, "seconds": round(now - delivery.sent, 3)}
    return {"by": "look"}


def _links(name: str, version: Version, champion: Version) -> str:
    """Description of the run, in Markdown: links to both versions' pages in the UI."""
    canary, other = (f"[version {v.number}](#/models/{name}/versions/{v.number})" for v in (version, champion))
    return f"Canary of **{name}** {canary} beside the champion {other}."


def _say(text: str) -> None:
    print(f"[promotion] {text}", flush=True)
