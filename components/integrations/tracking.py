"""MLflow tracking: one parent run for a pipeline run, a child run for each step.

Everything goes through a client with an explicit URI and explicit run ids: steps are processes of their own, and a
global "active run" would belong to none of them.
"""

import json
import logging
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when mlflow is imported
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "4")  # the default, 7, waits minutes for a dead server
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")  # seconds; the default is 120

from google.protobuf.json_format import ParseError
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Param, Run, RunTag
from mlflow.entities import Metric as MlflowMetric
from mlflow.exceptions import MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID
from requests import RequestException
from sqlalchemy.exc import SQLAlchemyError

from components.avatar.errors import SystemFault
from components.integrations.metrics import Metric

for _name in ("mlflow.store.db.utils", "alembic"):  # table creation is no news for the people who read a step's output
    logging.getLogger(_name).setLevel(logging.WARNING)

SQLITE = "sqlite:///"
_METRICS_A_REQUEST = 1000  # MLflow's MAX_METRICS_PER_BATCH
_PARAMS_A_REQUEST = 100  # MLflow's MAX_PARAMS_TAGS_PER_BATCH
_USER_AND_PASSWORD = re.compile(r"//[^/@\s]+@")
_DIGEST_LENGTH = 36  # MLflow's MAX_DATASET_DIGEST_SIZE


