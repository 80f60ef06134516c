"""A chat in the terminal: a person is the viewer, the oracle or a model answers, every finding is shown.

Each message is an episode of its own, as in a live stream where one viewer asks once. What a free text asks is guessed
from the merchant's question log, and the guess is printed: the verifiers judge the reply against it.
"""

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from components.avatar.errors import Fault, InputError
from components.avatar.harness.render import show
from components.avatar.harness.schema import Family
from components.avatar.harness.script import words
from components.avatar.simulator.catalogue import Product
from components.avatar.simulator.families import LINK_FAMILIES, SUPPORTED
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.oracle import next_action, realise
from components.avatar.simulator.scenario import FaultKind, Question, Scenario, ToolFault
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import Reply, Score, StopReason

SHOWN = 200  # characters of a tool's result on the screen
LISTED = 12  # products of one listing
FOREVER = 99  # times of a fault that no retry outlasts
HELP = """Type a question as a viewer would ("how much is link 7"), or a command:
  /ask [FAMILY]           a random question from the merchant's log, of one family if given
  /products [WORDS]       products whose title has the words
  /air LINK               put a product on air ("this one" means it)
  /fault TOOL KIND        the tool fails once in each of the next episodes; /fault TOOL outage: always; /fault off
  /harness                tools, skills, hooks and limits that the agent works under
  /help                   this list
  /quit                   leave (or Ctrl-D)"""


class Answerer(Protocol):
    """Plays one episode and yields its turns as (kind, text), kinds of a Segment, then returns how it ended."""

    @property
    def name(self) -> str: ...

    def answer(self, scenario: Scenario) -> "Iterator[tuple[str, str] | Ending]": ...


@dataclass(frozen=True)
class Ending:
    """The last thing of an episode. `reply` is None when the agent never came to one."""

    reply: Reply | None
    score: Score | None
    stop: StopReason
    error: str | None = None


@dataclass(frozen=True)
class Oracle:
    """The embedded teacher, without a tokenizer."""

    merchant: Merchant
    name: str = "the oracle"

    def answer(self, scenario: Scenario) -> Iterator[tuple[str, str] | Ending]:
        session = Session(self.merchant.harness, self.merchant.catalogue, scenario)
        session.begin()
        while session.stop is None:
            realised = realise(session, next_action(session))
            if realised[0] == "reply":
                yield "reply", realised[1]
                observation = session.reply(realised[1])
            else:
                arguments = ", ".join(f"{name}={value}" for name, value in realised[2].items())
                yield "call", f"{realised[1]}({arguments})"
                observation = session.call(realised[1], realised[2])
            if not observation.done:
                yield ("tool" if observation.role == "tool" else "correction"), observation.content
        reply = session.replies[-1] if session.replies else None
        yield Ending(reply, session.score(), session.stop)


class Model:
    """A model folder with ChatML tokenizer, in this process, greedy."""

    def __init__(self, folder: Path, merchant: Merchant, decoding: Literal["free", "constrained"]) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar

        from components.avatar.agent.actors import ModelActor
        from components.avatar.agent.chat import Chat
        from components.avatar.agent.transformers_client import TransformersClient

        if not (folder / "config.json").is_file():
            raise InputError([Fault(str(folder), "model", "no config.json", "a model folder in Hugging Face format")])
        disable_progress_bar()
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
        except (OSError, ValueError) as error:
            allowed = "config, tokenizer and safetensors weights"
            raise InputError([Fault(str(folder), "model", str(error).partition("\n")[0], allowed)]) from error
        self.name = f"the model {folder} ({decoding} decoding)"
        self.merchant = merchant
        self.chat = Chat(tokenizer)
        self.actor = ModelActor(TransformersClient(model, tokenizer, decoding=decoding, batch_size=1))

    def answer(self, scenario: Scenario) -> Iterator[tuple[str, str] | Ending]:
        from components.avatar.agent.episode import Start, run_episodes

        start = Start(self.merchant.harness, scenario)
        result = run_episodes([start], self.actor, self.chat, self.merchant.catalogue)[0]
        for segment in result.segments:
            yield segment.kind, segment.text
        yield Ending(result.replies[-1] if result.replies else None, result.score, result.stop, result.error)


