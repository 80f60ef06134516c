"""The questions of a compressed rollout: a small deck, so that a laptop can really generate every answer once in each
arm."""

import random

from components.avatar.harness.schema import Family
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.sampling import Pool, sample_scenarios
from components.avatar.simulator.scenario import Question, ToolFault
from components.avatar.simulator.stream import changes_until
from components.canary_deploy.wire import StreamContext


class Deck(Pool):
    """A pool that only ever draws its `size` questions (test split; families in equal shares), each with a fixed state
    of the stream.

    The state is fixed with the question because it is part of what decides the reply: moments are spread over `seconds`
    of a stream.
    """

    def __init__(self, merchant: Merchant, size: int, seed: int, *, seconds: float, fault_rate: float = 0.0) -> None:
        super().__init__(merchant, "test")
        families = [family for family in super().families() if family is not Family.OUTAGE]
        scenarios = sample_scenarios(merchant, size, seed, "test", families, fault_rate=fault_rate)
        self.contexts: dict[str, StreamContext] = {}
        self._deck: dict[Family, list[Question]] = {}
        for number, scenario in enumerate(scenarios):
            question = scenario.questions[0].model_copy(update={"id": f"live-{number:03d}"})
            assert question.family is not None, "sampled questions have a family"
            self._deck.setdefault(question.family, []).append(question)
            self.contexts[question.id] = StreamContext(
                question=question,
                faults=scenario.faults,
                events=changes_until(merchant.events, seconds * (number + 0.5) / size),
                on_air=scenario.on_air,
                seed=scenario.seed,
            )

    def families(self) -> list[Family]:
        return list(self._deck)

    def draw(self, family: Family, rng: random.Random) -> tuple[Question, list[ToolFault]]:
        question = rng.choice(self._deck[family])
        return question, list(self.contexts[question.id].faults)
