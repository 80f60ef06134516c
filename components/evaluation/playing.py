"""Playing the suites with one model under one decoding.

What a model writes freely and what it writes under the constraint differ only from the first token on that the
constraint forbids. An episode without such a token is the same under both decodings and is played once: constrained
decoding costs what it changes. (In bfloat16 another batch can flip a tie; that flip is noise, no effect of the
constraint.)
"""

from components.avatar.agent.actors import ModelActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.constrained import TokenTable, keeps_to
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.metrics import Judged
from components.avatar.agent.transformers_client import TransformersClient
from components.avatar.agent.types import EpisodeResult
from components.avatar.simulator.merchant import Merchant
from components.evaluation.settings import Settings
from components.evaluation.suites import Suites
from components.integrations.progress import Progress

Played = dict[str, list[Judged]]
"""Suite -> its episodes, in the order of its starts."""


def play(
    client: TransformersClient,
    chat: Chat,
    world: Merchant,
    suites: Suites,
    settings: Settings,
    seed: int,
    progress: Progress,
    label: str,
    free: Played | None = None,
) -> Played:
    """Greedy episodes of every suite. `free`: the same suites played by the same model with free decoding, from which a
    constrained client takes the episodes that kept to their harness by themselves."""
    actor = ModelActor(client, temperature=0.0, max_new_tokens=settings.max_new_tokens)
    table = TokenTable(client.tokenizer) if client.decoding == "constrained" else None
    played: Played = {}
    for name, starts in suites.by_name().items():
        kept: dict[int, EpisodeResult] = {}
        if table and free:
            results = [episode.result for episode in free[name]]
            kept = {
                index: result
                for index, (start, result) in enumerate(zip(starts, results, strict=True))
                if same_when_constrained(table, start, result)
            }
        rest = [index for index in range(len(starts)) if index not in kept]

        def report(done: int, _total: int, name: str = name, kept: int = len(kept), total: int = len(starts)) -> None:
            progress.update(kept + done, total, model=label, suite=name)

        fresh = run_episodes(
            [starts[index] for index in rest],
            actor,
            chat,
            world.catalogue,
            max_context=settings.max_context,
            seed=seed,
            on_progress=report,
        )
        by_index = kept | dict(zip(rest, fresh, strict=True))
        played[name] = [Judged(start.harness, by_index[index]) for index, start in enumerate(starts)]
    return played


def same_when_constrained(table: TokenTable, start: Start, result: EpisodeResult) -> bool:
    """Whether no token of a freely decoded episode breaks the constraint.

    An episode in which the harness may change, or that our own side failed, is never taken."""
    if start.scenario.events or result.score is None:
        return False
    turns = (segment.ids for segment in result.segments if segment.author == "agent")
    return all(keeps_to(table, start.harness, turn) for turn in turns)
