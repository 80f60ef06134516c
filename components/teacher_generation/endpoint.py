"""The endpoint teacher: a foreign model plays the scenarios through the one episode loop, and the verifiers choose.

Each scenario is tried until an attempt is accepted or the attempts are used up. An attempt is played under the
merchant's own harness or under a variant of its surface (which leaves what is right unchanged), translated into
semantic actions, cut to what no hook corrected, and must earn full reward when that is played again under the
merchant's own harness. Scenarios run side by side in threads; each attempt is appended to a ledger when it ends.
"""

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed

from components.avatar.agent.chat import Chat
from components.avatar.agent.completions import conversation, turn_text, wire_tools
from components.avatar.agent.episode import EpisodeState, Start, run_episodes
from components.avatar.agent.examples import Trajectory
from components.avatar.agent.types import Generation
from components.avatar.agent.understand import AgentTurn, Understood, understand
from components.avatar.errors import SystemFault
from components.avatar.harness.augment import augment
from components.avatar.harness.operators import SURFACE
from components.avatar.harness.schema import Harness, content_digest
from components.avatar.harness.words import word_bank
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.types import StopReason
from components.integrations.progress import Progress
from components.teacher_generation.acceptance import Solved, accept
from components.teacher_generation.attempts import Attempt, Ledger, Tokens
from components.teacher_generation.byte_tokenizer import byte_tokenizer
from components.teacher_generation.judges import ask, majority, metered
from components.teacher_generation.server import Server
from components.teacher_generation.settings import EndpointTeacher, Settings

FAULTS_IN_A_ROW = 3  # scenarios that our own side fails running: then the server is down
WEAKEST_VARIANT = 0.3  # where harness_augmentation's curriculum starts; the strength is drawn from here to 1
NO_LIMIT = 2**31  # of the loop's ids, which are bytes here: the server has a context limit of its own


class EndpointActor:
    """Speaks chat completions for one episode. `tokens` adds up what the server metered."""

    max_new_tokens = 0

    def __init__(self, server: Server, chat: Chat) -> None:
        self.server, self.chat = server, chat
        self.tokens = Tokens()

    def act(self, states: list[EpisodeState]) -> list[Generation]:
        return [self._turn(state) for state in states]

    def _turn(self, state: EpisodeState) -> Generation:
        started = time.monotonic()
        messages, tools = conversation(state, self.chat), wire_tools(state.harness)
        answer = self.server.complete(messages, tools=tools, seed=state.seed % 2**31)
        self.tokens += metered(answer)
        choice = answer.choices[0]
        text = turn_text(choice.message, state.harness)
        ids, seconds = tuple(self.chat.agent_ids(text)), time.monotonic() - started
        if choice.finish_reason == "length" and len(ids) > 1:
            return Generation(ids[:-1], text, "length", seconds=seconds)
        return Generation(ids, text, "stop", seconds=seconds)


