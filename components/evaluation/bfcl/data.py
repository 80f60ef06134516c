"""BFCL v4 from its wheel: only the data files inside it are read, nothing of it is installed or imported.

The wheel is fetched once with pip into a cache folder. Version and SHA-256 are pinned, so that the figures of two runs
rest on the same cases; the digest is checked at every use.

Data: `BFCL_v4_<category>.json` (questions and functions) and `possible_answer/BFCL_v4_<category>.json` (gold), JSON
lines. Berkeley Function Calling Leaderboard, Apache-2.0.
"""

import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from components.avatar.errors import SystemFault

PACKAGE, VERSION = "bfcl-eval", "2026.3.23"
WHEEL = f"bfcl_eval-{VERSION}-py3-none-any.whl"
SHA256 = "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a"

Category = Literal["simple_python", "multiple", "irrelevance"]
CATEGORIES: tuple[Category, ...] = get_args(Category)


@dataclass(frozen=True)
class Answer:
    """The gold call: `arguments` has the allowed values of every parameter; "" among them: it may be left out."""

    tool: str
    arguments: dict[str, list[Any]]


@dataclass(frozen=True)
class Case:
    """One question with its functions, in BFCL's own form. `answer` None: no function fits, none may be called."""

    id: str
    category: Category
    question: str
    functions: tuple[dict[str, Any], ...]
    answer: Answer | None


def fetch_wheel(cache: Path) -> Path:
    """The wheel in `cache`; downloaded first when it is missing or not the pinned one.

    Raises SystemFault when pip fails or delivers other content than the pinned.
    """
    target = cache / WHEEL
    if target.is_file() and _digest(target) == SHA256:
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as work:
        options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input", "--quiet"]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", work, f"{PACKAGE}=={VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheel = Path(work) / WHEEL
        if done.returncode or not wheel.is_file():
            raise SystemFault(f"pip could not download {PACKAGE}=={VERSION}: {done.stderr.strip()[-500:]}")
        found = _digest(wheel)
        if found != SHA256:
            raise SystemFault(f"{WHEEL}: SHA-256 is {found}, pinned is {SHA256}")
        os.replace(wheel, target)
    return target


def read_cases(wheel: Path, category: Category) -> list[Case]:
    """All cases of a category, in the order of the file. Raises SystemFault when questions and gold do not fit."""
    questions = _lines(wheel, f"bfcl_eval/data/BFCL_v4_{category}.json")
    gold: dict[str, list[dict[str, dict[str, list[Any]]]]] = {}
    if category != "irrelevance":
        rows = _lines(wheel, f"bfcl_eval/data/possible_answer/BFCL_v4_{category}.json")
        gold = {row["id"]: row["ground_truth"] for row in rows}
        if gold.keys() != {row["id"] for row in questions}:
            raise SystemFault(f"{wheel.name}: questions and possible answers of {category} have different ids")
    return [_case(row, category, gold.get(row["id"])) for row in questions]


def sample(cases: Sequence[Case], count: int | None, seed: int) -> list[Case]:
    """`count` cases (None or more than there are: all) in their own order. The file is ordered by topic, so its first
    cases would not stand for it."""
    if count is None or count >= len(cases):
        return list(cases)
    chosen = random.Random(f"bfcl:{seed}").sample(range(len(cases)), count)
    return [cases[index] for index in sorted(chosen)]


def _case(row: dict[str, Any], category: Category, gold: list[dict[str, dict[str, list[Any]]]] | None) -> Case:
    (turn,) = row["question"]  # these categories have one turn of one message, and one gold call
    (message,) = turn
    answer = None
    if gold is not None:
        (call,) = gold
        ((tool, arguments),) = call.items()
        answer = Answer(tool, arguments)
    return Case(row["id"], category, message["content"], tuple(row["function"]), answer)


def _lines(wheel: Path, member: str) -> list[dict[str, Any]]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            text = archive.read(member).decode("utf-8")
    except (KeyError, zipfile.BadZipFile) as error:
        raise SystemFault(f"{wheel}: {member}: {error}") from error
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
