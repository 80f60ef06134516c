"""General instruction prompts with verifiable constraints: training prompts for distillation, test prompts for the
`general` metric.

Subjects and wordings of the two splits are disjoint, so the metric never asks what distillation trained on.
"""

import random
from dataclasses import dataclass
from typing import Literal

from components.avatar.general.constraints import Constraint, Kind, is_answer

Split = Literal["train", "test"]

# Everyday tasks; {s} is a subject. None is about live commerce: this metric watches what domain training destroys.
_TASKS: dict[Split, tuple[str, ...]] = {
    "train": (
        "Write a short note about {s}.",
        "Explain {s} to a child.",
        "Describe {s} for a travel guide.",
        "Tell me something interesting about {s}.",
        "Give a piece of advice about {s}.",
        "What should a beginner know about {s}?",
        "Write a short message to a friend about {s}.",
        "Summarize why people care about {s}.",
    ),
    "test": (
        "Write a few lines on {s}.",
        "How would you introduce {s} to a newcomer?",
        "Share one fact about {s}.",
        "Compose a short paragraph about {s}.",
        "What makes {s} special?",
        "Write a postcard that mentions {s}.",
    ),
}
_SUBJECTS: dict[Split, tuple[str, ...]] = {
    "train": (
        "the moon", "winter mornings", "bicycles", "public libraries", "chess", "rain forests", "baking bread",
        "mountain hiking", "jazz music", "honey bees", "the Roman Empire", "sleep", "recycling", "lighthouses",
        "volcanoes", "gardening", "trains", "photography", "whales", "the printing press", "deserts", "friendship",
        "solar power", "cheese", "swimming", "maps", "owls", "glaciers", "poetry", "bridges", "coral reefs",
        "kites", "the stock market", "penguins", "folk tales", "robots", "silk",
    ),
    "test": (
        "the ocean", "summer evenings", "sailing boats", "museums", "the piano", "wolves", "making soup",
        "long distance running", "classical painting", "butterflies", "ancient Egypt", "breathing", "clean water",
        "castles", "earthquakes", "cooking rice", "airplanes", "astronomy", "elephants", "the telephone", "rivers",
        "kindness", "wind turbines", "coffee", "dancing", "clocks", "eagles", "islands", "novels", "tunnels",
        "snow", "puppets", "school exams", "dolphins", "city parks", "computers", "wool",
    ),
}  # fmt: skip
_WORDS: dict[Split, tuple[str, ...]] = {
    "train": ("garden", "bright", "river", "simple", "always", "energy", "people", "travel", "quiet", "future"),
    "test": ("morning", "strong", "bridge", "gentle", "often", "history", "family", "journey", "silver", "season"),
}


@dataclass(frozen=True)
class GeneralPrompt:
    """A user message and the constraints that a good answer fulfils."""

    id: str
    text: str
    subject: str
    constraints: tuple[Constraint, ...]

    def fulfilled(self, answer: str) -> bool:
        """Strict: it is an answer on the subject, and every constraint holds."""
        return is_answer(answer, self.subject) and all(constraint.holds(answer) for constraint in self.constraints)


def sample_general_prompts(n: int, *, seed: int, split: Split) -> list[GeneralPrompt]:
    """`n` prompts, each one task and one or two compatible constraints; deterministic in (seed, split)."""
    rng = random.Random(f"general:{split}:{seed}")
    return [_prompt(f"general-{split}-{seed}-{index}", rng, split) for index in range(n)]


def _prompt(identifier: str, rng: random.Random, split: Split) -> GeneralPrompt:
    task, subject = rng.choice(_TASKS[split]), rng.choice(_SUBJECTS[split])
    kinds = [rng.choice(list(Kind))]
    if rng.random() < 0.3:
        kinds += [kind for kind in [rng.choice(list(Kind))] if _compatible(kinds[0], kind)]
    constraints = tuple(_draw(kind, rng, split) for kind in kinds)
    return GeneralPrompt(
        identifier,
        " ".join([task.format(s=subject), *(_wording(c, rng, split) for c in constraints)]),
        subject,
        constraints,
    )


_EXCLUSIVE = (
    {Kind.LOWERCASE, Kind.UPPERCASE, Kind.POSTSCRIPT},
    {Kind.MAX_WORDS, Kind.MIN_WORDS, Kind.SENTENCES, Kind.BULLETS, Kind.PARAGRAPHS},
    {Kind.STARTS_WITH, Kind.QUOTED, Kind.TITLE, Kind.BULLETS},
    {Kind.ENDS_WITH, Kind.QUOTED, Kind.POSTSCRIPT},
    {Kind.INCLUDE, Kind.EXCLUDE},
)


