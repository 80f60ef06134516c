"""A live rollout in compressed time: simulated rooms against the router, the ramp, the looks, the verdict, and the
verdict applied.

What is real: two agent services, a router, HTTP, assignment, latency, events on disk, the decision and its ledger. What
is simulated: the viewers and the clock. What is saved: each arm generates the reply to each question of the deck once
for each state of the harness; a room that asks it again gets that reply again from the service (greedy decoding would
repeat it), with the latency of its generation.
"""

import heapq
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from components.avatar.errors import SystemFault
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.viewers import Ask, Heard, RoomSettings, simulate_room
from components.canary_deploy.assignment import Arm
from components.canary_deploy.decision import Decision, Verdict, decide
from components.canary_deploy.deck import Deck
from components.canary_deploy.events import EventLog
from components.canary_deploy.evidence import Evidence, RampStep, RolloutState
from components.canary_deploy.joining import build_evidence
from components.canary_deploy.ledger import Ledger
from components.canary_deploy.processes import Servers
from components.canary_deploy.router import EVENTS_FILE, TrafficState
from components.canary_deploy.settings import Settings
from components.canary_deploy.traffic import Phase
from components.canary_deploy.traffic_client import TrafficClient
from components.canary_deploy.wire import RoutedReply, TurnRequest
from components.integrations.hardware import usable_cores
from components.integrations.progress import Progress

AGENT, ROUTER = "components.canary_deploy.agent_service", "components.canary_deploy.router"
ROOM_SECONDS = 1800.0
EVENTS_A_REQUEST = 5000
EDIT_TIMEOUT_S = 30.0
READ_BACK_SESSIONS = 8


@dataclass(frozen=True)
class Served:
    """One reply as the router gave it."""

    arm: Arm
    release_digest: str
    fallback: bool
    reused: bool
    latency_ms: float


@dataclass(frozen=True)
class Look:
    """One decision, and what was done."""

    rooms: int
    """Room sessions played so far."""
    share: float
    decision: Decision


@dataclass(frozen=True)
class Rollout:
    """What is rolled out and how it is watched.

    `crashes` counts processes that died, by arm; `aliases` reads back the releases that `canary` and `champion` name
    now (None: they could not be read). `edit` changes the harness under the running services and returns its new
    digest (None: nothing to change).
    """

    name: str
    salt: str
    router_url: str
    canary_release: str
    champion_release: str
    crashes: Callable[[], dict[Arm, int]]
    aliases: Callable[[], tuple[str | None, str | None]]
    edit: Callable[[], str | None]


@dataclass(frozen=True)
class LiveResult:
    decision: Decision
    evidence: Evidence
    looks: tuple[Look, ...]
    served: tuple[Served, ...]
    unanswered: int
    traffic: TrafficState
    """Read back after the verdict was applied."""
    harness_digests: tuple[str, ...]
    rooms: int
    seconds: float


