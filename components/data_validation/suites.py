"""What training data must keep, as Great Expectations: a critical failure stops the pipeline, a warning is
reported."""

from typing import Any

from great_expectations.expectations.core.expect_column_mean_to_be_between import ExpectColumnMeanToBeBetween
from great_expectations.expectations.core.expect_column_proportion_of_unique_values_to_be_between import (
    ExpectColumnProportionOfUniqueValuesToBeBetween,
)
from great_expectations.expectations.core.expect_column_unique_value_count_to_be_between import (
    ExpectColumnUniqueValueCountToBeBetween,
)
from great_expectations.expectations.core.expect_column_values_to_be_between import ExpectColumnValuesToBeBetween
from great_expectations.expectations.core.expect_column_values_to_be_in_set import ExpectColumnValuesToBeInSet
from great_expectations.expectations.core.expect_column_values_to_be_unique import ExpectColumnValuesToBeUnique
from great_expectations.expectations.core.expect_table_row_count_to_be_between import ExpectTableRowCountToBeBetween
from great_expectations.expectations.expectation import Expectation

from components.avatar.agent.examples import REWARDS
from components.data_validation.settings import Settings


def trajectories(settings: Settings) -> list[Expectation]:
    """For `trajectory_frame`."""
    return [
        _rows("enough", settings.min_trajectories, None, f"at least {settings.min_trajectories} trajectories"),
        _unique("ids", "id", "every trajectory has its own scenario id"),
        _unique("duplicates", "content", "no scenario occurs twice under two ids"),
        *[
            _between(reward, reward, 1, 1, f"only trajectories with full {reward.replace('_', ' ')} are kept")
            for reward in REWARDS
        ],
        _in_set("split", "split", ["train"], "no trajectory of the test split"),
        _between("disjoint", "foreign", 0, 0, "no question and no product of the test split"),
        _between("actions", "actions", 1, None, "no trajectory without an action"),
        _mean("retries", "retry", None, settings.max_retry_share, "few trajectories with a mistake", "warning"),
    ]


def questions(settings: Settings) -> list[Expectation]:
    """For `question_frame`."""
    return [
        _between(
            "coverage",
            "n",
            settings.min_per_family,
            None,
            f"at least {settings.min_per_family} questions of every family",
        ),
        _between("balance", "share", None, settings.max_family_share, "no family dominates", severity="warning"),
    ]


def examples(settings: Settings, *, rows_of_other_arm: int) -> list[Expectation]:
    """For `example_frame` of either arm."""
    return [
        _rows("enough", settings.min_examples, None, f"at least {settings.min_examples} examples"),
        _rows(
            "equal_arms",
            rows_of_other_arm,
            rows_of_other_arm,
            f"as many examples as the other arm ({rows_of_other_arm})",
        ),
        _unique("ids", "id", "example ids are unique"),
        _between("trained_tokens", "trained_tokens", 1, None, "every example has tokens to train on"),
        _between(
            "length",
            "tokens",
            1,
            settings.max_example_tokens,
            f"no example beyond {settings.max_example_tokens} tokens",
        ),
        _in_set("verified", "verdict", ["ok"], "the simulator reproduces every transcript with full reward"),
        _between(
            "language",
            "script_share",
            settings.min_script_share,
            None,
            "text in the script of the merchant's language",
            mostly=0.98,
        ),
    ]


def augmented(settings: Settings) -> list[Expectation]:
    """For `example_frame` of the hsa arm, beside `examples`."""
    return [
        _unique("duplicates", "content", "no example occurs twice under one harness"),
        _mean(
            "augmented",
            "augmented",
            settings.min_augmented_share,
            None,
            f"at least {settings.min_augmented_share:.0%} of the rows under a changed harness",
        ),
        ExpectColumnUniqueValueCountToBeBetween(
            column="harness",
            min_value=settings.min_variants,
            **_said("variants", f"at least {settings.min_variants} different harnesses"),
        ),
    ]


def fixed() -> list[Expectation]:
    """For `example_frame` of the fixed arm, beside `examples`."""
    return [_between("own_harness", "augmented", 0, 0, "every row under the merchant's own harness")]


