"""The MLflow model registry: versions of `avatar-agent` and the aliases that say what each is for.

Weights lie in the store (storage.py); MLflow holds the manifest, the small files (config, tokenizer, template) and
the tags. A version's tags tell where it came from and what exactly it serves, and are given when it is created, so no
reader meets a version without them.

All changes of one registration happen inside `Registry.changes()`: either all of them stay or, after any failure, none.
A version comes to be in one request, with all its tags, when its logged model is whole; what was written is read back.
MLflow's client sends a request again whose answer was lost: what came to be twice is taken away.
"""

import logging
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import mlflow
from mlflow.entities import Metric as MlflowMetric
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
    ErrorCode,
)
from mlflow.tracing.client import TracingClient
from mlflow.tracing.constant import TraceMetadataKey

from components.avatar.errors import SystemFault
from components.integrations.lineage import MODEL_ID, Lineage, version_description
from components.integrations.metrics import Metric, write_json
from components.integrations.mlmodel import write_mlmodel
from components.integrations.objects import MIB, S3Settings
from components.integrations.release import Release
from components.integrations.storage import Manifest, Store, fetch
from components.integrations.tracking import Tracking, confirm, now_ms, server_faults

MODEL_NAME = "avatar-agent"
MANIFEST_FILE = "manifest.json"
Alias = Literal["champion", "challenger", "canary"]

ATTEMPT = "registration_attempt"  # tag of a logged model: tells those of one call apart from all others
_TRACES = 100  # of one arm that are shown with its version

_ABSENT = {ErrorCode.Name(INVALID_PARAMETER_VALUE), ErrorCode.Name(RESOURCE_DOES_NOT_EXIST)}


@dataclass(frozen=True)
class Registered:
    """A version of `avatar-agent`. `uri` is the stored tree (storage.fetch loads it), `model_digest` the digest of
    that tree.
    """

    version: str
    arm: str
    uri: str
    model_digest: str
    release_digest: str
    tags: dict[str, str]


class Registry:
    """Reads `avatar-agent` and opens changes to it; files larger than `inline_limit_bytes` stay out of MLflow."""

    def __init__(
        self,
        tracking: Tracking,
        store_uri: str,
        *,
        s3: S3Settings | None = None,
        name: str = MODEL_NAME,
        inline_limit_bytes: int = 8 * MIB,
    ) -> None:
        self.tracking = tracking
        self.client = tracking.client
        self.store = Store(store_uri, s3)
        self.name = name
        self.inline_limit_bytes = inline_limit_bytes
        self._s3 = s3

    def champion(self) -> Registered | None:
        return self.by_alias("champion")

    def challenger(self) -> Registered | None:
        return self.by_alias("challenger")

    def by_alias(self, alias: Alias) -> Registered | None:
        """The version that bears `alias`, None when no version does."""
        with server_faults(self.tracking.uri):
            try:
                found = self.client.get_model_version_by_alias(self.name, alias)
            except MlflowException as error:
                if error.error_code in _ABSENT:  # no such model, or no such alias
                    return None
                raise
            confirm(self.tracking.uri, found.name == self.name, f"model {found.name!r}")
            return _registered(found)

    def versions(self) -> list[Registered]:
        """All versions, oldest first."""
        with server_faults(self.tracking.uri):
            found = self.client.search_model_versions(f"name = '{self.name}'")
        return sorted((_registered(v) for v in found), key=lambda v: int(v.version))

    def fetch(self, registered: Registered, target: Path) -> Path:
        """Fetch the model folder of a version to `target`; every file's digest is verified."""
        return fetch(registered.uri, target, self._s3)

    def link_traces(self, registered: Registered, run_id: str) -> int:
        """Show the traces that evaluation run `run_id` kept of a version's arm with its logged model, and say its
        number on them; returns how many there are. May be repeated.
        """
        with server_faults(self.tracking.uri):
            traces = self.client.search_traces(
                locations=[self.tracking.experiment_id],
                run_id=run_id,
                filter_string=f"tags.arm = '{registered.arm}'",
                max_results=_TRACES,
                include_spans=False,
            )
            client = TracingClient(self.tracking.uri)
            for trace in traces:
                trace.info.trace_metadata[TraceMetadataKey.MODEL_ID] = registered.tags[MODEL_ID]
                trace.info.tags["model_version"] = registered.version
                client.start_trace(trace.info)  # merges into the trace that is there
            return len(traces)

    @contextmanager
    def changes(self) -> Iterator["Changes"]:
        """Changes that stay only when the block ends without an exception; otherwise they are undone, last first."""
        with ExitStack() as undo:
            yield Changes(self, undo)
            undo.pop_all()


