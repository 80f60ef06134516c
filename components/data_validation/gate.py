"""Great Expectations behind one function: frames and suites in, failures and Data Docs out.

A fresh file context each run: Data Docs are rebuilt over every stored result, so an old context only gets slower.
"""

import io
import os
import shutil
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

os.environ["GX_ANALYTICS_ENABLED"] = (
    "false"  # read when great_expectations is imported; it would post usage to the internet
)

import great_expectations as gx
import pandas as pd
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation import Expectation

SITE = "local_site"
SHOWN = 5  # rows named in a failure


@dataclass(frozen=True)
class Check:
    """One evaluated expectation: what it demands and what was found, both for a person."""

    suite: str
    check: str
    severity: Literal["critical", "warning", "info"]
    demand: str
    found: str
    passed: bool

    @property
    def name(self) -> str:
        return f"{self.suite}.{self.check}"

    @property
    def why(self) -> str:
        return f"{self.demand}; found {self.found}"


@dataclass(frozen=True)
class Outcome:
    """Everything that was evaluated, suite by suite."""

    checks: tuple[Check, ...]

    @property
    def expectations(self) -> int:
        return len(self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """What the data broke, critical ones first."""
        broken = [check for check in self.checks if not check.passed]
        return tuple(sorted(broken, key=lambda check: (check.severity != "critical", check.name)))

    @property
    def critical(self) -> tuple[Check, ...]:
        return tuple(check for check in self.failures if check.severity == "critical")


def validate(tables: Mapping[str, tuple[pd.DataFrame, list[Expectation]]], project: Path, docs: Path) -> Outcome:
    """Validate each table against its expectations; writes the GX project (`project`/gx), whose `build_docs` writes to
    `docs`.

    Every frame has a column `id` that names its rows. Every expectation carries `meta={"name": ...}` and `notes` (what
    it demands, for a person). Both folders are replaced.
    """
    for folder in (project / "gx", docs):
        shutil.rmtree(folder, ignore_errors=True)
    project.mkdir(parents=True, exist_ok=True)
    with redirect_stdout(io.StringIO()):
        context = _context(project, docs)
    source = context.data_sources.add_or_update_pandas("training_data")
    checks: list[Check] = []
    for name, (frame, expectations) in tables.items():
        batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("all")
        suite = context.suites.add_or_update(gx.ExpectationSuite(name=name, expectations=expectations))
        definition = gx.ValidationDefinition(name=name, data=batch, suite=suite)
        definition = context.validation_definitions.add_or_update(definition)
        # No UpdateDataDocsAction: it rebuilds the index at every checkpoint; `build_docs` builds the site once.
        checkpoint = gx.Checkpoint(
            name=name,
            validation_definitions=[definition],
            result_format={"result_format": "SUMMARY", "unexpected_index_column_names": ["id"]},
        )
        result = context.checkpoints.add_or_update(checkpoint).run(batch_parameters={"dataframe": frame})
        checks += [_check(name, row) for run in result.run_results.values() for row in run.results]
    return Outcome(tuple(checks))


def build_docs(project: Path) -> None:
    """Data Docs of everything that `validate` found in `project`, into the folder that it was given."""
    with redirect_stdout(io.StringIO()):  # GX prints its data sources when it reads a project
        gx.get_context(mode="file", project_root_dir=str(project)).build_data_docs(site_names=[SITE])


def _context(project: Path, docs: Path) -> Any:
    context = gx.get_context(mode="file", project_root_dir=str(project))
    context.variables.analytics_enabled = False
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.update_data_docs_site(
        SITE,
        {
            "class_name": "SiteBuilder",
            "store_backend": {
                "class_name": "TupleFilesystemStoreBackend",
                # Relative to gx/, so that the folder may be moved or uploaded as a whole.
                "base_directory": os.path.relpath(docs.resolve(), (project / "gx").resolve()),
            },
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        },
    )
    return context


def _check(suite: str, row: Any) -> Check:
    config = row.expectation_config
    severity = str(config.severity.value if hasattr(config.severity, "value") else config.severity)
    raised = [info["exception_message"] for info in _exceptions(row.exception_info) if info.get("raised_exception")]
    found = f"could not be evaluated: {raised[0]}" if raised else _found(row.result)
    return Check(suite, config.meta["name"], severity, str(config.notes), found, bool(row.success))  # type: ignore[arg-type]


def _exceptions(info: dict[str, Any] | None) -> list[dict[str, Any]]:
    """GX gives one record, or one for each metric."""
    if not info:
        return []
    return [info] if "raised_exception" in info else [record for record in info.values() if isinstance(record, dict)]


def _found(result: dict[str, Any]) -> str:
    if result.get("partial_missing_list"):
        return f"{result['missing_count']} missing: {', '.join(map(str, result['partial_missing_list']))}"
    if result.get("unexpected_count"):
        rows = result.get("partial_unexpected_index_list") or []
        examples = ", ".join(
            " = ".join(str(row[name]) for name in sorted(row, key=lambda name: name != "id")) for row in rows[:SHOWN]
        )
        return f"{result['unexpected_count']} of {result['element_count']} rows: {examples}"
    if result.get("unexpected_list"):
        return ", ".join(map(str, result["unexpected_list"][:5]))
    observed = result.get("observed_value")
    if observed is None:
        return f"{result.get('element_count', 0)} rows, none against it"
    return f"{observed:.4g}" if isinstance(observed, float) else str(observed)
