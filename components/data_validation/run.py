"""The gate before training: training data that breaks a critical expectation stops the pipeline, and nothing is
promoted.

    python -m components.data_validation --merchant DIR --trajectories DIR --examples DIR --base-model DIR --output OUT
"""

from pathlib import Path
from typing import Any

import pandas as pd
from great_expectations.expectations.expectation import Expectation

from components.avatar.agent.chat import Chat
from components.avatar.agent.examples import Example, Trajectory, read_rows, to_ids, training_tokens
from components.avatar.agent.surfaces import Surfaces, surfaces_of
from components.avatar.general.prompts import GeneralPrompt, sample_general_prompts
from components.avatar.harness.schema import Family, Harness
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import Pool
from components.data_validation import frames, suites
from components.data_validation.docs import make_offline
from components.data_validation.gate import Outcome, build_docs, validate
from components.data_validation.general import constraint_frame, prompt_frame
from components.data_validation.settings import Settings
from components.data_validation.verify import verify
from components.integrations.metrics import Metric, read_json, write_json
from components.integrations.progress import Progress

ARMS = ("fixed", "hsa")


def run(
    *,
    merchant: Path,
    trajectories: Path,
    examples: Path,
    base_model: Path,
    output: Path,
    settings: Settings,
    seed: int,
    progress: Progress,
) -> dict[str, Metric]:
    """Check trajectories (folder of teacher_generation), examples (folder of harness_augmentation) and the general
    prompts that distillation and evaluation draw with this seed, with Great Expectations.

    `base_model` is a transformers folder whose tokenizer counts tokens. Writes `output/validation.json`,
    `output/docs/index.html` (Data Docs) and `output/gx` (the GX project). A failed check is a verdict, not an error.
    Raises InputError for files that cannot be read.
    """
    from transformers import AutoTokenizer

    own = load_merchant(merchant)
    chat = Chat(AutoTokenizer.from_pretrained(base_model))
    rows = read_rows(trajectories / "trajectories.jsonl", Trajectory)
    arms = {arm: read_rows(examples / f"{arm}.jsonl", Example) for arm in ARMS}
    branches = int(read_json(examples / "augmentation.json")["trajectories_per_variant"])
    listed = Surfaces.model_validate(read_json(examples / "surfaces.json"))
    progress.note(f"{len(rows)} trajectories, {len(arms['hsa'])} examples an arm")

    tables = build_tables(rows, arms, listed, own, chat, settings, branches)
    tables |= prompt_tables(*general_prompts(settings, seed), chat, settings)
    outcome = validate(tables, output, output / "docs")
    build_docs(output)
    make_offline(output / "docs", outcome, {name: frame for name, (frame, _) in tables.items()})
    verdict = verdict_of(outcome)
    write_json(output / "validation.json", verdict)
    progress.note(f"{'passed' if verdict['passed'] else 'FAILED'}: {verdict['why']}")
    return {
        "expectations": Metric(outcome.expectations, 1),
        "failed_critical": Metric(len(outcome.critical), outcome.expectations),
        "failed_warning": Metric(len(outcome.failures) - len(outcome.critical), outcome.expectations),
        "passed": Metric(float(verdict["passed"]), 1),
    }


def build_tables(
    trajectories: list[Trajectory],
    arms: dict[str, list[Example]],
    listed: Surfaces,
    own: Merchant,
    chat: Chat,
    settings: Settings,
    branches: int,
) -> dict[str, tuple[pd.DataFrame, list[Expectation]]]:
    """Every table with its expectations, by the name that the Data Docs show. `branches`: see `training_tokens`."""
    pool = Pool(own, "train")
    wanted = settings.families or [family for family in pool.families() if family != Family.OUTAGE]
    encoded = {arm: [to_ids(example, chat) for example in examples] for arm, examples in arms.items()}
    table = {
        arm: frames.example_frame(examples, encoded[arm], lambda example: verify(example, own.catalogue), own.harness)
        for arm, examples in arms.items()
    }
    tokens = {arm: training_tokens(arms[arm], [ids for ids, _ in encoded[arm]], branches) for arm in ARMS}
    return {
        "trajectories": (frames.trajectory_frame(trajectories, pool), suites.trajectories(settings)),
        "questions": (frames.question_frame(trajectories, wanted), suites.questions(settings)),
        "examples_fixed": (
            table["fixed"],
            suites.examples(settings, rows_of_other_arm=len(table["hsa"])) + suites.fixed(),
        ),
        "examples_hsa": (
            table["hsa"],
            suites.examples(settings, rows_of_other_arm=len(table["fixed"])) + suites.augmented(settings),
        ),
        "families_hsa": (frames.family_frame(arms["hsa"], wanted, own.harness), suites.families(settings)),
        "axes": (frames.axis_frame(arms["hsa"]), suites.axes(settings)),
        "surfaces": (
            frames.surface_frame(_surfaces(arms["hsa"]), listed, surfaces_of([own.harness])),
            suites.surfaces(),
        ),
        "budget": (frames.budget_frame(tokens), suites.budget(settings)),
    }


def general_prompts(settings: Settings, seed: int) -> tuple[list[GeneralPrompt], list[GeneralPrompt]]:
    """(training, test) prompts as distillation and evaluation draw them with `seed`."""
    n = settings.general_prompts
    return sample_general_prompts(n, seed=seed, split="train"), sample_general_prompts(n, seed=seed, split="test")


def prompt_tables(
    train: list[GeneralPrompt], test: list[GeneralPrompt], chat: Chat, settings: Settings
) -> dict[str, tuple[pd.DataFrame, list[Expectation]]]:
    """The tables of the general prompts, with their expectations."""
    return {
        "general_prompts": (prompt_frame(train, test, chat), suites.general_prompts(settings)),
        "constraints": (constraint_frame(train, test), suites.constraints()),
    }


def verdict_of(outcome: Outcome) -> dict[str, Any]:
    """validation.json: {"passed", "why", "failed": [critical], "warnings": [...], "expectations"}."""
    critical = [{"name": f.name, "why": f.why} for f in outcome.critical]
    warnings = [{"name": f.name, "why": f.why} for f in outcome.failures if f.severity != "critical"]
    why = "; ".join(
        f"{f.name}: {f.why}" for f in outcome.critical
    ) or f"all {outcome.expectations} expectations held" + (f" but {len(warnings)} warnings" if warnings else "")
    return {
        "passed": not critical,
        "why": why,
        "failed": critical,
        "warnings": warnings,
        "expectations": outcome.expectations,
    }


def _surfaces(examples: list[Example]) -> Surfaces:
    harnesses: dict[str, Harness] = {example.harness.digest: example.harness for example in examples}
    return surfaces_of(harnesses.values())
