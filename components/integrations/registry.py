"""The MLflow model registry: versions of `avatar-agent` and the aliases that say what each is for.

Weights lie in the store (storage.py); MLflow holds the manifest, the small files (config, tokenizer, template) and
the tags. A version's tags tell where it came from and what exactly it serves, and are given when it is created, so no
reader meets a version without them.

All changes of one registration happen inside `Registry.changes()`: either all of them stay or, after any failure, none.
"""

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import mlflow
from mlflow.entities import Metric as MlflowMetric
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, RESOURCE_DOES_NOT_EXIST, ErrorCode

from components.avatar.errors import SystemFault
from components.integrations.metrics import Metric, write_json
from components.integrations.objects import MIB, S3Settings
from components.integrations.release import Release
from components.integrations.storage import Manifest, Store, fetch
from components.integrations.tracking import Tracking, now_ms, server_faults

MODEL_NAME = "avatar-agent"
MANIFEST_FILE = "manifest.json"
Alias = Literal["champion", "challenger", "canary"]

_ABSENT = {ErrorCode.Name(INVALID_PARAMETER_VALUE), ErrorCode.Name(RESOURCE_DOES_NOT_EXIST)}


@dataclass(frozen=True)
class Lineage:
    """Where a model came from: digests of the harness and of the data it was trained on, version of the code, id of
    the pipeline run.
    """

    harness_digest: str
    data_digest: str
    code_version: str
    pipeline_run: str = ""


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
                return _registered(self.client.get_model_version_by_alias(self.name, alias))
            except MlflowException as error:
                if error.error_code in _ABSENT:  # no such model, or no such alias
                    return None
                raise

    def versions(self) -> list[Registered]:
        """All versions, oldest first."""
        with server_faults(self.tracking.uri):
            found = self.client.search_model_versions(f"name = '{self.name}'")
        return sorted((_registered(v) for v in found), key=lambda v: int(v.version))

    def fetch(self, registered: Registered, target: Path) -> Path:
        """Fetch the model folder of a version to `target`; every file's digest is verified."""
        return fetch(registered.uri, target, self._s3)

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
    ) -> Registered:
        """Make model folder `folder` a version. `arm` names the model among the run's models, `metrics` are shown
        with it.

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
            **vars(lineage),
        }
        with server_faults(self._registry.tracking.uri):
            for version in self._client.search_model_versions(
                f"name = '{self._registry.name}' and tags.release_digest = '{release.digest}'"
            ):
                if version.tags == tags and version.status == "READY":
                    return _registered(version)
            self._model()
            model_id, source = self._logged_model(folder, manifest, arm, tags, run_id)
            if run_id and metrics:
                rows = [
                    MlflowMetric(name, m.value, now_ms(), 0, model_id=model_id, run_id=run_id)
                    for name, m in metrics.items()
                    if m.n > 0
                ]
                self._client.log_batch(run_id, metrics=rows)
            version = self._client.create_model_version(
                self._registry.name, source=source, run_id=run_id, model_id=model_id, tags=tags
            )
            name, number = self._registry.name, str(version.version)
            self._on_failure(lambda: self._client.delete_model_version(name, number), f"version {number}")
            return _registered(version)

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

    def _model(self) -> None:
        """Create the registered model itself before its first version."""
        name = self._registry.name
        try:
            self._client.get_registered_model(name)
        except MlflowException as error:
            if error.error_code != ErrorCode.Name(RESOURCE_DOES_NOT_EXIST):
                raise
            self._client.create_registered_model(name, description="The agent model of the live-stream avatar.")
            self._on_failure(lambda: self._client.delete_registered_model(name), f"registered model {name}")

    def _logged_model(
        self, folder: Path, manifest: Manifest, arm: str, tags: dict[str, str], run_id: str | None
    ) -> tuple[str, str]:
        """A logged model with the manifest and the small files, READY; returns its id and its URI."""
        model = self._client.create_logged_model(
            self._registry.tracking.experiment_id, name=arm, source_run_id=run_id, tags=tags, model_type="agent"
        )
        self._on_failure(lambda: self._client.delete_logged_model(model.model_id), f"logged model {model.model_id}")
        with tempfile.TemporaryDirectory() as scratch:
            write_json(Path(scratch) / MANIFEST_FILE, manifest.model_dump())
            for file in manifest.files:
                if file.size <= self._registry.inline_limit_bytes:
                    target = Path(scratch) / file.path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(folder / file.path, target)
            self._client.log_model_artifacts(model.model_id, scratch)
        self._client.finalize_logged_model(model.model_id, "READY")
        # With an embedded database MLflow's registry looks the logged model up at the *global* tracking URI.
        mlflow.set_tracking_uri(self._registry.tracking.uri)
        return model.model_id, model.model_uri

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
