"""Training data as tables: one row a trajectory, a question family, an example, an axis, a surface."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import pandas as pd

from components.avatar.agent.examples import REWARDS, Example, Trajectory
from components.avatar.agent.surfaces import Surfaces
from components.avatar.harness.operators import OPERATORS
from components.avatar.harness.schema import Family, Harness, content_digest
from components.avatar.simulator.families import LINK_FAMILIES
from components.avatar.simulator.sampling import Pool
from components.data_validation.heldout import is_held_out_word, is_held_out_wording

# Script of a language by its primary subtag; letters of any other script count against a row.
_SCRIPTS = {
    "zh": re.compile(r"[㐀-䶿一-鿿A-Za-z]"),  # Chinese shops write brand names and tool names in Latin letters
    "ja": re.compile(r"[぀-ヿ㐀-䶿一-鿿A-Za-z]"),
    "ko": re.compile(r"[가-힣A-Za-z]"),
    "ru": re.compile(r"[Ѐ-ӿA-Za-z]"),
}
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]")


def trajectory_frame(trajectories: Sequence[Trajectory], pool: Pool) -> pd.DataFrame:
    """`foreign` counts the questions and products of a row that `pool`, the training split, lacks. Other columns: id,
    family (of the first question), questions, actions, split, source, retry, and the four rewards."""
    known = {question.id for questions in pool.questions.values() for question in questions}
    links = {product.link_id for product in pool.products}
    rows = [
        {
            "id": t.scenario.id,
            "content": content_digest(
                [t.scenario.model_dump(mode="json", exclude={"id"}), t.mistake and t.mistake.model_dump()]
            ),
            "family": str(t.families[0]) if t.families else "",
            "questions": len(t.scenario.questions),
            "actions": len(t.actions),
            "split": t.split,
            "foreign": sum(
                question.id not in known or (question.family in LINK_FAMILIES and question.link_id not in links)
                for question in t.scenario.questions
            ),
            "source": t.source,
            "retry": int(t.mistake is not None),
            **{name: t.reward.get(name) for name in REWARDS},
        }
        for t in trajectories
    ]
    columns = ["id", "content", "family", "questions", "actions", "split", "foreign", "source", "retry"]
    return pd.DataFrame(rows, columns=pd.Index([*columns, *REWARDS]))


def question_frame(trajectories: Sequence[Trajectory], families: Iterable[Family]) -> pd.DataFrame:
    """One row a family: n questions and their share; wanted families without a question have n = 0."""
    counts = Counter(family for t in trajectories for family in t.families)
    total = max(1, counts.total())
    names = sorted({*families, *counts})
    return pd.DataFrame(
        [{"id": str(name), "n": counts[name], "share": counts[name] / total} for name in names],
        columns=pd.Index(["id", "n", "share"]),
    )


def example_frame(
    examples: Sequence[Example],
    encoded: Sequence[tuple[list[int], list[int]]],
    verify: Callable[[Example], str],
    own: Harness,
) -> pd.DataFrame:
    """One row an example.

    `encoded` gives the ids and mask of each; `verify` gives "" for a transcript that the simulator reproduces with
    full reward, else what went wrong. `content` is the digest of harness and transcript.
    """
    rows = []
    for example, (ids, mask) in zip(examples, encoded, strict=True):
        transcript = [segment.text for segment in example.segments]
        rows.append(
            {
                "id": example.id,
                "scenario": example.scenario.id,
                "content": example.content,
                "harness": example.harness_digest,
                "augmented": int(example.harness_digest != own.digest),
                "tokens": len(ids),
                "trained_tokens": sum(mask),
                "verdict": verify(example) or "ok",
                "script_share": script_share(" ".join([example.first_message, *transcript]), own.language),
            }
        )
    columns = [
        "id",
        "scenario",
        "content",
        "harness",
        "augmented",
        "tokens",
        "trained_tokens",
        "verdict",
        "script_share",
    ]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def family_frame(examples: Sequence[Example], families: Iterable[Family], own: Harness) -> pd.DataFrame:
    """One row a family: n questions of the examples, their share, and how many are asked under a changed harness."""
    asked = [
        (question.family, example.harness_digest != own.digest)
        for example in examples
        for question in example.scenario.questions
        if question.family is not None
    ]
    counts, changed = Counter(family for family, _ in asked), Counter(family for family, other in asked if other)
    return pd.DataFrame(
        [
            {"id": str(name), "n": counts[name], "share": counts[name] / max(1, len(asked)), "augmented": changed[name]}
            for name in sorted({*families, *counts})
        ],
        columns=pd.Index(["id", "n", "share", "augmented"]),
    )


def axis_frame(examples: Sequence[Example]) -> pd.DataFrame:
    """One row an axis of augmentation, and one for decoys: n examples with at least one of its operators, and their
    share."""
    axes_of = {
        name: {str(operator.axis), *(["decoys"] if "decoy" in name else [])} for name, operator in OPERATORS.items()
    }
    counts = Counter(
        axis for e in examples for axis in set().union(*(axes_of.get(name, set()) for name in e.operators))
    )
    axes = sorted(set().union(*axes_of.values()))
    share = {axis: counts[axis] / max(1, len(examples)) for axis in axes}
    return pd.DataFrame(
        [{"id": axis, "n": counts[axis], "share": share[axis]} for axis in axes], columns=pd.Index(["id", "n", "share"])
    )


def surface_frame(shown: Surfaces, listed: Surfaces, own: Surfaces) -> pd.DataFrame:
    """One row a surface that the examples show and the merchant's own harness does not: is it held out, and does
    surfaces.json list it?

    The merchant's own words are no leak, whatever split they hash to: both arms must see them.
    """
    rows = []
    for kind in ("names", "words", "descriptions"):
        mine, known = set(getattr(own, kind)), set(getattr(listed, kind))
        for surface in getattr(shown, kind):
            if surface not in mine:
                held_out = (kind == "words" and is_held_out_word(surface)) or (
                    kind == "descriptions" and is_held_out_wording(surface)
                )
                rows.append({"id": surface, "kind": kind, "held_out": int(held_out), "listed": int(surface in known)})
    return pd.DataFrame(rows, columns=pd.Index(["id", "kind", "held_out", "listed"]))


def budget_frame(tokens: Mapping[str, int]) -> pd.DataFrame:
    """One row an arm: its tokens and how far they are from the fixed arm's, as a fraction of it."""
    base = max(1, tokens["fixed"])
    return pd.DataFrame([{"id": arm, "tokens": n, "imbalance": abs(n - base) / base} for arm, n in tokens.items()])


def script_share(text: str, language: str) -> float:
    """Share of the letters of `text` that belong to the script of `language` (a BCP 47 tag); 1 when there are no
    letters."""
    letters = [character for character in text if character.isalpha()]
    if not letters:
        return 1.0
    script = _SCRIPTS.get(language.split("-")[0].lower(), _LATIN)
    return sum(bool(script.match(letter)) for letter in letters) / len(letters)
