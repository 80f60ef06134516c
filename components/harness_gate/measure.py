"""What the champion can do under an edited harness."""

from pathlib import Path

from components.avatar.agent.actors import ModelActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.transformers_client import TransformersClient
from components.avatar.errors import SystemFault
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.harness_gate.settings import Settings
from components.integrations.hardware import set_threads
from components.integrations.metrics import Metric
from components.integrations.progress import Progress
from components.integrations.training import load_for_generation


def measure(model: Path, world: Merchant, settings: Settings, seed: int, progress: Progress) -> Metric:
    """Mean quality of model folder `model` on the merchant's test cases under the harness at hand.

    Raises SystemFault when no episode could be scored.
    """
    set_threads()
    weights, tokenizer = load_for_generation(model)
    client = TransformersClient(weights, tokenizer, decoding=settings.decoding, batch_size=settings.batch_size)
    actor = ModelActor(client, temperature=0.0, max_new_tokens=settings.max_new_tokens)
    starts = [Start(world.harness, s) for s in sample_scenarios(world, settings.cases, seed=seed, split="test")]
    results = run_episodes(
        starts,
        actor,
        Chat(tokenizer),
        world.catalogue,
        max_context=settings.max_context,
        seed=seed,
        on_progress=lambda done, total: progress.update(done, total, measuring="champion"),
    )
    scores = [result.score.quality for result in results if result.score is not None]
    if not scores:
        raise SystemFault(f"the champion answered none of {len(results)} cases: {results[0].error}")
    return Metric(sum(scores) / len(scores), len(scores))
