"""Talk to the oracle as a viewer, or measure the simulator.

python -m components.avatar.simulator play --harness infra/harnesses/lumi-beauty --seed 1
python -m components.avatar.simulator benchmark --harness infra/harnesses/lumi-beauty --out domain.json
"""

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from components.avatar.errors import InputError
from components.avatar.harness.schema import Family
from components.avatar.simulator.families import LINK_FAMILIES, SUPPORTED
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.oracle import Realised, next_action, realise
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import Question, Scenario
from components.avatar.simulator.session import Session

EPISODES = (200, 2_000, 20_000)  # 1x, 10x, 100x: linear growth shows as equal seconds an episode
VARIANTS = 1_000
SAMPLE = Path("infra/harnesses/lumi-beauty")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m components.avatar.simulator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    play_parser = commands.add_parser("play", help="chat as a viewer; the oracle answers")
    benchmark_parser = commands.add_parser("benchmark", help="tool steps and harness variants a second, on one core")
    for sub in (play_parser, benchmark_parser):
        sub.add_argument("--harness", type=Path, default=SAMPLE, metavar="DIR", help=f"a merchant's folder ({SAMPLE})")
        sub.add_argument("--seed", type=int, default=1)
    benchmark_parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write domain.json")
    options = parser.parse_args(argv)
    try:
        merchant = load_merchant(options.harness)
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    if options.command == "play":
        play(merchant, options.seed)
        return 0
    figures = benchmark(merchant, options.seed)
    options.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    for name, value in figures.items():
        print(f"{name}: {value}")
    return 0


def play(merchant: Merchant, seed: int, ask: Callable[[str], str] = input) -> None:
    """A chat in the terminal. Free text is matched to the most similar question of the merchant's log."""
    rng = random.Random(seed)
    on_air = rng.choice(merchant.catalogue.products)
    print(
        f"{merchant.name}: {len(merchant.catalogue.products)} products; on air: link {on_air.link_id}, {on_air.title}."
    )
    print('Ask something ("how much is link 7"), an empty line ends.')
    number = 0
    while True:
        try:
            text = ask("you> ").strip()
        except (EOFError, KeyboardInterrupt):
            text = ""
        if not text:
            return
        question = guess(text, merchant)
        scenario = Scenario(
            id=f"play-{number}",
            seed=seed + number,
            merchant=merchant.name,
            questions=(question,),
            on_air=on_air.link_id,
        )
        number += 1
        session = Session(merchant.harness, merchant.catalogue, scenario)
        session.begin()
        while session.stop is None:
            _narrate(session)
        reply = session.replies[-1]
        print(
            f"      [understood as {reply.family}; accuracy {reply.accuracy:g}, effectiveness {reply.effectiveness:g}]"
        )


def guess(text: str, merchant: Merchant) -> Question:
    """What a free text may mean: family and slots of the logged question with the most words in common, the numbers as
    the links.
    """

    words = set(re.findall(r"[a-z']+", text.lower()))
    numbers = [int(number) for number in re.findall(r"\d{1,6}", text)]
    city = next((city for city in merchant.catalogue.cities if city.lower() in text.lower()), None)

    def similarity(question: Question) -> float:
        other = set(re.findall(r"[a-z']+", question.text.lower()))
        shape = (bool(numbers) == (question.link_id is not None)) + (bool(city) == ("city" in question.slots))
        attribute = str(question.slots.get("attribute", "")).replace("_", " ")
        return (
            len(words & other) / (1 + len(words | other))
            + 0.3 * shape
            + 0.3 * bool(attribute and attribute in text.lower())
        )

    usable = [q for q in merchant.questions if q.family in SUPPORTED and q.family != Family.UNKNOWN_LINK]
    nearest = max(usable, key=similarity)
    slots = {**nearest.slots, **({"city": city} if city and "city" in nearest.slots else {})}
    family, link = nearest.family, nearest.link_id
    if numbers and link is not None and family is not None:
        link = numbers[0]
        if link not in merchant.catalogue.by_link and family in LINK_FAMILIES:
            slots["asks"], family = family.value, Family.UNKNOWN_LINK
    return Question(id="typed", text=text, family=family, link_id=link, slots=slots)


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


def _narrate(session: Session) -> None:
    realised = realise(session, next_action(session))
    if realised[0] == "reply":
        print(f"{session.harness.merchant}> {realised[1]}")
        session.reply(realised[1])
        return
    observation = session.call(realised[1], realised[2])
    arguments = ", ".join(f"{name}={value}" for name, value in realised[2].items())
    print(f"      {realised[1]}({arguments}) -> {observation.content[:160]}")


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
