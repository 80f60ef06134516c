"""Figures from verdicts, with known right answers."""

import pytest

from components.evaluation.bfcl.checker import Verdict
from components.evaluation.bfcl.data import Category
from components.evaluation.bfcl.results import Outcome, lead, summarise, table

R, W = Verdict.RIGHT, Verdict.WRONG_VALUE


def outcome(category: Category, clean: Verdict, *perturbed: Verdict) -> Outcome:
    return Outcome("x", category, clean, perturbed)


def test_accuracy_gap_and_all_variants() -> None:
    outcomes = [
        outcome("simple_python", R, R, R),
        outcome("simple_python", R, R, W),
        outcome("multiple", W, R, W),
        outcome("irrelevance", R, W, Verdict.CALLED),
    ]
    figures = summarise(outcomes, seed=0)
    assert figures["clean"] == {"value": 0.75, "n": 4}
    assert figures["perturbed"] == {"value": 0.5, "n": 4}
    assert figures["all_variants_correct"] == {"value": 0.25, "n": 4}
    assert figures["gap"]["value"] == pytest.approx(0.25) and figures["gap"]["n"] == 4
    assert figures["gap"]["ci"][0] < 0.25 < figures["gap"]["ci"][1]
    assert figures["categories"]["simple_python"]["perturbed"] == {"value": 0.75, "n": 2}
    assert figures["categories"]["calls"]["clean"] == {"value": pytest.approx(2 / 3), "n": 3}
    assert figures["failures"] == {"clean": {"wrong_value": 1}, "perturbed": {"wrong_value": 3, "called": 1}}


def test_no_gap_where_clean_accuracy_is_below_a_fifth() -> None:
    figures = summarise([outcome("multiple", R, W)] + [outcome("multiple", W, W)] * 9, seed=0)
    assert figures["gap"] is None and figures["gap_why"] == "clean accuracy is 10.0%, below 20%"
    assert figures["clean"] == {"value": 0.1, "n": 10}
    assert summarise([outcome("multiple", R, W)] + [outcome("multiple", W, W)] * 4, seed=0)["gap"] is not None


def test_a_model_that_never_calls_has_no_gap_on_irrelevance_either() -> None:
    outcomes = [outcome("irrelevance", R, R)] * 5 + [outcome("simple_python", Verdict.NO_CALL, Verdict.NO_CALL)] * 5
    figures = summarise(outcomes, seed=0)
    assert figures["clean"]["value"] == 0.5
    for group in (figures, figures["categories"]["irrelevance"]):
        assert group["gap"] is None
        assert group["gap_why"] == "clean accuracy on the cases that need a call is 0.0%, below 20%"


def test_a_category_without_cases_has_no_figures() -> None:
    figures = summarise([outcome("simple_python", R, R)], seed=0)
    empty = figures["categories"]["multiple"]
    assert empty["clean"] == {"value": None, "n": 0} and empty["gap"] is None
    assert empty["gap_why"] == "clean accuracy: no case"


def test_the_table_says_why_there_is_no_gap() -> None:
    outcomes = [outcome("simple_python", R, W), outcome("simple_python", R, R), outcome("multiple", W, W)]
    leads = {"hat": {"free": lead(outcomes[:1], outcomes[1:2], seed=0)}}
    text = table({"arms": {"hat": {"free": summarise(outcomes, seed=0)}}, "leads": leads})
    rows = {line.split()[2]: line for line in text.splitlines()[1:]}
    assert "100.0%" in rows["simple_python"] and "+50.0 [+0.0, +100.0]" in rows["simple_python"]
    assert "none: clean accuracy is 0.0%, below 20%" in rows["multiple"]
    assert "none: clean accuracy: no case" in rows["irrelevance"]
    assert "hat free, calls that failed, clean: wrong_value 1; perturbed: wrong_value 2" in text
    assert "hat - fixed_sft, free, calls: clean +0.0 [+0.0, +0.0], perturbed -100.0 [-100.0, -100.0]" in text


def test_a_lead_pairs_the_cases_that_both_models_have() -> None:
    def case(name: str, category: Category, clean: Verdict, *perturbed: Verdict) -> Outcome:
        return Outcome(name, category, clean, perturbed)

    ours = [case("a", "multiple", R, R, R), case("b", "multiple", W, R, W), case("c", "irrelevance", R, R, R)]
    theirs = [case("b", "multiple", R, W, W), case("a", "multiple", W, W, R), case("c", "irrelevance", W, W, W)]
    found = lead([*ours, case("d", "multiple", R, R, R)], theirs, seed=0)
    assert (found["clean"]["value"], found["perturbed"]["value"]) == (0.0, 0.5)
    assert found["clean"]["n"] == found["perturbed"]["n"] == 2
    assert lead(ours[2:], theirs[2:], seed=0) == {}