class Changes:
    """What one registration does to the registry; made by `Registry.changes`."""

    def __init__(self, registry: Registry, undo: ExitStack) -> None:
        self._registry = registry
        self._client = registry.client
        self._undo = undo

    def register(
        self,
        folder: Path,
        *,
        arm: str,
        release: Release,
        lineage: Lineage,
        run_id: str | None = None,
        metrics: Mapping[str, Metric] | None = None,
        example: Mapping[str, Any] | None = None,
    ) -> Registered:
        """Make model folder `folder` a version. `arm` names the model among the run's models, `metrics` are shown
        with it, and so is `example`, an input of the chat interface ({"messages", "tools"}).

        The same release with the same lineage is registered once: a repeated step gets the version that it made before.
        """
        manifest = self._registry.store.put(folder)
        if manifest.digest != release.model:
            raise SystemFault(f"{folder} changed while it was being registered")
        tags = {
            "arm": arm,
            "uri": manifest.uri,
            "model_digest": manifest.digest,
            "adapter_digest": release.adapter,
            "template_digest": release.template,
            "server_arguments": " ".join(release.server_arguments),
            "release_digest": release.digest,
            **lineage.tags(),
        }
        uri, name = self._registry.tracking.uri, self._registry.name
        with server_faults(uri):
            for version in self._of_release(release.digest):
                if tags.items() <= version.tags.items() and version.status == "READY":
                    return _registered(version)
            self._model()
            model_id, source = self._logged_model(folder, manifest, arm, tags, run_id, example)
            if run_id and metrics:
                rows = [
                    MlflowMetric(name, m.value, now_ms(), 0, model_id=model_id, run_id=run_id)
                    for name, m in metrics.items()
                    if m.n > 0
                ]
                self._client.log_batch(run_id, metrics=rows)
            # First: a request whose answer was lost may have been done.
            self._on_failure(lambda: self._drop(release.digest, model_id, keep=""), f"version of {model_id}")
            experiment = self._registry.tracking.experiment_id
            version = self._client.create_model_version(
                name,
                source=source,
                run_id=run_id,
                model_id=model_id,
                tags=tags | {MODEL_ID: model_id},
                await_creation_for=0,  # it is read back below
                description=version_description(arm, lineage, release.digest, experiment),
            )
            number = str(version.version)
            self._drop(release.digest, model_id, keep=number)
            version = self._client.get_model_version(name, number)
            found = (version.name, str(version.version), version.status, dict(version.tags))
            confirm(uri, found == (name, number, "READY", tags | {MODEL_ID: model_id}), f"version {found}")
            return _registered(version)

    def _of_release(self, digest: str) -> list[ModelVersion]:
        condition = f"name = '{self._registry.name}' and tags.release_digest = '{digest}'"
        return list(self._client.search_model_versions(condition))

    def _drop(self, digest: str, model_id: str, *, keep: str) -> None:
        """Delete the versions of a logged model but one."""
        for version in self._of_release(digest):
            if version.tags.get(MODEL_ID) == model_id and str(version.version) != keep:
                self._client.delete_model_version(self._registry.name, str(version.version))

    def set_alias(self, alias: Alias, version: str) -> None:
        """Give `alias` to `version`; a failure later in the block gives it back to the version that had it."""
        before = self._registry.by_alias(alias)
        name = self._registry.name

        def restore() -> None:
            if before is None:
                self._client.delete_registered_model_alias(name, alias)
            else:
                self._client.set_registered_model_alias(name, alias, before.version)

        self._on_failure(restore, f"alias {alias}")  # first: a request that timed out may have been done
        with server_faults(self._registry.tracking.uri):
            self._client.set_registered_model_alias(name, alias, version)
        now = self._registry.by_alias(alias)
        found = now.version if now else "nobody"
        confirm(self._registry.tracking.uri, found == version, f"alias {alias} of {found}, set to {version}")

    def _model(self) -> None:
        """Create the registered model itself before its first version."""
        name = self._registry.name
        uri = self._registry.tracking.uri
        try:
            found = self._client.get_registered_model(name)
        except MlflowException as error:
            if error.error_code != ErrorCode.Name(RESOURCE_DOES_NOT_EXIST):
                raise
            self._on_failure(self._delete_empty_model, f"registered model {name}")
            try:
                self._client.create_registered_model(name, description="The agent model of the live-stream avatar.")
            except MlflowException as second:
                if second.error_code != ErrorCode.Name(RESOURCE_ALREADY_EXISTS):
                    raise
            found = self._client.get_registered_model(name)
        confirm(uri, found.name == name, f"registered model {found.name!r}")

    def _delete_empty_model(self) -> None:
        """Delete the registered model unless somebody else has put a version into it meanwhile."""
        if not self._client.search_model_versions(f"name = '{self._registry.name}'"):
            self._client.delete_registered_model(self._registry.name)

    def _logged_model(
        self,
        folder: Path,
        manifest: Manifest,
        arm: str,
        tags: dict[str, str],
        run_id: str | None,
        example: Mapping[str, Any] | None,
    ) -> tuple[str, str]:
        """A logged model with MLmodel, the manifest and the small files, READY; returns its id and its URI."""
        uri, attempt = self._registry.tracking.uri, uuid.uuid4().hex
        self._on_failure(lambda: self._drop_models(attempt, keep=""), f"logged model {arm}")
        model = self._client.create_logged_model(
            self._registry.tracking.experiment_id,
            name=arm,
            source_run_id=run_id,
            tags=tags | {ATTEMPT: attempt},
            model_type="agent",
        )
        confirm(uri, bool(model.model_id), "a logged model without an id")
        self._on_failure(lambda: self._client.delete_logged_model(model.model_id), f"logged model {model.model_id}")
        self._drop_models(attempt, keep=model.model_id)
        with tempfile.TemporaryDirectory() as scratch:
            write_json(Path(scratch) / MANIFEST_FILE, manifest.model_dump())
            flavor = {name: tags[name] for name in ("uri", "model_digest", "release_digest")}
            write_mlmodel(Path(scratch), model.model_id, run_id, flavor, example)
            for file in manifest.files:
                if file.size <= self._registry.inline_limit_bytes:
                    target = Path(scratch) / file.path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(folder / file.path, target)
            wanted = {path.name for path in Path(scratch).iterdir()}
            self._client.log_model_artifacts(model.model_id, scratch)
        self._client.finalize_logged_model(model.model_id, "READY")
        found = self._client.get_logged_model(model.model_id)
        confirm(uri, found.model_id == model.model_id and str(found.status) == "READY", f"logged model {found.status}")
        there = {file.path for file in self._client.list_logged_model_artifacts(model.model_id)}
        confirm(uri, wanted <= there, f"logged model {model.model_id} with no more than {sorted(there)}")
        # With an embedded database MLflow's registry looks the logged model up at the *global* tracking URI.
        mlflow.set_tracking_uri(uri)
        return model.model_id, model.model_uri

    def _drop_models(self, attempt: str, *, keep: str) -> None:
        """Delete the logged models of one call of `_logged_model` but one."""
        experiment = self._registry.tracking.experiment_id
        for model in self._client.search_logged_models([experiment], f"tags.{ATTEMPT} = '{attempt}'"):
            if model.model_id != keep:
                self._client.delete_logged_model(model.model_id)

    def _on_failure(self, action: Callable[[], object], what: str) -> None:
        def undo() -> None:
            try:
                action()
            except (
                Exception
            ) as error:  # the others are undone all the same, and the first failure is the one that is raised
                logging.getLogger(__name__).warning("could not undo %s: %s", what, error)

        self._undo.callback(undo)


def _registered(version: ModelVersion) -> Registered:
    tags = dict(version.tags)
    return Registered(
        version=str(version.version),
        arm=tags.get("arm", ""),
        uri=tags.get("uri", ""),
        model_digest=tags.get("model_digest", ""),
        release_digest=tags.get("release_digest", ""),
        tags=tags,
    )
