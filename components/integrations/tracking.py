"""MLflow tracking: one parent run for a pipeline run, a child run for each step.

Everything goes through a client with an explicit URI and explicit run ids: steps are processes of their own, and a
global "active run" would belong to none of them.
"""

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

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Param, Run, RunTag
from mlflow.entities import Metric as MlflowMetric
from mlflow.exceptions import MlflowException
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID
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
            run = StepRun(self, run_id)
            run.log_tags(tags or {})
            run.log_params(params or {})
            return run_id

    def end_pipeline_run(self, run_id: str, status: Literal["FINISHED", "FAILED", "KILLED"]) -> None:
        with server_faults(self.uri):
            self.client.set_terminated(run_id, status)

    @contextmanager
    def step_run(
        self, parent_id: str | None, step: str, *, tags: Mapping[str, str] | None = None, system_metrics: bool = False
    ) -> Iterator["StepRun"]:
        """A child run of `parent_id` for the time of the block; it ends FINISHED, FAILED with tag `error`, or KILLED.

        Runs of the same step that a killed process left RUNNING under the same parent are ended first.
        `system_metrics` samples CPU, memory and GPU every 10 seconds.
        """
        parent = {MLFLOW_PARENT_RUN_ID: parent_id} if parent_id else {}
        with server_faults(self.uri):
            if parent_id:
                for stale in self._running(parent_id, step):
                    self.client.set_terminated(stale.info.run_id, "KILLED")
            created = self.client.create_run(
                self.experiment_id, run_name=step, tags={"step": step, **parent, **(tags or {})}
            )
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
        finally:
            if monitor:
                monitor.finish()

    def _experiment(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            return found.experiment_id
        place = (self.folder / "artifacts").as_uri() if self.folder else None  # a server decides for itself
        try:
            return self.client.create_experiment(name, artifact_location=place)
        except MlflowException:
            found = self.client.get_experiment_by_name(name)  # another process was faster
            if found is None:
                raise
            return found.experiment_id

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
        except (MlflowException, SQLAlchemyError):
            logging.getLogger(__name__).warning("could not mark run %s as %s at %s", run_id, status, self.uri)


class StepRun:
    """One MLflow run that is being written."""

    def __init__(self, tracking: Tracking, run_id: str) -> None:
        self.run_id = run_id
        self._uri = tracking.uri
        self._client = tracking.client

    def log_tags(self, tags: Mapping[str, str]) -> None:
        with server_faults(self._uri):
            self._client.log_batch(self.run_id, tags=[RunTag(k, str(v)) for k, v in tags.items()])

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Nested settings become dotted names."""
        rows = [Param(name, str(value)) for name, value in _flat(params)]
        with server_faults(self._uri):
            for start in range(0, len(rows), _PARAMS_A_REQUEST):
                self._client.log_batch(self.run_id, params=rows[start : start + _PARAMS_A_REQUEST])

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
        with server_faults(self._uri):
            if path.is_dir():
                self._client.log_artifacts(self.run_id, str(path), artifact_path)
            else:
                self._client.log_artifact(self.run_id, str(path), artifact_path)

    def log_dataset(self, name: str, digest: str, source: str, context: str = "training") -> None:
        """Record which data the run read: `digest` of its content, `source` a path or URI, `context` training,
        evaluation, ...
        """
        dataset = Dataset(
            name, digest[:_DIGEST_LENGTH], source_type="local" if "://" not in source else "uri", source=source
        )
        with server_faults(self._uri):
            self._client.log_inputs(self.run_id, [DatasetInput(dataset, [InputTag("mlflow.data.context", context)])])

    def log_table(self, rows: Sequence[Mapping[str, Any]], name: str) -> None:
        """Rows (failed cases) as a table of the run, to sort and compare in the UI; no rows leave no table."""
        if not rows:
            return
        columns = {key: None for row in rows for key in row}
        with server_faults(self._uri):
            data = {column: [row.get(column) for row in rows] for column in columns}
            self._client.log_table(self.run_id, data=data, artifact_file=f"{name}.json")

    def _log(self, rows: list[MlflowMetric]) -> None:
        with server_faults(self._uri):
            for start in range(0, len(rows), _METRICS_A_REQUEST):
                self._client.log_batch(self.run_id, metrics=rows[start : start + _METRICS_A_REQUEST])


@contextmanager
def server_faults(uri: str) -> Iterator[None]:
    """A failure of MLflow or its database as a SystemFault that names the server, with user and password cut from
    every URL.
    """
    try:
        yield
    except (MlflowException, SQLAlchemyError) as error:
        # Without the cause: its message, which a traceback would print, still holds the password.
        raise SystemFault(_USER_AND_PASSWORD.sub("//", f"MLflow at {uri}: {error}")) from None


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def now_ms() -> int:
    """Now, as MLflow counts it: milliseconds since 1970."""
    return int(time.time() * 1000)