class LiveRollout:
    """Plays one rollout to its verdict. Simulated moments are seconds since its start."""

    def __init__(
        self,
        rollout: Rollout,
        merchant: Merchant,
        output: Path,
        settings: Settings,
        seed: int,
        progress: Progress,
        client: httpx.Client,
    ) -> None:
        self._rollout, self._merchant, self._settings = rollout, merchant, settings
        self._seed, self._progress, self._client = seed, progress, client
        self._traffic = TrafficClient(client, rollout.router_url)
        states = 1 if settings.edit_at is None else 2
        size = settings.live_replies // states
        self._deck = Deck(merchant, size, seed, seconds=ROOM_SECONDS, fault_rate=settings.fault_rate)
        self._room = RoomSettings(
            viewers=settings.viewers_per_room,
            seconds=ROOM_SECONDS,
            ask_rate=settings.ask_share,
            buyer_rate=settings.buyer_rate,
        )
        self._interval = (settings.canary.budget_s - ROOM_SECONDS) / max(1, settings.rooms - 1)
        self._events_path = output / EVENTS_FILE
        self._events_read = 0
        self._log = EventLog(rollout.name, settings.canary.currency)
        self._ledger = Ledger(output / "ledger.jsonl")
        self._ramp: list[RampStep] = []
        self._due: list[tuple[float, str, str]] = []
        self._served: list[Served] = []
        self._digests: list[str] = [merchant.harness.digest]
        self._unanswered = 0

    def run(self) -> LiveResult:
        """Raises SystemFault when our own side fails (the router, the disk); a failing canary is data."""
        started = time.monotonic()
        settings, looks = self._settings, []
        self._grow(0.0)
        played, hold = 0, False
        decision: Decision | None = None
        evidence: Evidence | None = None
        while played < settings.rooms:
            wave = range(played, min(played + settings.rooms_a_decision, settings.rooms))
            if settings.edit_at is not None and len(self._digests) == 1 and played >= settings.edit_at * settings.rooms:
                self._edit()
            self._play(wave)
            played = wave.stop
            # The last room ends with the budget; rounding must not leave it a moment short, or no last look would come.
            ended = (played - 1) * self._interval + ROOM_SECONDS
            now = settings.canary.budget_s if played == settings.rooms else ended
            self._deliver(now)
            evidence = build_evidence(self._read_events(), self._state(now), settings.canary)
            decision = decide(evidence, settings.canary)
            self._ledger.append(evidence, settings.canary, decision)
            looks.append(Look(played, self._ramp[-1].share, decision))
            self._tell(played, str(decision.verdict))
            if _final(decision):
                break
            hold = decision.verdict is Verdict.HOLD  # the data cannot be judged: go no further, but go on looking
            if not hold:
                self._grow(played * self._interval)
        if decision is None or evidence is None:
            raise ValueError("a rollout has at least one room")
        return LiveResult(
            decision=decision,
            evidence=evidence,
            looks=tuple(looks),
            served=tuple(self._served),
            unanswered=self._unanswered,
            traffic=self._apply(decision),
            harness_digests=tuple(self._digests),
            rooms=played,
            seconds=time.monotonic() - started,
        )

    def _grow(self, at: float) -> None:
        """The next step of the ramp, from `at` on; none after the last."""
        steps = self._settings.canary.ramp
        if len(self._ramp) < len(steps):
            share = steps[len(self._ramp)]
            self._traffic.set(Phase.RAMP, share)
            self._ramp.append(RampStep(at=at, share=share))

    def _play(self, wave: range) -> None:
        with ThreadPoolExecutor(self._settings.concurrent_rooms) as pool:
            for number, events in zip(wave, pool.map(self._play_room, wave), strict=True):
                for event in events:
                    heapq.heappush(self._due, (event["at"], event["id"], json.dumps(event, ensure_ascii=False)))
                self._tell(number + 1)

    def _tell(self, rooms: int, verdict: str | None = None) -> None:
        fields: dict[str, float | str] = {"share": self._ramp[-1].share} | ({"verdict": verdict} if verdict else {})
        generated = sum(not reply.reused for reply in self._served)
        self._progress.update(rooms, self._settings.rooms, replies=len(self._served), generated=generated, **fields)

    def _play_room(self, number: int) -> list[dict]:
        """Outcomes of one room session; its exposures are the router's to write."""
        events = simulate_room(
            f"{self._rollout.name}-room{number:04d}",
            self._seed,
            self._answer,
            self._merchant,
            settings=self._room,
            pool=self._deck,
            starts_at=number * self._interval,
        )
        return [event for event in events if event["event"] != "exposure"]

    def _answer(self, ask: Ask) -> Heard:
        """Ask the router. A turn that no arm answered moves nobody."""
        question = ask.scenario.questions[0]
        turn = TurnRequest(
            session=ask.room,
            room=ask.room,
            viewer=ask.viewer,
            message=question.text,
            reply_id=ask.scenario.id,
            at=ask.at,
            context=self._deck.contexts[question.id],
        )
        routed = self._post_turn(turn)
        if routed is None:
            self._unanswered += 1
            return Heard(accuracy=None)
        answer = routed.answer
        self._served.append(
            Served(routed.arm, answer.release_digest, routed.fallback, answer.reused, routed.latency_ms)
        )
        return Heard(accuracy=answer.accuracy, false_claims=answer.false_claims)

    def _post_turn(self, turn: TurnRequest) -> RoutedReply | None:
        headers = {"content-type": "application/json"}
        try:
            response = self._client.post(
                f"{self._rollout.router_url}/turns", content=turn.model_dump_json(), headers=headers
            )
        except httpx.HTTPError as error:
            raise SystemFault(f"the router does not answer: {type(error).__name__}: {error}") from error
        if response.status_code == 503:
            return None
        if response.status_code != 200:
            raise SystemFault(f"the router refuses a turn: HTTP {response.status_code}: {response.text[:300]}")
        return RoutedReply.model_validate_json(response.content)

    def _deliver(self, now: float) -> None:
        """Send the outcomes that have happened by `now`; later ones (refunds) wait."""
        lines: list[str] = []
        while self._due and self._due[0][0] <= now:
            lines.append(heapq.heappop(self._due)[2])
        for first in range(0, len(lines), EVENTS_A_REQUEST):
            batch = lines[first : first + EVENTS_A_REQUEST]
            try:
                response = self._client.post(f"{self._rollout.router_url}/events", content="\n".join(batch).encode())
                response.raise_for_status()
            except httpx.HTTPError as error:
                raise SystemFault(f"the router does not take outcomes: {error}") from error
            if response.json()["stored"] != len(batch):
                raise SystemFault(f"the router stored {response.json()} of {len(batch)} outcomes")

    def _read_events(self) -> EventLog:
        """Everything that the router has written; only whole lines, and only once."""
        with open(self._events_path, "rb") as file:
            file.seek(self._events_read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._events_read += len(whole)
        self._log.add_lines(whole.splitlines())
        return self._log

    def _state(self, now: float) -> RolloutState:
        rollout, traffic = self._rollout, self._traffic.read()
        canary, champion = rollout.aliases()
        return RolloutState(
            rollout=rollout.name,
            salt=rollout.salt,
            started=0.0,
            now=now,
            ramp=tuple(self._ramp),
            canary_release=rollout.canary_release,
            champion_release=rollout.champion_release,
            canary_alias=canary,
            champion_alias=champion,
            assigned={arm: traffic.assigned[arm] for arm in (Arm.CANARY, Arm.CONTROL)},
            routed={arm: traffic.routed[arm] for arm in (Arm.CANARY, Arm.CONTROL)},
            crashes=rollout.crashes(),
            looks=self._ledger.looks(rollout.name),
        )

    def _edit(self) -> None:
        """The merchant edits the harness; goes on when every living service has taken it up."""
        digest = self._rollout.edit()
        self._digests.append(digest or self._digests[0])
        if digest is None:
            return
        deadline = time.monotonic() + EDIT_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                arms = self._client.get(f"{self._rollout.router_url}/healthz").json()["arms"].values()
            except (httpx.HTTPError, ValueError) as error:
                raise SystemFault(f"the router does not tell the health of the arms: {error}") from error
            if all(not arm.get("ready") or arm["harness_digest"] == digest for arm in arms):
                self._progress.note("harness edited under the running services", harness=digest)
                return
            time.sleep(0.1)
        raise SystemFault(f"a service did not take up the edited harness {digest} within {EDIT_TIMEOUT_S:g} s")

    def _apply(self, decision: Decision) -> TrafficState:
        """Traffic as the verdict wants it. The ledger holds the decision already, so a crash here is repeated, not
        forgotten.

        The split is read back, and so is its effect: new sessions must be answered by the release that it names.
        """
        share = self._ramp[-1].share
        if decision.verdict is Verdict.PROMOTE:
            phase, release = Phase.PROMOTED, self._rollout.canary_release
        elif decision.verdict is Verdict.ROLLBACK:
            phase, release = Phase.ROLLED_BACK, self._rollout.champion_release
        else:
            return self._traffic.read()
        state = self._traffic.set(phase, share)
        question = next(iter(self._deck.contexts.values()))
        for number in range(READ_BACK_SESSIONS):
            session = f"{self._rollout.name}-after{number}"
            message = question.question.text if question.question else "hello"
            turn = TurnRequest(
                session=session, room=session, viewer="probe", message=message, at=decision.at, context=question
            )
            routed = self._post_turn(turn)
            if routed is None or routed.answer.release_digest != release or routed.fallback:
                raise SystemFault(f"after {phase} a new session is not served by release {release}: {routed}")
        return state


def _final(decision: Decision) -> bool:
    """Whether the rollout is over: promoted, rolled back, or held because its budget is spent."""
    return decision.verdict in (Verdict.PROMOTE, Verdict.ROLLBACK) or (
        decision.verdict is Verdict.HOLD and decision.step == 5
    )


@contextmanager
def serving(
    *, champion: Path, challenger: Path, merchant: Path, output: Path, settings: Settings, name: str, salt: str
) -> Iterator[tuple[str, str, str, Callable[[], dict[Arm, int]]]]:
    """Both agent services and the router as child processes: (router URL, canary release, champion release, crash
    counter).

    Everything is stopped when the context is left, whatever happened in it. Raises SystemFault when a server does not
    get ready.
    """
    with Servers(output / "logs") as servers:
        threads = max(1, usable_cores() // 2)
        arguments = [
            *("--merchant", str(merchant), "--decoding", settings.decoding, "--threads", str(threads)),
            *("--max-new-tokens", str(settings.max_new_tokens), "--max-context", str(settings.max_context)),
            *("--batch-size", str(settings.batch_size), "--reuse-replies"),
        ]
        canary = servers.start("canary", AGENT, "--model", str(challenger), *arguments)
        control = servers.start("champion", AGENT, "--model", str(champion), *arguments)
        for server in (canary, control):  # the router needs to know only where they will be
            servers.wait_listening(server, settings.ready_timeout_s)
        router = servers.start(
            "router",
            ROUTER,
            *("--rollout", name, "--salt", salt, "--unit", str(settings.canary.unit), "--state", str(output)),
            *("--champion", control.url, "--canary", canary.url, "--simulated-clock"),
            *("--canary-timeout-s", str(settings.turn_timeout_s)),
            *("--champion-timeout-s", str(settings.turn_timeout_s)),
        )
        canary_release = servers.wait_ready(canary, settings.ready_timeout_s)["release_digest"]
        champion_release = servers.wait_ready(control, settings.ready_timeout_s)["release_digest"]
        servers.wait_ready(router, settings.ready_timeout_s)

        def crashes() -> dict[Arm, int]:
            return {
                arm: int(server.exit_status is not None)
                for arm, server in ((Arm.CANARY, canary), (Arm.CONTROL, control))
            }

        yield router.url, canary_release, champion_release, crashes