class Tracking:
    """An experiment of a tracking server (`http://...`) or of an embedded database (`sqlite:////folder/mlflow.db`).

    With sqlite the artifacts lie in `artifacts/` beside the database. Raises SystemFault when the server cannot be
    reached.
    """

    def __init__(self, uri: str, experiment: str) -> None:
        self.uri = uri
        self.folder = Path(uri.removeprefix(SQLITE)).absolute().parent if uri.startswith(SQLITE) else None
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
        with server_faults(uri):
            self.client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            self.experiment_id = self._experiment(experiment)

    def start_pipeline_run(
        self,
        name: str,
        *,
        tags: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        run_id: str | None = None,
    ) -> str:
        """Start the parent run and return its id; `run_id` takes over a run that somebody else started (Kubeflow's
        plugin).
        """
        with server_faults(self.uri):
            if run_id is None:
                run_id = self.client.create_run(self.experiment_id, run_name=name).info.run_id
                confirm(self.uri, bool(run_id), "a run without an id")
            run = StepRun(self, run_id)
            run.log_tags(tags or {})
            run.log_params(params or {})
            return run_id

    def end_pipeline_run(self, run_id: str, status: Literal["FINISHED", "FAILED", "KILLED"]) -> None:
        with server_faults(self.uri):
            self.client.set_terminated(run_id, status)
            self._ended(run_id, status)

    @contextmanager
    def step_run(
        self, parent_id: str | None, step: str, *, tags: Mapping[str, str] | None = None, system_metrics: bool = False
    ) -> Iterator["StepRun"]:
        """A child run of `parent_id` for the time of the block; it ends FINISHED, FAILED with tag `error`, or KILLED.

        Other runs of the same step that are still RUNNING under the same parent are ended: a killed process left them,
        or a request whose answer was lost and that was sent again. `system_metrics` samples CPU, memory and GPU every
        10 seconds.
        """
        parent = {MLFLOW_PARENT_RUN_ID: parent_id} if parent_id else {}
        with server_faults(self.uri):
            created = self.client.create_run(
                self.experiment_id, run_name=step, tags={"step": step, **parent, **(tags or {})}
            )
            confirm(self.uri, bool(created.info.run_id), "a run without an id")
            for other in self._running(parent_id, step) if parent_id else ():
                if other.info.run_id != created.info.run_id:
                    self.client.set_terminated(other.info.run_id, "KILLED")
        run = StepRun(self, created.info.run_id)
        monitor = SystemMetricsMonitor(run.run_id, tracking_uri=self.uri) if system_metrics else None
        if monitor:
            monitor.start()
        try:
            yield run
        except BaseException as error:
            status = "FAILED" if isinstance(error, Exception) else "KILLED"
            self._end(run.run_id, status, f"{type(error).__name__}: {error}")
            raise
        else:
            with server_faults(self.uri):
                self.client.set_terminated(run.run_id, "FINISHED")
                self._ended(run.run_id, "FINISHED", run)
        finally:
            if monitor:
                monitor.finish()

    def _ended(self, run_id: str, status: str, run: "StepRun | None" = None) -> None:
        """Read back that a run has ended with all that was written to it: an answer of HTTP 200 may be somebody else's
        page, and then nothing was.
        """
        found = self.client.get_run(run_id)
        confirm(self.uri, found.info.run_id == run_id, f"run {found.info.run_id!r}")
        confirm(self.uri, found.info.status == status, f"run {run_id} as {found.info.status} after it was ended")
        if run is None:
            return
        there = {*found.data.metrics, *found.data.params, *found.data.tags}
        there |= {given.dataset.name for given in found.inputs.dataset_inputs} if found.inputs else set()
        there |= {file.path for file in self.client.list_artifacts(run_id)} if run.files else set()
        lost = sorted((run.written | run.files) - there)
        confirm(self.uri, not lost, f"run {run_id} without {', '.join(lost[:5])} that were written to it")

    def _experiment(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            confirm(self.uri, found.name == name and bool(found.experiment_id), f"experiment {found.name!r}")
            return found.experiment_id
        place = (self.folder / "artifacts").as_uri() if self.folder else None  # a server decides for itself
        try:
            made = self.client.create_experiment(name, artifact_location=place)
        except MlflowException:
            found = self.client.get_experiment_by_name(name)  # another process was faster
            if found is None:
                raise
            made = found.experiment_id
        confirm(self.uri, bool(made), "an experiment without an id")
        return made

    def _running(self, parent_id: str, step: str) -> Sequence[Run]:
        condition = (
            f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{parent_id}' and tags.step = '{step}' and attributes.status = 'RUNNING'"
        )
        return self.client.search_runs([self.experiment_id], condition)

    def _end(self, run_id: str, status: str, error: str) -> None:
        """End a run whose step failed; a server that is down as well must not hide the step's own error."""
        try:
            self.client.set_tag(run_id, "error", error[:5000])
            self.client.set_terminated(run_id, status)
        except SERVER_ERRORS:
            logging.getLogger(__name__).warning("could not mark run %s as %s at %s", run_id, status, self.uri)


class StepRun:
    """One MLflow run that is being written; `written` are the names of its metrics, parameters, tags and datasets so
    far, `files` its artifacts at the top.
    """

    def __init__(self, tracking: Tracking, run_id: str) -> None:
        self.run_id = run_id
        self.experiment_id = tracking.experiment_id
        self.uri = tracking.uri
        self.client = tracking.client
        self.written: set[str] = set()
        self.files: set[str] = set()

    def log_tags(self, tags: Mapping[str, str]) -> None:
        if not tags:
            return
        with server_faults(self.uri):
            self.client.log_batch(self.run_id, tags=[RunTag(k, str(v)) for k, v in tags.items()])
        self.written |= tags.keys()

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Nested settings become dotted names."""
        rows = [Param(name, str(value)) for name, value in _flat(params)]
        with server_faults(self.uri):
            for start in range(0, len(rows), _PARAMS_A_REQUEST):
                self.client.log_batch(self.run_id, params=rows[start : start + _PARAMS_A_REQUEST])
        self.written |= {row.key for row in rows}

    def log_metrics(self, metrics: Mapping[str, Metric], step: int = 0) -> None:
        """Each metric as `<name>` with its number of cases as `<name>.n`; an unmeasured value (NaN) leaves only the
        latter.
        """
        now = now_ms()
        rows = [MlflowMetric(f"{name}.n", m.n, now, step) for name, m in metrics.items()]
        rows += [MlflowMetric(name, m.value, now, step) for name, m in metrics.items() if math.isfinite(m.value)]
        self._log(rows)

    def log_curves(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of a curves.jsonl: every number of a row at its `step` (its place in the file when it has none)."""
        now = now_ms()
        self._log(
            [
                MlflowMetric(name, float(value), now, int(row.get("step", place)))
                for place, row in enumerate(rows)
                for name, value in row.items()
                if name != "step"
                and isinstance(value, int | float)
                and not isinstance(value, bool)
                and math.isfinite(value)
            ]
        )

    def log_artifacts(self, path: Path, artifact_path: str | None = None) -> None:
        """Upload a file or a folder. Weights do not belong here: see storage.py."""
        with server_faults(self.uri):
            if path.is_dir():
                self.client.log_artifacts(self.run_id, str(path), artifact_path)
            else:
                self.client.log_artifact(self.run_id, str(path), artifact_path)
        if artifact_path:
            self.files.add(artifact_path.split("/")[0])
        elif path.is_file():
            self.files.add(path.name)

    def log_dataset(self, name: str, digest: str, source: str, context: str = "training") -> None:
        """Record which data the run read: `digest` of its content, `source` a path or URI, `context` training,
        evaluation, ...
        """
        kind = "uri" if "://" in source else "local"
        dataset = Dataset(name, digest[:_DIGEST_LENGTH], source_type=kind, source=json.dumps({"uri": source}))
        with server_faults(self.uri):
            self.client.log_inputs(self.run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", context)])])
        self.written.add(name)

    def log_table(self, rows: Sequence[Mapping[str, Any]], name: str) -> None:
        """Rows (failed cases) as a table of the run, to sort and compare in the UI; no rows leave no table."""
        if not rows:
            return
        columns = {key: None for row in rows for key in row}
        with server_faults(self.uri):
            data = {column: [row.get(column) for row in rows] for column in columns}
            self.client.log_table(self.run_id, data=data, artifact_file=f"{name}.json")
        self.files.add(f"{name}.json")

    def _log(self, rows: list[MlflowMetric]) -> None:
        with server_faults(self.uri):
            for start in range(0, len(rows), _METRICS_A_REQUEST):
                self.client.log_batch(self.run_id, metrics=rows[start : start + _METRICS_A_REQUEST])
        self.written |= {row.key for row in rows}


SERVER_ERRORS = (MlflowException, SQLAlchemyError, RequestException, ParseError, json.JSONDecodeError)
"""What a failing server, its database or an answer that nobody can read raise out of MLflow's client."""


@contextmanager
def server_faults(uri: str) -> Iterator[None]:
    """A failure of MLflow or its database as a SystemFault that names the server, with user and password cut from
    every URL.
    """
    try:
        yield
    except SERVER_ERRORS as error:
        # Without the cause: its message, which a traceback would print, still holds the password.
        raise SystemFault(_USER_AND_PASSWORD.sub("//", f"MLflow at {uri}: {error}")) from None
    except FileNotFoundError as error:
        confirm(uri, error.filename != "", "no place for artifacts")  # an empty answer to MLflow's own question for it
        raise


def confirm(uri: str, holds: bool, found: str) -> None:
    """Raise a SystemFault about what was `found` unless the answer is about what was asked.

    MLflow's client makes empty objects of an empty answer, so that a server which is not one goes unnoticed.
    """
    if not holds:
        raise SystemFault(_USER_AND_PASSWORD.sub("//", f"MLflow at {uri} gave an answer that makes no sense: {found}"))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def now_ms() -> int:
    """Now, as MLflow counts it: milliseconds since 1970."""
    return int(time.time() * 1000)