def families(settings: Settings) -> list[Expectation]:
    """For `family_frame` of the hsa arm. Warnings: a small token budget may leave no room for every family."""
    limit = settings.max_family_share
    return [
        _between("coverage", "augmented", 1, None, "every family under a changed harness", severity="warning"),
        _between("balance", "share", None, limit, "no family dominates the examples", severity="warning"),
    ]


def axes(settings: Settings) -> list[Expectation]:
    """For `axis_frame` of the hsa arm."""
    share = settings.min_axis_share
    return [
        _between("coverage", "n", 1, None, "every axis of augmentation occurs"),
        _between("balance", "share", share, None, f"every axis in {share:.0%} of the rows or more", severity="warning"),
    ]


def general_prompts(settings: Settings) -> list[Expectation]:
    """For `prompt_frame` of both splits."""
    return [
        _unique("ids", "id", "every prompt has its own id"),
        ExpectColumnProportionOfUniqueValuesToBeBetween(
            column="text",
            min_value=settings.min_unique_prompts,
            **_said("duplicates", f"at least {settings.min_unique_prompts:.0%} of the texts differ"),
        ),
        _between("disjoint", "shared", 0, 0, "no task and no wording of a prompt in the other split"),
        _between("constraints", "constraints", 1, None, "every prompt has a constraint that a program can verify"),
        _between("contradictions", "contradictions", 0, 0, "no two constraints of one kind in a prompt"),
        _between(
            "length", "tokens", 1, settings.max_prompt_tokens, f"no prompt beyond {settings.max_prompt_tokens} tokens"
        ),
        _between("language", "script_share", settings.min_script_share, None, "English text"),
    ]


def constraints() -> list[Expectation]:
    """For `constraint_frame`."""
    return [
        _between("coverage", "n", 1, None, "every kind of constraint in both splits"),
        _between("balance", "share", None, 0.25, "no kind of constraint dominates", severity="warning"),
    ]


def surfaces() -> list[Expectation]:
    """For the surfaces that the hsa arm shows beyond the merchant's own."""
    return [
        _between("held_out", "held_out", 0, 0, "no surface from the held-out vocabulary of the tests"),
        _between("listed", "listed", 1, 1, "surfaces.json lists every surface of the examples"),
    ]


def budget(settings: Settings) -> list[Expectation]:
    """For one row an arm: `tokens` (shared prefixes counted once) and `imbalance` against the fixed arm."""
    limit = settings.max_tokens_per_arm
    return [
        _between("tokens", "tokens", 1, limit, f"at most {limit} tokens an arm"),
        _between(
            "imbalance", "imbalance", None, settings.max_token_imbalance, "arms of similar length", severity="warning"
        ),
    ]


def _said(name: str, notes: str, severity: str = "critical") -> dict[str, Any]:
    return {"severity": severity, "meta": {"name": name}, "notes": notes}


def _rows(name: str, low: int | None, high: int | None, notes: str) -> Expectation:
    return ExpectTableRowCountToBeBetween(min_value=low, max_value=high, **_said(name, notes))


def _mean(
    name: str, column: str, low: float | None, high: float | None, notes: str, severity: str = "critical"
) -> Expectation:
    return ExpectColumnMeanToBeBetween(column=column, min_value=low, max_value=high, **_said(name, notes, severity))


def _unique(name: str, column: str, notes: str) -> Expectation:
    return ExpectColumnValuesToBeUnique(column=column, **_said(name, notes))


def _in_set(name: str, column: str, allowed: list[str], notes: str) -> Expectation:
    return ExpectColumnValuesToBeInSet(column=column, value_set=allowed, **_said(name, notes))


def _between(
    name: str,
    column: str,
    low: float | None,
    high: float | None,
    notes: str,
    *,
    severity: str = "critical",
    mostly: float = 1.0,
) -> Expectation:
    return ExpectColumnValuesToBeBetween(
        column=column, min_value=low, max_value=high, mostly=mostly, **_said(name, notes, severity)
    )
