"""The loop: look, wait until an edit rests, lint and compare, ask the gate, train.

Every step of a change is a transition of the queue; what goes on beside the loop (a gate's process, runs) is asked how
it is. A fault of a server or a disk leaves the change where it is, says why, and is tried again.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from components.avatar.errors import InputError, SystemFault
from components.avatar.harness.schema import content_digest
from components.avatar.harness.strict import plain
from components.integrations.progress import duration
from pipelines.profile import Profile
from pipelines.watch.decide import examine
from pipelines.watch.gate import GateProcess, Question
from pipelines.watch.history import typical
from pipelines.watch.queue import Change, Queue, RunFacts, State, Verdict
from pipelines.watch.report import write_index, write_reports
from pipelines.watch.scan import Source
from pipelines.watch.staging import Staging
from pipelines.watch.trigger import Ended, Runs
from pipelines.watch.versions import Versions

POLL_S = 0.2  # between two looks at a gate that works
EXAMINED_A_STEP = 20  # so that the gate and a stop signal do not wait for a thousand new merchants
REPORTED_A_LOOK = 50  # likewise
LONGEST_WAIT_S = 300.0  # before a step that failed is tried again


@dataclass(frozen=True)
class Config:
    state: Path
    profile: Profile
    tracking_uri: str
    interval_s: float = 5.0
    debounce_s: float = 10.0
    max_runs: int = 1


class Watcher:
    def __init__(
        self,
        config: Config,
        source: Source,
        queue: Queue,
        versions: Versions,
        gate: GateProcess,
        runs: Runs,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.config, self.source, self.queue, self.versions, self.runs = config, source, queue, versions, runs
        self.gate, self.clock = gate, clock
        self.staging = Staging(config.state / "staging")
        self.faults = 0
        self._asked: Change | None = None
        self._looked_at = float("-inf")
        self._tries: dict[int, tuple[int, float]] = {}  # change -> failures in a row, when to try again
        self._said: dict[str, str] = {}

    def run(self, stop: threading.Event, *, once: bool) -> None:
        """Work until `stop`; with `once`, until nothing can go on but runs that train."""
        self._looked_at = float("-inf")  # the first thing that a run does is to look
        try:
            for change in self.queue.accepted_now():
                self._attempt(change, lambda c: self.versions.serve(c.merchant, c.digest))
            while not stop.is_set():
                looks = not self._looked_at <= self.clock() < self._next_look()
                if looks:
                    self.scan()
                    self.follow_runs()
                self.step(stop)
                if looks:
                    self.report()
                if once and self._settled():
                    break
                stop.wait(self._pause())
        finally:
            self.gate.close()
            self.report(REPORTED_A_LOOK if stop.is_set() else None)

    def scan(self) -> None:
        """Look at all merchants and take the content of those whose fingerprint changed."""
        started = time.perf_counter()
        now = self.clock()
        try:
            looked = self.source.look()
        except SystemFault as error:
            self._fault("scan", str(error))
            self._looked_at = now
            return
        known = self.queue.fingerprints()
        looks: list[tuple[str, str, str]] = []
        faults = dict(looked.faults)
        for merchant, fingerprint in looked.fingerprints.items():
            if known.get(merchant) == fingerprint:
                continue
            try:
                looks.append((merchant, fingerprint, self.staging.take(self.source, merchant)))
            except (InputError, SystemFault, OSError) as error:  # this one only; the next look tries again
                faults[merchant] = str(error)
        changed = self.queue.observe(looks, now)
        waiting = {change.merchant for change in self.queue.in_state("seen")}
        for merchant, _, _ in looks:
            if merchant not in waiting:
                self.staging.drop(merchant)
        self._looked_at = now
        if looks or not self._said.get("scan"):
            seconds = time.perf_counter() - started
            text = f"{len(looked.fingerprints)} merchants looked at in {seconds:.2f} s, {len(looks)} read"
            self._say("scan", f"{text}, {len(changed)} changed")
        for merchant, fault in faults.items():
            self._fault(f"scan {merchant}", fault)
        for merchant in known.keys() - looked.fingerprints.keys() - faults.keys():
            self._once(f"gone {merchant}", f"{merchant}: the folder is gone; its last good version stays")

    def step(self, stop: threading.Event) -> None:
        """Everything that can be done at once."""
        for change in self._due()[:EXAMINED_A_STEP]:
            if stop.is_set():
                return
            self._attempt(change, self.examine)
        self.take_answer()
        self.ask_gate()
        self.start_runs()

    def examine(self, change: Change) -> None:
        """seen -> refused, restored or accepted."""
        folder = self.staging.unpacked(change.merchant, change.digest)
        if folder is None:
            digest = self.staging.take(self.source, change.merchant)
            if digest != change.digest:
                self.queue.observe([(change.merchant, "", digest)], self.clock())
                return
            folder = self.staging.unpacked(change.merchant, digest)
            if folder is None:
                raise SystemFault(f"{self.config.state}: what was just written there cannot be read again")
        last = self.queue.last_accepted(change.merchant)
        if last is not None and last.digest == change.digest:
            self._move(change, "restored", compared_with=last.digest)
        else:
            before = None if last is None else self.versions.folder(last.merchant, last.digest)
            found = examine(folder, before, self.config.profile.seed)
            if found.faults:
                self._move(change, "refused", faults=found.faults, warnings=found.warnings)
            else:
                uri = self.versions.keep(folder)
                accepted = self._move(
                    change,
                    "accepted",
                    uri=uri,
                    warnings=found.warnings,
                    changes=found.changes,
                    compared_with="" if last is None else last.digest,
                    harness_digest=found.harness_digest,
                    meaning=found.meaning,
                )
                self.versions.serve(accepted.merchant, accepted.digest)
                self.versions.forget(accepted.merchant, {accepted.digest, accepted.facts.compared_with})
        self.staging.drop(change.merchant)

    def ask_gate(self) -> None:
        """The oldest accepted change whose merchant has no run: a run's new champion is to be asked, not the old."""
        if self.gate.busy:
            return
        busy = {change.merchant for change in self.queue.in_state("running")}
        for change in self.queue.in_state("accepted"):
            if change.merchant not in busy and self._may_try(change):
                self._attempt(change, self._ask)
                return
        self.gate.close()  # nothing to ask: its memory is free

    def _ask(self, change: Change) -> None:
        profile = self.config.profile
        asked = content_digest([profile.harness_gate.model_dump(mode="json"), profile.seed])
        earlier = [
            c.facts.verdict
            for c in self.queue.of(change.merchant)
            if c.facts.verdict is not None and c.facts.meaning == change.facts.meaning
        ]
        question = Question(
            merchant=self.versions.folder(change.merchant, change.digest),
            tracking_uri=self.config.tracking_uri,
            experiment=profile.experiment,
            settings=profile.harness_gate,
            seed=profile.seed,
            asked=asked,
            known={v.champion: v for v in earlier if v.champion is not None and v.asked == asked},
        )
        self.gate.ask(question, self.config.state / "gates" / str(change.id))
        self._asked = change

    def take_answer(self) -> None:
        """accepted -> kept or queued, once the gate has answered."""
        change = self._asked
        if change is None:
            return
        if self.queue.get(change.id).state != "accepted":  # a newer version has superseded it
            self.gate.close()
            self._asked = None
            return
        try:
            verdict = self.gate.answer()
        except (InputError, SystemFault) as error:
            self._asked = None
            self._failed(change, str(error))
            return
        if verdict is not None:
            self._asked = None
            self._decide(change, verdict)

    def _decide(self, change: Change, verdict: Verdict) -> None:
        self._move(change, "queued" if verdict.retrain else "kept", verdict=verdict, typical=typical(self._measured()))
        word, waited = "retrain" if verdict.retrain else "keep", duration(self.clock() - change.seen_at)
        self._say(change.merchant, f"{change.merchant}: {word}: {verdict.why} ({waited} after the edit was seen)")

    def start_runs(self) -> None:
        """queued -> running while there is room; a verdict older than the last run's end is asked for again."""
        running = self.queue.in_state("running")
        busy, room = {change.merchant for change in running}, self.config.max_runs - len(running)
        if room <= 0:
            return
        for change in self.queue.in_state("queued"):
            if room <= 0:
                return
            if change.merchant in busy:
                continue
            if change.changed_at < self.queue.last_run_ended():
                self._move(change, "accepted")
                continue
            where = self.runs.where(change)
            started = self._move(change, "running", run=RunFacts(where=where))
            busy.add(change.merchant)
            room -= 1
            self._attempt(started, self._advance)

    def follow_runs(self) -> None:
        """running -> trained or failed; what a dead watcher meant to start is started."""
        for change in self.queue.in_state("running"):
            if self._may_try(change):
                self._attempt(change, self._advance)

    def _advance(self, change: Change) -> None:
        version = self.versions.folder(change.merchant, change.digest)
        try:
            ended = self.runs.advance(change, version, change.facts.uri)
        except InputError as error:
            ended = Ended(False, str(error))
        self._tries.pop(change.id, None)
        if ended is None:
            if change.facts.waiting:
                self.queue.note(change, "")
            return
        run = change.facts.run or RunFacts(where=self.runs.where(change))
        told = {"why": ended.why, "seconds": ended.seconds, "model_version": ended.model_version}
        self._move(change, "trained" if ended.ok else "failed", run=run.model_copy(update=told))

    def report(self, most: int | None = REPORTED_A_LOOK) -> None:
        """Rewrite the pages of the merchants of which more is known than they say; the rest is written later."""
        merchants = self.queue.dirty()[:most]
        if not merchants:
            return
        folder = self.config.state / "reports"
        try:
            write_reports(self.queue, merchants, folder)
            write_index(self.queue, folder)
        except OSError as error:  # they stay in the list of those to write
            self._fault("reports", f"{folder}: {error.strerror}")
        else:
            self.queue.reported(merchants)

    def _measured(self) -> list[float]:
        measured = self.runs.measured()
        if measured is not None:
            return measured
        runs = [change.facts.run for change in self.queue.in_state("trained")]
        return [run.seconds for run in runs if run is not None and run.seconds is not None]

    def _due(self) -> list[Change]:
        """Edits that had come to rest when we looked last; a clock that was set back does not hold them up."""
        return [
            change
            for change in self.queue.in_state("seen")
            if not 0 <= self._looked_at - change.changed_at < self.config.debounce_s and self._may_try(change)
        ]

    def _next_look(self) -> float:
        resting = [change.changed_at + self.config.debounce_s for change in self.queue.in_state("seen")]
        regular = self._looked_at + self.config.interval_s
        return min([regular, *(at for at in resting if at > self._looked_at)])

    def _pause(self) -> float:
        if self._due():
            return 0.0
        return POLL_S if self.gate.busy else max(0.0, min(1.0, self._next_look() - self.clock()))

    def _settled(self) -> bool:
        """Nothing is left that this process could do without waiting for a run, or for a server that failed."""
        if self.gate.busy:
            return False
        running = self.queue.in_state("running")
        busy = {change.merchant for change in running}
        open_changes = [
            *self.queue.in_state("seen"),
            *(change for change in self.queue.in_state("accepted") if change.merchant not in busy),
            *(
                c
                for c in self.queue.in_state("queued")
                if len(running) < self.config.max_runs and c.merchant not in busy
            ),
        ]
        return all(change.id in self._tries for change in open_changes)

    def _move(self, change: Change, to: State, **facts: object) -> Change:
        moved = self.queue.move(change, to, self.clock(), **facts)
        self._tries.pop(change.id, None)
        line = f"{change.merchant}: {change.digest[:12]} {to}"
        if to == "refused":
            line += ": " + "; ".join(moved.facts.faults)
        elif to == "accepted" and change.state == "seen":
            line += f", {len(moved.facts.changes)} changes" if moved.facts.compared_with else ", its first version"
        elif moved.facts.run is not None and to in ("running", "trained", "failed"):
            line += f": {moved.facts.run.why or moved.facts.run.where}"
        if to not in ("kept", "queued"):  # said with their numbers
            self._say(change.merchant, line)
        return moved

    def _attempt(self, change: Change, action: Callable[[Change], object]) -> None:
        try:
            action(change)
        except (SystemFault, InputError, OSError) as error:
            self._failed(change, str(error))

    def _failed(self, change: Change, why: str) -> None:
        count = self._tries.get(change.id, (0, 0.0))[0] + 1
        wait = min(LONGEST_WAIT_S, self.config.interval_s * 2 ** (count - 1))
        self._tries[change.id] = (count, self.clock() + wait)
        self._fault(change.merchant, f"{change.merchant}: {why}; tried again in {duration(wait)}")
        current = self.queue.get(change.id)
        if current.facts.waiting != why:
            self.queue.note(current, why)

    def _may_try(self, change: Change) -> bool:
        return self.clock() >= self._tries.get(change.id, (0, 0.0))[1]

    def _fault(self, topic: str, text: str) -> None:
        self.faults += 1
        self._once(topic, text)

    def _once(self, topic: str, text: str) -> None:
        if self._said.get(topic) != text:
            self._say(topic, text)

    def _say(self, topic: str, text: str) -> None:
        self._said[topic] = text
        print(f"{time.strftime('%H:%M:%S')} [watch] " + " | ".join(map(plain, text.split("\n"))), flush=True)