class Teaching:
    """One run of the endpoint teacher. Raises InputError when a key file cannot be read."""

    def __init__(self, world: Merchant, settings: Settings, seed: int, ledger: Ledger) -> None:
        assert settings.endpoint is not None, "the settings have seen to it"
        self.world, self.settings, self.seed, self.ledger = world, settings, seed, ledger
        self._endpoint: EndpointTeacher = settings.endpoint
        self._stopping = threading.Event()
        self._server = Server(self._endpoint, "endpoint", self._stopping)
        self._judges = [
            Server(judge, f"judges.{number}", self._stopping) for number, judge in enumerate(settings.judges)
        ]

    def solve(self, scenarios: Sequence[Scenario], progress: Progress) -> list[Solved]:
        """All scenarios, in their order.

        Raises InputError when a server refuses key, address or model; SystemFault when FAULTS_IN_A_ROW scenarios fail
        running by a fault of ours. Requests that are under way end first."""
        try:
            with ThreadPoolExecutor(max_workers=self._endpoint.concurrency) as pool:
                futures = {pool.submit(self._solve, scenario): number for number, scenario in enumerate(scenarios)}
                try:
                    solved = self._collected(futures, progress)
                except BaseException:
                    self._stopping.set()
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        finally:
            for server in (self._server, *self._judges):
                server.close()
        return [solved[number] for number in range(len(scenarios))]

    def _collected(self, futures: dict[Future[Solved], int], progress: Progress) -> dict[int, Solved]:
        solved: dict[int, Solved] = {}
        failing = attempts = accepted = 0
        for done, future in enumerate(as_completed(futures), start=1):
            one = solved[futures[future]] = future.result()
            failing = failing + 1 if one.fault else 0
            if failing >= FAULTS_IN_A_ROW:
                raise SystemFault(
                    f"{failing} scenarios running failed on our side; the last: {one.fault}."
                    f" What was played is kept in {self.ledger.path}: start again to go on"
                )
            attempts += len(one.attempts)
            accepted += one.trajectory is not None
            progress.update(done, len(futures), accepted=accepted, attempts=attempts)
        return solved

    def _solve(self, scenario: Scenario) -> Solved:
        attempts: list[Attempt] = []
        resumed, trajectory, fault = 0, None, None
        try:
            while trajectory is None and len(attempts) < self._endpoint.attempts:
                attempt, trajectory, old = self._attempt(scenario, len(attempts))
                attempts.append(attempt)
                resumed += old
        except SystemFault as error:
            fault = str(error)
        rejected = tuple(attempt.verdict for attempt in attempts if attempt.verdict)
        return Solved(scenario, trajectory, rejected, tuple(attempts), resumed, fault)

    def _attempt(self, scenario: Scenario, number: int) -> tuple[Attempt, Trajectory | None, bool]:
        """(the attempt with its verdict, its trajectory if it is accepted, whether it was played by an earlier run)."""
        harness, operators = self._harness(scenario, number)
        key = self._key(scenario, number, harness)
        kept = self.ledger.get(key)
        attempt = kept or self._play(key, scenario, number, harness, operators)
        understood = understand(harness, self.world.catalogue, scenario, attempt.turns)
        trajectory, verdict = self._verdict(scenario, understood)
        attempt = attempt.model_copy(update={"verdict": verdict})
        if kept is None:
            self.ledger.append(attempt)
        if trajectory is not None and self._judges:
            if [vote.judge for vote in attempt.votes] != [judge.settings.model for judge in self._judges]:
                votes = tuple(ask(judge, harness, understood.transcript) for judge in self._judges)
                attempt = attempt.model_copy(update={"votes": votes})
                verdict = "" if majority(votes) else "judges"
                self.ledger.append(attempt.model_copy(update={"verdict": verdict}))
            if not majority(attempt.votes):
                return attempt.model_copy(update={"verdict": "judges"}), None, kept is not None
        return attempt, trajectory, kept is not None

    def _harness(self, scenario: Scenario, number: int) -> tuple[Harness, tuple[str, ...]]:
        """The harness of one attempt and the operators that made it; none for the merchant's own."""
        rng = random.Random(f"teacher:{self.seed}:{scenario.id}:{number}")
        if rng.random() >= self._endpoint.augmented_share:
            return self.world.harness, ()
        operators = rng.sample(SURFACE, rng.randint(1, len(SURFACE)))
        strength = rng.uniform(WEAKEST_VARIANT, 1)
        variant = augment(self.world.harness, rng, bank=word_bank("train"), strength=strength, operators=operators)
        return variant.harness, variant.operators

    def _key(self, scenario: Scenario, number: int, harness: Harness) -> str:
        """Everything that decides an attempt, but for the server's address: the same model may move."""
        endpoint = self._endpoint
        how = [endpoint.model, endpoint.max_tokens, endpoint.temperature, endpoint.body, self.seed, number]
        return content_digest([scenario.model_dump(mode="json"), self.world.catalogue.digest, harness.digest, how])

    def _play(self, key: str, scenario: Scenario, number: int, harness: Harness, operators: tuple[str, ...]) -> Attempt:
        """Raises SystemFault when our own side fails; what the episode has cost until then is kept."""
        chat = Chat(byte_tokenizer())
        actor = EndpointActor(self._server, chat)
        started = time.monotonic()
        [result] = run_episodes(
            [Start(harness, scenario)],
            actor,
            chat,
            self.world.catalogue,
            max_context=NO_LIMIT,
            seed=int(content_digest([self.seed, scenario.id, number]), 16) >> 1,
        )
        attempt = Attempt(
            key=key,
            scenario=scenario.id,
            number=number,
            operators=operators,
            turns=tuple(
                AgentTurn.model_validate({"kind": segment.kind, "text": segment.text})
                for segment in result.segments
                if segment.author == "agent"
            ),
            tokens=actor.tokens,
            seconds=round(time.monotonic() - started, 3),
            error=result.error,
        )
        if result.error is not None:
            self.ledger.append(attempt)
            raise SystemFault(result.error)
        return attempt

    def _verdict(self, scenario: Scenario, understood: Understood) -> tuple[Trajectory | None, str]:
        """(trajectory, "") or (None, why the verifiers reject it)."""
        session = understood.session
        if session.stop != StopReason.DONE:
            return None, str(session.stop)
        score = session.score()
        # Calls that a hook corrected are cut below; a reply that stood until the end must be right as it is.
        poor = [name for name in ("accuracy", "effectiveness") if getattr(score, name) < 1]
        if poor:
            return None, f"{session.stop}: " + ", ".join(poor)
        return accept(
            self.world,
            scenario,
            understood.actions,
            f"endpoint:{self._endpoint.model}",
            random.Random(f"teacher:{self.seed}:{scenario.id}"),
            self.settings,
            understood.slips,
        )
