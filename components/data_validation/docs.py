"""Data Docs that a person can read, also without the internet.

Great Expectations draws its pages with styles and scripts from CDNs, so in a closed network they are bare; its start
page shows no verdict at all; and each page fetches its logo from the vendor with the project's id in the address. Here
the start page is replaced by one that says what was demanded, what was found and how the data is distributed, and the
pages behind it get a style of their own and ask nobody.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from components.data_validation.gate import Check, Outcome
from components.integrations.html import render_page

CELL_SHOWN = 400  # characters
WHOLE = 40  # rows up to which a table is shown as it is; longer ones are summed up by column
ABOUT = {
    "trajectories": "What the teacher did: one row an accepted trajectory.",
    "questions": "Questions of the trajectories by family.",
    "examples_fixed": "Training examples of the baseline: every trajectory under the merchant's own harness.",
    "examples_hsa": "Training examples of the harness-aware arm: the same trajectories, most under changed harnesses.",
    "families_hsa": "Questions of the harness-aware examples by family, and how many under a changed harness.",
    "axes": "Examples by axis of augmentation, decoys apart.",
    "surfaces": "Names, words and descriptions that augmentation shows beyond the merchant's own.",
    "budget": "Tokens of each arm, and how far they are from the baseline's.",
    "general_prompts": "Prompts of distillation (train) and of the general metric (test).",
    "constraints": "General prompts by kind of constraint.",
}

_REMOTE_LOGO = re.compile(r"https://great-expectations-web-assets\.[^\"')\s]+")
_REMOTE_TAGS = re.compile(
    r"<script[^>]*\bsrc=\"(?:https?:)?//[^>]*>\s*</script>|<link[^>]*\bhref=\"(?:https?:)?//[^>]*>", re.IGNORECASE
)
_LOGO = Path("static") / "images" / "logo-long.png"
_STYLE = """<style>
body { margin:0 auto; max-width:1100px; padding:12px 24px 60px; color:#0f172a; font:14px/1.5 system-ui,sans-serif; }
nav.navbar { height:auto !important; } nav ol { list-style:none; padding:0; }
nav ol li { display:inline; margin-right:8px; }
table { border-collapse:collapse; margin:4px 0 14px; } th { text-align:left; color:#64748b; font-size:12px; }
td, th { border-bottom:1px solid #e2e8f0; padding:4px 12px 4px 0; vertical-align:top; }
.fas { font-style:normal; font-weight:600; } .text-success { color:#0f7b4f; } .text-danger { color:#b3261e; }
.fa-check-circle::before { content:"passed"; } .fa-times::before { content:"failed"; }
.fa-exclamation-triangle::before { content:"not evaluated"; }
.h5, .h6, h5 { font-weight:650; font-size:15px; }
/* What needs the scripts: filters, pop-ups, the list of contents, the vendor's newsletter. */
footer, .navbar-toggler, .btn, .modal, .cooltip .top, .btn-group-toggle, #navigation,
.ge-navigation-sidebar-content { display:none !important; }
</style>
</head>"""


def make_offline(docs: Path, outcome: Outcome, frames: Mapping[str, pd.DataFrame]) -> None:
    """Replace `docs`/index.html by a page of all suites with their checks and the distribution of `frames`, and let
    every other page work without the internet."""
    for page in docs.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        local = os.path.relpath(docs / _LOGO, page.parent)
        text = _REMOTE_TAGS.sub("", _REMOTE_LOGO.sub(lambda _, local=local: local, text))
        page.write_text(text.replace("</head>", _STYLE, 1), encoding="utf-8")
    rendered = render_page(
        Path(__file__).with_name("docs.jinja"),
        suites=[_suite(docs, name, frame, outcome) for name, frame in frames.items()],
        checks=outcome.expectations,
        failures=outcome.failures,
        critical=outcome.critical,
    )
    (docs / "index.html").write_text(rendered, encoding="utf-8")


def _suite(docs: Path, name: str, frame: pd.DataFrame, outcome: Outcome) -> dict[str, Any]:
    checks = [check for check in outcome.checks if check.suite == name]
    pages = sorted((docs / "validations" / name).rglob("*.html"))
    return {
        "name": name,
        "about": ABOUT.get(name, ""),
        "rows": len(frame),
        "verdict": _verdict(checks),
        "checks": sorted(checks, key=lambda check: (check.passed, check.severity != "critical")),
        "page": pages[-1].relative_to(docs).as_posix() if pages else None,
        "table": _whole(frame) if len(frame) <= WHOLE else _by_column(frame),
    }


def _verdict(checks: list[Check]) -> str:
    broken = [check for check in checks if not check.passed]
    return "failed" if any(check.severity == "critical" for check in broken) else "warning" if broken else "passed"


def _whole(frame: pd.DataFrame) -> dict[str, Any]:
    """Every row."""
    columns = [str(column) for column in frame.columns]
    longest = max(map(float, frame["share"]), default=0.0) if "share" in columns else 0.0
    rows = [
        [_cell(column, value, longest) for column, value in zip(columns, row, strict=True)] for row in frame.to_numpy()
    ]
    return {"columns": columns, "rows": rows}


def _by_column(frame: pd.DataFrame) -> dict[str, Any]:
    """Columns of numbers: lowest, median, mean, highest; columns of a few different texts: how many of each."""
    rows: list[list[dict[str, Any]]] = []
    for column in frame.columns:
        values = frame[column]
        if pd.api.types.is_numeric_dtype(values):
            found = f"{values.min():.4g} to {values.max():.4g}, median {values.median():.4g}, mean {values.mean():.4g}"
        elif (different := values.nunique()) <= 20:
            found = ", ".join(f"{value} {n}" for value, n in values.value_counts().items())
        else:
            found = f"{different} different, for example {str(values.iloc[0])[:60]}"
        rows.append([_cell("column", column), _cell("found", found)])
    return {"columns": ["column", "found"], "rows": rows}


def _cell(column: str, value: Any, longest: float = 0.0) -> dict[str, Any]:
    """`bar` in [0, 1]: a share against the longest of its column."""
    if column == "share":
        return {"text": f"{value:.1%}", "bar": value / longest if longest else 0.0}
    return {"text": (f"{value:.4g}" if isinstance(value, float) else str(value))[:CELL_SHOWN], "bar": None}
