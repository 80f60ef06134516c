"""The Great Expectations gate by itself, on plain frames."""

import os
import re

import great_expectations.expectations as gxe
import pandas as pd
import yaml

from components.data_validation.docs import make_offline
from components.data_validation.gate import build_docs, validate

FRAME = pd.DataFrame({"id": ["a", "b", "c"], "n": [1, 2, 3]})


def _least(limit, severity="critical"):
    return gxe.ExpectColumnValuesToBeBetween(
        column="n", min_value=limit, severity=severity, meta={"name": "least"}, notes=f"n >= {limit}"
    )


def test_good_data_passes_and_data_docs_are_written(tmp_path):
    outcome = validate({"rows": (FRAME, [_least(1)])}, tmp_path, tmp_path / "docs")
    build_docs(tmp_path)
    assert (outcome.expectations, outcome.failures) == (1, ())
    index = (tmp_path / "docs" / "index.html").read_text(encoding="utf-8")
    assert "rows" in index
    pages = list((tmp_path / "docs" / "validations").rglob("*.html"))
    assert len(pages) == 1
    assert (tmp_path / "gx" / "great_expectations.yml").is_file()


def test_failures_name_the_check_its_severity_and_the_row(tmp_path):
    outcome = validate(
        {"rows": (FRAME, [_least(2)]), "more": (FRAME, [_least(3, "warning")])}, tmp_path, tmp_path / "docs"
    )
    critical, warning = outcome.failures
    assert (critical.name, critical.severity) == ("rows.least", "critical")
    assert "n >= 2" in critical.why and "1 of 3 rows" in critical.why and "a" in critical.why.split("found")[1]
    assert (warning.name, warning.severity) == ("more.least", "warning")
    assert outcome.critical == (critical,)


def test_an_expectation_that_cannot_be_evaluated_fails(tmp_path):
    outcome = validate({"rows": (FRAME.drop(columns="n"), [_least(1)])}, tmp_path, tmp_path / "docs")
    assert "could not be evaluated" in outcome.failures[0].why


def test_a_second_run_starts_from_a_fresh_context(tmp_path):
    validate({"rows": (FRAME, [_least(2)])}, tmp_path, tmp_path / "docs")
    outcome = validate({"rows": (FRAME, [_least(1)])}, tmp_path, tmp_path / "docs")
    build_docs(tmp_path)
    assert outcome.failures == ()
    assert len(list((tmp_path / "docs" / "validations").rglob("*.html"))) == 1


def test_usage_statistics_are_off(tmp_path):
    validate({"rows": (FRAME, [_least(1)])}, tmp_path, tmp_path / "docs")
    assert os.environ["GX_ANALYTICS_ENABLED"] == "false"
    config = yaml.safe_load((tmp_path / "gx" / "great_expectations.yml").read_text(encoding="utf-8"))
    assert config["analytics_enabled"] is False


def test_data_docs_need_no_internet(tmp_path):
    """The start page says every check and leads to every result; no page fetches anything from anywhere."""
    docs = tmp_path / "docs"
    long = pd.DataFrame({"id": [f"r{n}" for n in range(50)], "n": range(50), "kind": ["a", "b"] * 25})
    shares = pd.DataFrame({"id": ["x<y", "z"], "n": [3, 1], "share": [0.75, 0.25]})
    tables = {
        "good": (long, [_least(0)]),
        "bad": (FRAME, [_least(2), _least(1)]),
        "poor": (shares, [_least(2, "warning")]),
    }
    outcome = validate(tables, tmp_path, docs)
    build_docs(tmp_path)
    make_offline(docs, outcome, {name: frame for name, (frame, _) in tables.items()})
    index = (docs / "index.html").read_text(encoding="utf-8")
    assert "4 expectations in 3 tables: 2 held, 1 critical and 1 warnings did not. Training does not start." in index
    table = re.search(r'<table id="summary".*?</table>', index, re.DOTALL)
    assert table is not None
    assert re.findall(r'class="pill (\w+)"', table[0]) == ["passed", "failed", "warning"]
    assert "bad.least: n &gt;= 2; found 1 of 3 rows: " in table[0]
    assert len(re.findall(r'<span class="pill passed">held</span>', index)) == 2
    assert "0 to 49, median 24.5, mean 24.5" in index and "a 25, b 25" in index, "long tables are summed up"
    assert "x&lt;y" in index and "75.0%" in index, "short tables are shown whole, and escaped"
    links = [link for link in re.findall(r'href="([^"]+)"', index) if not link.startswith("#")]
    assert len(links) == 3 and all((docs / link).is_file() for link in links)
    pages = list(docs.rglob("*.html"))
    assert len(pages) == 7
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "great-expectations-web-assets" not in text and "dataContextId=" not in text
        assert not re.search(r"<(?:script|img|link)[^>]*(?:src|href)=\"(?:https?:)?//", text)
        logo = re.search(r'src="([^"]*logo-long\.png)"', text)
        assert logo is None or (page.parent / logo[1]).is_file()
