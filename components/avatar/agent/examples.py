"""What training data is made of: trajectories (meaning, no surface) and examples (one trajectory under one harness, as
text).

A *trajectory* is a scenario and the semantic actions that solved it. An *example* is the transcript of those actions
under one state of a harness. Examples hold text, so that a person can read them and any tokenizer can encode them;
`to_ids` is the only way from an example to training ids, and gives the ids that the episode loop would have shown the
model.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import Field, ValidationError

from components.avatar.agent.types import EpisodeResult
from components.avatar.errors import Fault, InputError, file_fault
from components.avatar.harness.schema import Family, Frozen, Harness, HookCheck, content_digest
from components.avatar.simulator.rewards import BAD_CALL, BAD_SKILL
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.types import Observation, Score, SemanticAction

if TYPE_CHECKING:
    from components.avatar.agent.chat import Chat

R = TypeVar("R", bound=Frozen)

ROLES: dict[str, Literal["tool", "system", "user"]] = {"tool": "tool", "correction": "system", "viewer": "user"}


class Misstep(StrEnum):
    """A wrong call that no hook catches: what comes back shows that it was wrong."""

    WRONG_SKILL = "wrong_skill"  # another skill: its text is about something else
    UNSEEN_SKILL = "unseen_skill"  # another skill, and a reply with it, which the hook on skills corrects
    WRONG_TOOL = "wrong_tool"  # another tool: another fact, or an error
    WRONG_NAME = "wrong_name"  # a tool or skill that the harness lacks, by a slip in its name


class Mistake(Frozen):
    """A slip just before action number `before`, which a hook (`kind` is its check) or a misstep's result shows; then
    the action follows. Shown to the student, never trained on."""

    before: int = Field(ge=0)
    kind: HookCheck | Misstep


REWARDS = ("accuracy", "effectiveness", "tool_rationality", "skill_selection")


def poor_rewards(score: Score, missteps: int = 0, questions: int = 1) -> list[str]:
    """The rewards that keep an episode out of training: those below 1 by more than `missteps` wrong calls cost."""
    costs = {"tool_rationality": BAD_CALL, "skill_selection": BAD_SKILL}
    return [name for name in REWARDS if getattr(score, name) < 1 - costs.get(name, 0) * missteps / questions - 1e-9]


class Trajectory(Frozen):
    """An accepted solution of a scenario. `reward` holds the fields of its Score; `source` names the teacher."""

    scenario: Scenario
    actions: tuple[SemanticAction, ...] = Field(min_length=1)
    split: Literal["train", "test"]
    reward: dict[str, float]
    source: str
    mistake: Mistake | None = None

    @property
    def families(self) -> tuple[Family, ...]:
        return tuple(question.family for question in self.scenario.questions if question.family is not None)


class ExampleSegment(Frozen):
    """One stretch of the transcript. `text` is the agent's raw text without `<|im_end|>`, or an observation's content.

    `trained` is False for the environment's segments and for an agent's mistake: a student learns to recover, not to
    slip.
    """

    author: Literal["agent", "environment"]
    kind: Literal["call", "reply", "malformed", "tool", "correction", "viewer"]
    text: str
    trained: bool


class Example(Frozen):
    """A trajectory under one harness. `operators` are the augmentation operators that made the harness (empty: the
    merchant's own); `strength` in [0, 1] is the curriculum's strength at this example."""

    id: str
    scenario: Scenario
    operators: tuple[str, ...] = ()
    strength: float = Field(default=0.0, ge=0, le=1)
    harness_digest: str
    harness: Harness
    first_message: str
    segments: tuple[ExampleSegment, ...]

    @property
    def missteps(self) -> int:
        """Wrong calls whose own results show it: neither trained on nor corrected by a hook."""
        followers = [segment.kind for segment in self.segments[1:]]
        return sum(
            segment.kind == "call" and not segment.trained and follower != "correction"
            for segment, follower in zip(self.segments, followers, strict=False)
        )

    @property
    def content(self) -> str:
        """Digest of what a student sees: equal for two examples that differ in their ids only."""
        return content_digest([self.harness_digest, self.first_message, [segment.text for segment in self.segments]])


def example_from_episode(
    example_id: str,
    scenario: Scenario,
    harness: Harness,
    first_message: str,
    result: EpisodeResult,
    operators: tuple[str, ...] = (),
    strength: float = 0.0,
    slipped_at: int | None = None,
) -> Example:
    """The transcript of a finished episode as an example. Marked untrained are the agent turns that a correction
    follows and turn number `slipped_at` (from 0)."""
    followers = [*result.segments[1:], None]
    segments = []
    turn = 0
    for segment, follower in zip(result.segments, followers, strict=True):
        agent = segment.author == "agent"
        right = turn != slipped_at and (follower is None or follower.kind != "correction")
        segments.append(
            ExampleSegment(author=segment.author, kind=segment.kind, text=segment.text, trained=agent and right)
        )
        turn += agent
    return Example(
        id=example_id,
        scenario=scenario,
        operators=operators,
        strength=strength,
        harness_digest=harness.digest,
        harness=harness,
        first_message=first_message,
        segments=tuple(segments),
    )


def to_ids(example: Example, chat: "Chat") -> tuple[list[int], list[int]]:
    """Training ids of an example and its mask (1: trained on); equal lengths.

    The ids are those of the episode loop: `chat.prompt_ids`, then each segment's, the agent's `<|im_end|>` included in
    its segment.
    """
    ids = list(chat.prompt_ids(example.harness, example.first_message))
    mask = [0] * len(ids)
    for segment in example.segments:
        piece = segment_ids(segment, chat)
        ids += piece
        mask += [int(segment.trained)] * len(piece)
    return ids, mask


def segment_ids(segment: ExampleSegment, chat: "Chat") -> list[int]:
    """Ids of one stretch, as the episode loop carries them."""
    if segment.author == "agent":
        return chat.agent_ids(segment.text)
    return chat.observation_ids(Observation(ROLES[segment.kind], segment.text))


def training_tokens(examples: Sequence[Example], ids: Sequence[Sequence[int]], branches: int) -> int:
    """Tokens of `examples` (with their `ids`) when up to `branches` neighbours under one harness share their common
    prefix.

    1 branch counts every example by itself; SFT packs neighbours into shared-prefix rows, so its tokens are about
    these.
    """
    total, run = 0, 0
    for number, sequence in enumerate(ids):
        total += len(sequence)
        same = number > 0 and examples[number - 1].harness_digest == examples[number].harness_digest
        run = run + 1 if same and run < branches else 1
        if run > 1:
            pairs = zip(ids[number - 1], sequence, strict=False)
            total -= next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ids[number - 1]), len(sequence)))
    return total


def write_rows(path: Path, rows: Iterable[Frozen]) -> int:
    """Write one JSON object a line; returns the number of rows."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(row.model_dump_json() + "\n")
            count += 1
    return count


def read_rows(path: Path, model: type[R]) -> list[R]:
    """Rows of a JSON-lines file, checked against `model`. Raises InputError with every bad line."""
    rows: list[R] = []
    faults: list[Fault] = []
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                try:
                    rows.append(model.model_validate_json(line))
                except ValidationError as error:
                    found = error.errors(include_url=False)[0]
                    field = f"line {number}: " + (".".join(map(str, found["loc"])) or "(whole)")
                    faults.append(Fault(str(path), field, repr(found["input"])[:120], found["msg"]))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([file_fault(path, str(error), f"a UTF-8 file of {model.__name__} rows")]) from error
    if faults:
        raise InputError(faults)
    return rows
