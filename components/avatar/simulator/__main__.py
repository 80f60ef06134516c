"""Chat as a viewer with the oracle or a model, or measure the simulator.

python -m components.avatar.simulator play --harness infra/harnesses/lumi-beauty --seed 1
python -m components.avatar.simulator play --harness infra/harnesses/lumi-beauty --model RUN_DIR/.../model
python -m components.avatar.simulator benchmark --harness infra/harnesses/lumi-beauty --out domain.json
"""

import argparse
import json
import random
import sys
import time
from contextlib import suppress
from pathlib import Path

from components.avatar.errors import InputError
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.oracle import Realised, next_action, realise
from components.avatar.simulator.play import Model, Oracle, play
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session

EPISODES = (200, 2_000, 20_000)  # 1x, 10x, 100x: linear growth shows as equal seconds an episode
VARIANTS = 1_000
SAMPLE = Path("infra/harnesses/lumi-beauty")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m components.avatar.simulator",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    play_parser = commands.add_parser("play", help="chat as a viewer; the oracle or a model answers")
    benchmark_parser = commands.add_parser("benchmark", help="tool steps and harness variants a second, on one core")
    for sub in (play_parser, benchmark_parser):
        sub.add_argument("--harness", type=Path, default=SAMPLE, metavar="DIR", help=f"a merchant's folder ({SAMPLE})")
        sub.add_argument("--seed", type=int, default=1)
    play_parser.add_argument("--model", type=Path, metavar="DIR", help="a model folder; without it the oracle answers")
    play_parser.add_argument("--decoding", choices=["constrained", "free"], default="constrained", help="of the model")
    benchmark_parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write domain.json")
    options = parser.parse_args(argv)
    try:
        merchant = load_merchant(options.harness)
        if options.command == "play":
            answerer = Oracle(merchant) if options.model is None else Model(options.model, merchant, options.decoding)
            if sys.stdin.isatty():
                with suppress(ImportError):
                    import readline  # noqa: F401 - editing and history of the typed lines
            play(merchant, answerer, options.seed)
            return 0
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    figures = benchmark(merchant, options.seed)
    options.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for name, value in figures.items():
        print(f"{name}: {value}")
    return 0


def benchmark(merchant: Merchant, seed: int) -> dict[str, float]:
    """Figures of one core without a model, in CPU seconds, so that other jobs of the machine do not count.

    A tool step is one call with its share of everything around it: hooks, verifier, rewards.
    """
    recorded = _record(merchant, EPISODES[0], seed)
    figures: dict[str, float] = {}
    steps = seconds = 0.0
    for count in EPISODES:
        begun = time.process_time()
        steps = _play_all(merchant, recorded, count)
        seconds = time.process_time() - begun
        figures[f"seconds_{count // EPISODES[0]}x_episodes"] = round(seconds, 4)
    figures["episodes_1x"] = EPISODES[0]
    figures["sim_tool_steps_per_s"] = round(steps / seconds, 1)
    figures["hsa_variants_per_s"] = round(_variants_per_second(merchant, seed), 1)
    return figures


def _record(merchant: Merchant, count: int, seed: int) -> list[tuple[Scenario, list[Realised]]]:
    """Scenarios with the oracle's actions, so that the measurement is the simulator's alone."""
    recorded = []
    for scenario in sample_scenarios(merchant, count, seed, "train", fault_rate=0.2):
        session = Session(merchant.harness, merchant.catalogue, scenario)
        session.begin()
        actions: list[Realised] = []
        while session.stop is None:
            realised = realise(session, next_action(session))
            actions.append(realised)
            _act(session, realised)
        recorded.append((scenario, actions))
    return recorded


def _play_all(merchant: Merchant, recorded: list[tuple[Scenario, list[Realised]]], count: int) -> int:
    """Tool steps of `count` episodes, played in turn."""
    steps = 0
    for number in range(count):
        scenario, actions = recorded[number % len(recorded)]
        session = Session(merchant.harness, merchant.catalogue, scenario)
        session.begin()
        for realised in actions:
            steps += realised[0] == "call"
            _act(session, realised)
        session.score()
    return steps


def _act(session: Session, realised: Realised) -> None:
    if realised[0] == "call":
        session.call(realised[1], realised[2])
    else:
        session.reply(realised[1])


def _variants_per_second(merchant: Merchant, seed: int) -> float:
    from components.avatar.harness.augment import augment
    from components.avatar.harness.words import word_bank

    bank = word_bank("train")
    begun = time.process_time()
    for number in range(VARIANTS):
        augment(merchant.harness, random.Random(seed * VARIANTS + number), bank=bank, strength=1.0)
    return VARIANTS / (time.process_time() - begun)


if __name__ == "__main__":
    sys.exit(main())
