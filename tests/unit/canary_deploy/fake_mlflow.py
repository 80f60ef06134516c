"""The part of MlflowClient that the promotion controller calls, in memory, with a fault at a call of one's choice."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mlflow.exceptions import MlflowException, RestException

from components.canary_deploy.promotion_registry import PromotionRegistry
from components.integrations.registry import MODEL_NAME

GONE = RestException({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such thing"})


@dataclass
class FakeMlflow:
    """`fault` ("down": the call is lost, "no_reply": it is done and the reply is lost, "garbage": the reply is of an
    empty page) befalls call number `fault_at`, counted from 0."""

    fault: str = ""
    fault_at: int = -1
    calls: list[str] = field(default_factory=list)
    versions: dict[str, dict[str, Any]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)
    gates: dict[str, dict] = field(default_factory=dict)  # run id -> registration.json
    alias_writes: list[tuple[str, str]] = field(default_factory=list)

    def add_version(self, number: str, passed: bool = True, **changed: Any) -> None:
        run_id = f"run{number}"
        self.runs[run_id] = self._run(run_id, {})
        self.runs[run_id].data.metrics["gates_passed"] = float(passed)
        self.gates[run_id] = {"model_version": number, "gates": {"t1": {"passed": passed, "why": "T1 0.2 of 0.5"}}}
        tags = {"uri": f"/models/{number}", "release_digest": f"release{number}"}
        self.versions[number] = {"status": "READY", "run_id": run_id, "tags": tags} | changed

    def registry(self) -> PromotionRegistry:
        return PromotionRegistry(SimpleNamespace(client=self, uri="http://mlflow", experiment_id="1"))  # type: ignore

    def __getattribute__(self, name: str) -> Any:
        """Every public method that MlflowClient has as well is a call."""
        found = object.__getattribute__(self, name)
        if name not in CALLS:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            number = len(self.calls)
            self.calls.append(name)
            if number != self.fault_at:
                return found(*args, **kwargs)
            if self.fault == "down":
                raise MlflowException("connection refused")
            if self.fault == "no_reply":
                found(*args, **kwargs)
                raise MlflowException("timed out")
            return GARBAGE[name]() if name in GARBAGE else None

        return call

    def get_registered_model(self, name: str) -> Any:
        if not self.versions:
            raise GONE
        return SimpleNamespace(name=name, aliases=dict(self.aliases), tags=dict(self.tags))

    def get_model_version(self, name: str, number: str) -> Any:
        if number not in self.versions:
            raise GONE
        found = self.versions[number]
        return SimpleNamespace(
            name=name, version=number, status=found["status"], run_id=found["run_id"], model_id="", tags=found["tags"]
        )

    def search_model_versions(self, condition: str) -> list[Any]:
        assert condition == f"name = '{MODEL_NAME}'"
        return [self.get_model_version(MODEL_NAME, number) for number in self.versions]

    def set_model_version_tag(self, name: str, number: str, key: str, value: str) -> None:
        self.versions[number]["tags"] = {**self.versions[number]["tags"], key: value}

    def delete_model_version_tag(self, name: str, number: str, key: str) -> None:
        self.versions[number]["tags"] = {k: v for k, v in self.versions[number]["tags"].items() if k != key}

    def set_registered_model_tag(self, name: str, key: str, value: str) -> None:
        self.tags[key] = value

    def delete_registered_model_tag(self, name: str, key: str) -> None:
        self.tags.pop(key, None)

    def set_registered_model_alias(self, name: str, alias: str, version: str) -> None:
        self.alias_writes.append((alias, version))
        self.aliases[alias] = version

    def search_runs(self, experiments: list[str], condition: str, max_results: int) -> list[Any]:
        rollout = condition.split("'")[1]
        return [run for run in self.runs.values() if run.data.tags.get("canary.rollout") == rollout]

    def create_run(self, experiment: str, run_name: str, tags: dict[str, str]) -> Any:
        run_id = f"canary-run{len(self.runs)}"
        self.runs[run_id] = self._run(run_id, dict(tags))
        return self.runs[run_id]

    def get_run(self, run_id: str) -> Any:
        if run_id not in self.runs:
            raise GONE
        return self.runs[run_id]

    def set_tag(self, run_id: str, key: str, value: str) -> None:
        self.runs[run_id].data.tags[key] = value

    def delete_tag(self, run_id: str, key: str) -> None:
        del self.runs[run_id].data.tags[key]

    def log_batch(self, run_id: str, metrics: Any = (), params: Any = (), tags: Any = ()) -> None:
        self.runs[run_id].data.tags.update({tag.key: tag.value for tag in tags})
        self.runs[run_id].data.metrics.update({metric.key: metric.value for metric in metrics})

    def log_inputs(self, run_id: str, models: Any) -> None: ...

    def log_artifact(self, run_id: str, path: str, artifact_path: str | None) -> None:
        self.runs[run_id].files.add(Path(path).name)

    def set_terminated(self, run_id: str, status: str) -> None:
        self.runs[run_id].info.status = status

    def list_artifacts(self, run_id: str) -> list[Any]:
        return [SimpleNamespace(path="registration.json")] if run_id in self.gates else []

    def download_artifacts(self, run_id: str, path: str, target: str) -> str:
        (Path(target) / path).write_text(json.dumps(self.gates[run_id]))
        return str(Path(target) / path)

    @staticmethod
    def _run(run_id: str, tags: dict[str, str]) -> Any:
        info = SimpleNamespace(run_id=run_id, status="RUNNING", lifecycle_stage="active")
        return SimpleNamespace(info=info, data=SimpleNamespace(tags=tags, metrics={}), files=set())


CALLS = {name for name in vars(FakeMlflow) if not name.startswith("_") and name not in ("add_version", "registry")} & {
    "get_registered_model", "get_model_version", "search_model_versions", "set_model_version_tag",
    "delete_model_version_tag", "set_registered_model_tag", "delete_registered_model_tag",
    "set_registered_model_alias", "search_runs", "create_run", "get_run", "set_tag", "delete_tag", "log_batch",
    "log_inputs", "log_artifact", "set_terminated", "list_artifacts", "download_artifacts",
}  # fmt: skip
EMPTY = SimpleNamespace(run_id="", status="", lifecycle_stage="active")
GARBAGE = {  # what MLflow's client makes of an empty page
    "get_registered_model": lambda: SimpleNamespace(name="", aliases={}, tags={}),
    "get_model_version": lambda: SimpleNamespace(name="", version="", status="", run_id="", model_id="", tags={}),
    "search_model_versions": list,
    "search_runs": list,
    "create_run": lambda: SimpleNamespace(info=EMPTY, data=SimpleNamespace(tags={}, metrics={})),
    "get_run": lambda: SimpleNamespace(info=EMPTY, data=SimpleNamespace(tags={}, metrics={})),
    "list_artifacts": list,
    "download_artifacts": lambda: "/nowhere",
}