@dataclass
class Player:
    """What the commands change between two messages."""

    merchant: Merchant
    seed: int
    on_air: int
    faults: dict[str, ToolFault] = field(default_factory=dict)  # by tool name
    asked: int = 0


def play(merchant: Merchant, answerer: Answerer, seed: int, ask: Callable[[str], str] = input) -> None:
    """Talk until /quit or the end of the input. `ask` shows a prompt and returns a line, as `input` does."""
    on_air = random.Random(seed).choice(merchant.catalogue.products)
    player = Player(merchant, seed, on_air.link_id)
    print(f"{merchant.name}: {len(merchant.catalogue.products)} products; {answerer.name} answers.")
    print(f"On air: {_line(on_air)}\n{HELP}")
    while True:
        try:
            text = ask("you> ").encode("utf-8", "replace").decode().strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if text in ("/quit", "/exit"):
            return
        if not text:
            print("      [nothing to answer; /help lists the commands, /quit leaves]")
        elif text.startswith("/"):
            question = command(text, player)
            if question is not None:
                print(f"you> {question.text}")
                _episode(player, answerer, question)
        else:
            _episode(player, answerer, guess(text, merchant))


def command(text: str, player: Player) -> Question | None:
    """Do what a line that starts with / says; returns the question that it asks, if it asks one."""
    name, *words_given = text.split()
    rest, merchant = " ".join(words_given), player.merchant
    match name:
        case "/help":
            print(HELP)
        case "/ask":
            families = sorted({q.family.value for q in merchant.questions if q.family is not None})
            pool = [q for q in merchant.questions if q.family in SUPPORTED and rest in ("", q.family)]
            if not pool:
                print(f"      [no question of family {rest!r}; families: {', '.join(families)}]")
                return None
            return random.Random(f"{player.seed}/{player.asked}").choice(pool)
        case "/products":
            found = [p for p in merchant.catalogue.products if rest.lower() in p.title.lower()]
            for product in found[:LISTED]:
                print(f"      {_line(product)}")
            print(f"      [{min(len(found), LISTED)} of {len(found)} products]")
        case "/air":
            link = int(rest) if rest.isdecimal() else None
            if link not in merchant.catalogue.by_link or link is None:
                links = sorted(merchant.catalogue.by_link)
                print(f"      [no link {rest or '(none given)'}; links go from {links[0]} to {links[-1]}]")
            else:
                player.on_air = link
                print(f"      [on air: {_line(merchant.catalogue.by_link[link])}]")
        case "/fault":
            _set_fault(words_given, player)
        case "/harness":
            print(show(merchant.harness))
        case _:
            print(f"      [no command {name}; /help lists them]")
    return None


def _set_fault(given: list[str], player: Player) -> None:
    harness = player.merchant.harness
    if given == ["off"]:
        player.faults.clear()
        print("      [no faults]")
        return
    tools, kinds = list(harness.bindings), [kind.value for kind in FaultKind]
    if len(given) != 2 or given[0] not in tools or given[1] not in kinds:
        print(f"      [/fault TOOL KIND or /fault off; tools: {', '.join(tools)}; kinds: {', '.join(kinds)}]")
        return
    tool, kind = given[0], FaultKind(given[1])
    times = FOREVER if kind == FaultKind.OUTAGE else 1
    player.faults[tool] = ToolFault(capability=harness.bindings[tool].capability, kind=kind, times=times)
    print(f"      [faults: {', '.join(f'{name} {fault.kind}' for name, fault in player.faults.items())}]")


