"""Lineage in MLflow: which harness, which data, which code and which runs made a model; and the links to follow it.

Digests say what was read, links say which run made it. An output's done.json names the run that wrote it, so a step
finds the runs of its inputs in its inputs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mlflow.entities import LoggedModelInput

from components.avatar.errors import InputError, SystemFault
from components.avatar.harness.files import load_harness
from components.integrations.metrics import read_json
from components.integrations.storage import MANIFEST_SUFFIX, Manifest, describe
from components.integrations.tracking import StepRun, server_faults

DONE_FILE = "done.json"
NOTE = "mlflow.note.content"  # the description of a run
CANARY_RUN = "canary.run"  # tag of a version: the run of its rollout
MODEL_ID = "model_id"  # tag of a version: its logged model, which MLflow's own databases do not keep

_CONTEXTS = {
    "harness_gate": "evaluation",
    "data_validation": "validation",
    "evaluation": "evaluation",
    "registration": "evaluation",
    "canary_deploy": "rollout",
}  # of a step's datasets; the others train
_DATA = ("merchant", "trajectories", "examples", "surfaces", "evaluation")
_MODELS = ("model", "base_model", "hat", "fixed_sft")


@dataclass(frozen=True)
class Lineage:
    """Where a model came from: digests of the harness and of the data it was trained on, version of the code, and the
    MLflow runs that did it ("": not known).
    """

    harness_digest: str
    data_digest: str
    code_version: str
    pipeline_run: str = ""
    harness_run: str = ""
    data_run: str = ""
    training_run: str = ""
    evaluation_run: str = ""

    def tags(self) -> dict[str, str]:
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name))}


def run_link(experiment_id: str, run_id: str, text: str) -> str:
    """A link to a run's page in the UI, as Markdown; only the text when the run is not known."""
    return f"[{text}](#/experiments/{experiment_id}/runs/{run_id})" if run_id else text


def version_link(name: str, version: str) -> str:
    return f"[version {version}](#/models/{name}/versions/{version})"


def version_description(arm: str, lineage: Lineage, release_digest: str, experiment_id: str) -> str:
    """Description of a registered version: what it was made of, each with the run that made it."""

    def link(run_id: str, text: str) -> str:
        return run_link(experiment_id, run_id, text)

    return "\n".join(
        [
            f"**{arm}**, release `{release_digest}`, made by the {link(lineage.pipeline_run, 'pipeline run')}",
            "",
            f"- harness `{lineage.harness_digest}`: {link(lineage.harness_run, 'harness_gate')}",
            f"- data `{lineage.data_digest}`: {link(lineage.data_run, 'harness_augmentation')}",
            f"- code `{lineage.code_version}`",
            f"- training: {link(lineage.training_run, 'its last stage')}",
            f"- evaluation: {link(lineage.evaluation_run, 'figures, failed cases, traces')}",
        ]
    )


def made_by(place: Path) -> str:
    """The MLflow run that made an artifact, or the artifact that `place` lies in; "" when it is not known."""
    for folder in (place, place.parent):
        if (folder / DONE_FILE).is_file():
            return str(read_json(folder / DONE_FILE).get("mlflow_run_id", ""))
    return ""


def log_inputs(tracked: StepRun, step: str, inputs: Mapping[str, Any], registered_model: str) -> None:
    """What a step reads, on its run: data as datasets with the digest of their content, the runs that made its inputs
    as tags and links; for a rollout, the versions that it compares.
    """
    context = _CONTEXTS.get(step, "training")
    made: dict[str, str] = {}
    for name, place in _paths(inputs):
        if name in _DATA:
            for shown, digest in _digests(name, place):
                tracked.log_dataset(shown, digest, _source(place), context)
        made[name] = made_by(place)
    known = {f"input.{name}": run for name, run in made.items() if run}
    links = [f"- {name}: made by {run_link(tracked.experiment_id, run, 'this run')}" for name, run in made.items()]
    note = ["Reads", *links] if known else []
    if "registration" in inputs:
        note = [_log_rollout(tracked, inputs["registration"], registered_model), "", *note]
    tracked.log_tags(known | ({NOTE: "\n".join(note)} if note else {}))


def log_outputs(tracked: StepRun, output: Path) -> None:
    """Digests of the data that a step wrote, as tags `output.<file>`: those that the steps after it say they read."""
    tracked.log_tags({f"output.{path.name}": describe(path).digest for path in sorted(output.glob("*.jsonl"))})


def _source(place: Path) -> str:
    """The URI of what was fetched from a store (artifacts.py leaves the manifest beside it), else the path."""
    manifest = place.with_name(f"{place.name}{MANIFEST_SUFFIX}")
    if not manifest.is_file():
        return str(place.absolute())
    return Manifest.model_validate_json(manifest.read_text(encoding="utf-8")).uri


def _paths(inputs: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    for name, value in inputs.items():
        if name in (*_DATA, *_MODELS, "registration") and isinstance(value, Path):
            yield name, value
        elif name == "models":
            yield from ((f"models.{arm}", folder) for arm, folder in value.items())


def _digests(name: str, place: Path) -> Iterator[tuple[str, str]]:
    """(name, digest) of what lies at `place`; a merchant's folder holds the harness, whose own digest is the one that
    versions and exposures name. What cannot be read is left to the step, which lists all faults of its inputs."""
    try:
        if name == "merchant":
            yield "harness", load_harness(place).digest
        yield name, describe(place).digest
    except InputError:
        return


def _log_rollout(tracked: StepRun, registration: Path, name: str) -> str:
    """Link the run of a rollout and the versions that it compares, both ways; returns the run's description."""
    report = read_json(registration / "registration.json")
    champion, canary = (str(report[role]["version"]) for role in ("champion", "challenger"))
    with server_faults(tracked.uri):
        models = []
        for number in (champion, canary):
            version = tracked.client.get_model_version(name, number)
            if (version.name, str(version.version)) != (name, number):
                raise SystemFault(f"MLflow at {tracked.uri} gave an answer that makes no sense: {version.name!r}")
            models += [LoggedModelInput(version.tags[MODEL_ID])] if MODEL_ID in version.tags else []
        tracked.client.log_inputs(tracked.run_id, models=models)
        tracked.client.set_model_version_tag(name, canary, CANARY_RUN, tracked.run_id)
    tracked.log_tags(
        {
            "registered_model": name,
            "model_version": canary,
            "champion_version": champion,
            "release_digest": report["challenger"]["release_digest"],
        }
    )
    return f"Canary of **{name}** {version_link(name, canary)} beside the champion {version_link(name, champion)}"