def _compatible(one: Kind, other: Kind) -> bool:
    if one == other or Kind.JSON_ONLY in (one, other):
        return False
    return not any(one in group and other in group for group in _EXCLUSIVE)


def _draw(kind: Kind, rng: random.Random, split: Split) -> Constraint:
    numbers = {
        Kind.MAX_WORDS: (12, 40),
        Kind.MIN_WORDS: (20, 40),
        Kind.SENTENCES: (1, 3),
        Kind.BULLETS: (2, 4),
        Kind.PARAGRAPHS: (2, 3),
    }
    word = rng.choice(_WORDS[split])
    if kind == Kind.STARTS_WITH:
        word = word.capitalize()
    if kind == Kind.ENDS_WITH:
        word = f"that is all about the {word}"
    uses_word = kind in (Kind.INCLUDE, Kind.EXCLUDE, Kind.STARTS_WITH, Kind.ENDS_WITH)
    return Constraint(kind, rng.randint(*numbers[kind]) if kind in numbers else 0, word if uses_word else "")


_WORDINGS: dict[Kind, dict[Split, tuple[str, ...]]] = {
    Kind.LOWERCASE: {
        "train": ("Use only lowercase letters.", "Write everything in lower case."),
        "test": ("Your whole answer must be in lowercase.", "No capital letters are allowed."),
    },
    Kind.UPPERCASE: {
        "train": ("Use only capital letters.", "Write everything in upper case."),
        "test": ("Your whole answer must be in uppercase.", "Answer in all capital letters."),
    },
    Kind.MAX_WORDS: {
        "train": ("Use at most {n} words.", "Keep it to {n} words or fewer."),
        "test": ("Do not exceed {n} words.", "Answer in no more than {n} words."),
    },
    Kind.MIN_WORDS: {
        "train": ("Use at least {n} words.", "Write {n} words or more."),
        "test": ("Your answer needs a minimum of {n} words.", "Do not write fewer than {n} words."),
    },
    Kind.SENTENCES: {
        "train": ("Write exactly {n} sentence(s).", "Use exactly {n} sentence(s)."),
        "test": ("Answer in exactly {n} sentence(s).", "The answer must have exactly {n} sentence(s)."),
    },
    Kind.INCLUDE: {
        "train": ('Use the word "{w}".', 'Make sure that "{w}" appears.'),
        "test": ('Include the word "{w}".', 'Your answer must contain the word "{w}".'),
    },
    Kind.EXCLUDE: {
        "train": ('Do not use the word "{w}".', 'Avoid the word "{w}".'),
        "test": ('The word "{w}" must not appear.', 'Leave out the word "{w}".'),
    },
    Kind.BULLETS: {
        "train": ("Answer with exactly {n} bullet points that start with a dash.",),
        "test": ('Give exactly {n} bullet points, each starting with "- ".',),
    },
    Kind.JSON_ONLY: {
        "train": ("Answer only with a JSON object.",),
        "test": ("Your entire output must be valid JSON.",),
    },
    Kind.STARTS_WITH: {
        "train": ('Begin with the word "{w}".',),
        "test": ('The first word of your answer must be "{w}".',),
    },
    Kind.ENDS_WITH: {
        "train": ('End with the phrase "{w}".',),
        "test": ('Finish your answer with the exact phrase "{w}".',),
    },
    Kind.QUOTED: {
        "train": ("Put the whole answer in double quotation marks.",),
        "test": ("Wrap your entire answer in double quotes.",),
    },
    Kind.NO_COMMA: {
        "train": ("Do not use commas.",),
        "test": ("Your answer must not contain any commas.",),
    },
    Kind.PARAGRAPHS: {
        "train": ("Write exactly {n} paragraphs separated by a blank line.",),
        "test": ("Use exactly {n} paragraphs with an empty line between them.",),
    },
    Kind.POSTSCRIPT: {
        "train": ("Add a postscript that starts with P.S.",),
        "test": ("At the end, add a line starting with P.S.",),
    },
    Kind.TITLE: {
        "train": ("Give it a title in double angle brackets, such as <<title>>.",),
        "test": ("Include a title wrapped in double angle brackets, like <<my title>>.",),
    },
}


def _wording(constraint: Constraint, rng: random.Random, split: Split) -> str:
    return rng.choice(_WORDINGS[constraint.kind][split]).format(n=constraint.number, w=constraint.word)
