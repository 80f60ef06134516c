"""The registry as the promotion controller reads and marks it.

A reply of HTTP 200 may be empty or somebody else's page, and MLflow's client makes empty objects of it, in which no
version has an alias. So every reply is checked to be about what was asked, and every write is read back: what is not
confirmed is a SystemFault, and the controller tries again at its next look.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.json_format import ParseError
from mlflow.entities import LifecycleStage, LoggedModelInput, Run
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST, ErrorCode
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID
from requests import RequestException

from components.avatar.errors import SystemFault
from components.canary_deploy.reconciler import ACKNOWLEDGE, FROZEN, ROLLOUT, STATE, Seen, Version
from components.canary_deploy.webhook import EVENTS
from components.integrations.metrics import Metric, read_json
from components.integrations.registry import MODEL_NAME
from components.integrations.tracking import StepRun, Tracking, server_faults

REGISTRATION = "registration.json"
JUDGED = "gates_passed"  # metric of a run in which registration has ended; registration.json follows it
STEP = "canary_deploy"
T = TypeVar("T")
_NO_SUCH = ErrorCode.Name(RESOURCE_DOES_NOT_EXIST)


class PromotionRegistry:
    """Registered model `name` at a tracking server or an embedded database. Every method raises SystemFault."""

    def __init__(self, tracking: Tracking, name: str = MODEL_NAME) -> None:
        self.tracking, self.client, self.name = tracking, tracking.client, name

    def look(self) -> Seen:
        """Who bears `champion` and `canary` now: both aliases are of one moment."""
        with self._answers():
            model = self._unless_gone(lambda: self.client.get_registered_model(self.name))
            if model is None:
                return Seen()
            self._expect(model.name == self.name, f"registered model {model.name!r}")
            found = {alias: str(number) for alias, number in dict(model.aliases).items()}
            champion, canary = (self._version(found.get(alias)) for alias in ("champion", "canary"))
            return Seen(champion, canary, dict(model.tags))

    def _version(self, number: str | None) -> Version | None:
        if number is None:
            return None
        found: ModelVersion = self.client.get_model_version(self.name, number)
        self._expect((found.name, str(found.version)) == (self.name, number), f"version {found.version!r}")
        tags = dict(found.tags)
        model_id = found.model_id or tags.get("model_id", "")  # over REST MLflow tells it as a tag
        return Version(number, found.status, found.run_id or "", model_id, tags)

    def mark(self, number: str, tags: Mapping[str, str]) -> None:
        """Give a version `tags`; "" deletes one. Its state comes last: who sees that a rollout has ended finds how. A
        version that was deleted meanwhile has no reader: nothing is done."""
        with self._answers():
            found = self._unless_gone(lambda: self._version(number))
            if found is None:
                return
            for key, value in sorted(tags.items(), key=lambda tag: tag[0] == STATE):
                if value:
                    self.client.set_model_version_tag(self.name, number, key, value)
                elif key in found.tags:
                    self.client.delete_model_version_tag(self.name, number, key)
            found = self._version(number)
            now = {key: found.tags.get(key, "") if found else "" for key in tags}
            self._expect(now == dict(tags), f"tags {now} of version {number} after they were set to {dict(tags)}")

    def say_frozen(self, champion: str, run_id: str, why: str) -> None:
        """Write `why` on version `champion`, on the run and (last) on the registered model; "" takes it away."""
        with self._answers():
            versions = {
                str(v.version): dict(v.tags) for v in self.client.search_model_versions(f"name = '{self.name}'")
            }
            self._expect(not champion or champion in versions, f"versions {sorted(versions)}")
            for number, tags in versions.items():
                wanted = why if number == champion else ""
                if tags.get(FROZEN, "") != wanted:
                    self.mark(number, {FROZEN: wanted})
            self._mark_run(run_id, why)
            tags = self.look().tags
            if not why and ACKNOWLEDGE in tags:
                self.client.delete_registered_model_tag(self.name, ACKNOWLEDGE)
            if why:
                self.client.set_registered_model_tag(self.name, FROZEN, why)
            elif FROZEN in tags:
                self.client.delete_registered_model_tag(self.name, FROZEN)
            self._expect(self.look().tags.get(FROZEN, "") == why, "another freeze than the one written")

    def _mark_run(self, run_id: str, why: str) -> None:
        run = self._open_run(run_id)
        if run is None:
            return
        if why:
            self.client.set_tag(run_id, FROZEN, why)
        elif FROZEN in run.data.tags:
            self.client.delete_tag(run_id, FROZEN)
        run = self._open_run(run_id)
        self._expect(run is None or run.data.tags.get(FROZEN, "") == why, f"another freeze on run {run_id}")

    def move_champion(self, number: str) -> None:
        """Give `champion` to a version: one write, then read back."""
        with self._answers():
            self.client.set_registered_model_alias(self.name, "champion", number)
        champion = self.look().champion
        with self._answers():
            self._expect(champion is not None and champion.number == number, "champion elsewhere than it was moved to")

    def failed_gates(self, version: Version) -> list[str]:
        """What speaks against a version in the registration that made it: failed gates with their reasons, or that
        there was none for it. Empty: all its gates passed.
        """
        if not version.run_id:
            return ["it was not registered by a pipeline run, so no gate judged it"]
        with self._answers(), tempfile.TemporaryDirectory() as scratch:
            run = self._open_run(version.run_id)
            if run is None or JUDGED not in run.data.metrics:
                return [f"no registration has ended in run {version.run_id}, so no gate is known to have judged it"]
            files = [file.path for file in self.client.list_artifacts(version.run_id)]
            self._expect(REGISTRATION in files, f"no {REGISTRATION} in run {version.run_id}, which has judged gates")
            report = read_json(Path(self.client.download_artifacts(version.run_id, REGISTRATION, scratch)))
        if not isinstance(report, dict) or str(report.get("model_version")) != version.number:
            return [f"the gates of run {version.run_id} judged another version than this one"]
        gates: dict[str, Any] = report.get("gates") or {}
        failed = [f"gate {name} failed: {gate.get('why')}" for name, gate in gates.items() if not gate.get("passed")]
        return failed if gates else [f"{REGISTRATION} of run {version.run_id} has no gates"]

    def open_run(self, rollout: str, version: Version, tags: Mapping[str, str], params: Mapping[str, Any]) -> str:
        """The MLflow run of a rollout, made if there is none yet: a child of the pipeline run that trained the
        version, with the version's logged model as its input. Returns its id.
        """
        with self._answers():
            condition = f"tags.`{ROLLOUT}` = '{rollout}'"
            found = self.client.search_runs([self.tracking.experiment_id], condition, max_results=1)
            if found:
                return found[0].info.run_id
            parent = version.tags.get("pipeline_run", "")
            all_tags = {"step": STEP, ROLLOUT: rollout, **tags} | ({MLFLOW_PARENT_RUN_ID: parent} if parent else {})
            run = self.client.create_run(
                self.tracking.experiment_id, run_name=f"canary-v{version.number}", tags=all_tags
            )
            self._expect(bool(run.info.run_id), "a run without an id")
            log = StepRun(self.tracking, run.info.run_id)
            log.log_params(params)
            if version.model_id:
                self.client.log_inputs(run.info.run_id, models=[LoggedModelInput(version.model_id)])
            return run.info.run_id

    def close_run(
        self, run_id: str, tags: Mapping[str, str], metrics: Mapping[str, Metric], files: list[Path], failed: bool
    ) -> None:
        """Write the outcome of a rollout on its run and end it. May be repeated. Nothing if the run was deleted."""
        with self._answers():
            if self._open_run(run_id) is None:
                return
            run = StepRun(self.tracking, run_id)
            run.log_metrics(metrics)
            for file in files:
                run.log_artifacts(file)
            told = {key: value for key, value in tags.items() if value}
            run.log_tags(told)
            wanted = "FAILED" if failed else "FINISHED"
            self.client.set_terminated(run_id, wanted)
            found = self.client.get_run(run_id)
            self._expect(found.info.status == wanted, f"run {run_id} as {found.info.status!r} after it was ended")
            self._expect(told.items() <= found.data.tags.items(), f"run {run_id} without the tags just written")

    def subscribe(self, url: str, secret: str) -> str:
        """Register `url` for the alias events, or renew the secret of the webhook that has it; returns its id."""
        with self._answers():
            token: str | None = None
            while True:
                page = self.client.list_webhooks(page_token=token)
                for webhook in page:
                    if webhook.url == url:
                        self.client.update_webhook(
                            webhook.webhook_id, events=list(EVENTS), secret=secret, status="ACTIVE"
                        )
                        return webhook.webhook_id
                token = page.token
                if not token:
                    break
            made = self.client.create_webhook("promotion", url, list(EVENTS), secret=secret)
            self._expect(bool(made.webhook_id), "a webhook without an id")
            return made.webhook_id

    def _open_run(self, run_id: str) -> Run | None:
        """A run that can be written to; None when a person has deleted it."""
        run = self._unless_gone(lambda: self.client.get_run(run_id)) if run_id else None
        if run is None or run.info.lifecycle_stage == LifecycleStage.DELETED:
            return None
        self._expect(run.info.run_id == run_id, f"run {run.info.run_id!r}")
        return run

    @staticmethod
    def _unless_gone(read: Callable[[], T]) -> T | None:
        try:
            return read()
        except MlflowException as error:
            if error.error_code == _NO_SUCH:
                return None
            raise

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """MLflow's own errors, and replies that its client cannot read, as SystemFault."""
        uri = self.tracking.uri
        try:
            with server_faults(uri):
                yield
        except (ValueError, ParseError, RequestException, OSError, AttributeError, TypeError) as error:
            raise SystemFault(f"MLflow at {uri} gave an answer that makes no sense: {type(error).__name__}") from error

    def _expect(self, holds: bool, found: str) -> None:
        if not holds:
            raise SystemFault(f"MLflow at {self.tracking.uri} gave an answer that makes no sense: {found}")