def _episode(player: Player, answerer: Answerer, question: Question) -> None:
    """One message, everything that the agent does about it, and what the verifiers say."""
    scenario = Scenario(
        id=f"play-{player.asked}",
        seed=player.seed + player.asked,
        merchant=player.merchant.name,
        questions=(question,),
        faults=tuple(player.faults.values()),
        on_air=player.on_air,
    )
    player.asked += 1
    about = "" if question.link_id is None else f" of link {question.link_id}"
    slots = "".join(f", {name} {value}" for name, value in question.slots.items())
    print(f"      [understood as {question.family}{about}{slots}]")
    for said in answerer.answer(scenario):
        if isinstance(said, Ending):
            for line in _findings(said):
                print(f"      [{line}]")
            return
        kind, text = said[0], _safe(said[1])
        match kind:
            case "reply":
                print(f"{player.merchant.name}> {text}")
            case "tool":
                print(f"      -> {text[:SHOWN]}{'...' if len(text) > SHOWN else ''}")
            case "correction":
                print(f"      hook: {text}")
            case _:
                print(f"      {'calls' if kind == 'call' else 'malformed:'} {text}")


def _findings(ending: Ending) -> Iterator[str]:
    reply, score = ending.reply, ending.score
    if ending.stop != StopReason.DONE:
        yield f"ended: {ending.stop.value.replace('_', ' ')}{f' ({ending.error})' if ending.error else ''}"
    if reply is not None:
        yield from (f"false: {claim}" for claim in reply.false_claims)
        yield from (f"missing: {fact}" for fact in reply.missing_facts)
        yield from (f"breaks rule {rule}" for rule in reply.broken_rules)
    if score is not None:
        yield (
            f"accuracy {score.accuracy:g}, effectiveness {score.effectiveness:g}, "
            f"tool rationality {score.tool_rationality:g}, skill selection {score.skill_selection:g}"
        )


def guess(text: str, merchant: Merchant) -> Question:
    """What a free text may mean: family and slots of the logged question with the most words in common, with the
    links, cities, orders, variants and attributes that the text names itself.
    """
    asked = set(words(text.lower()))
    numbers = [int(number) for number in re.findall(r"(?<![A-Za-z\d.])\d{1,6}(?![A-Za-z.]*\d)", text)]
    order = next(iter(re.findall(r"(?a)\b[A-Z]{1,3}\d{3,}\b", text)), None)  # (?a): no boundary needed beside Chinese
    city = next((city for city in merchant.catalogue.cities if city.lower() in text.lower()), None)

    def similarity(question: Question) -> float:
        other = set(words(question.text.lower()))
        shape = (bool(numbers) == (question.link_id is not None or "link_ids" in question.slots)) + (
            bool(city) == ("city" in question.slots)
        )
        attribute = str(question.slots.get("attribute", "")).replace("_", " ")
        return (
            len(asked & other) / (1 + len(asked | other))
            + 0.3 * shape
            + 0.3 * bool(attribute and attribute in text.lower())
            + 0.6 * (bool(order) and "order_id" in question.slots)
            + 0.3 * (len(numbers) > 1 and "link_ids" in question.slots)
        )

    usable = [q for q in merchant.questions if q.family in SUPPORTED and q.family != Family.UNKNOWN_LINK]
    nearest = max(usable, key=similarity)
    family, link, slots = nearest.family, nearest.link_id, dict(nearest.slots)
    if numbers and link is not None and family is not None:
        link = numbers[0]
        if link not in merchant.catalogue.by_link and family in LINK_FAMILIES:
            slots["asks"], family = family.value, Family.UNKNOWN_LINK
    own: dict[str, object] = {
        "city": city,
        "order_id": order,
        "link_ids": numbers[:2] if len(numbers) > 1 else None,
        "query": text,
        "variant": _named(text, merchant.catalogue.by_link.get(link) if link is not None else None),
    }
    for name in set(own) & set(slots):
        if own[name] is not None:
            slots[name] = own[name]
        elif name == "variant":
            del slots[name]  # asks for the choices, not for one of them
    return Question(id="typed", text=text, family=family, link_id=link, slots=slots)


def _named(text: str, product: Product | None) -> str | None:
    """The variant of `product` that the text names."""
    variants = () if product is None else product.variants
    return next((variant.value for variant in variants if variant.value.lower() in text.lower()), None)


def _line(product: Product) -> str:
    return f"link {product.link_id}, {_safe(product.title)}"


def _safe(text: str) -> str:
    """No control sequence of a title, a tool or a model reaches the terminal."""
    return "".join(sign if sign.isprintable() or sign == "\n" else ascii(sign)[1:-1] for sign in text)
