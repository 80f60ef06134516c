"""Register the trained model, judge it, and make it the challenger when every gate passes.

A failed gate is a result: the model is registered, nobody is promoted, the step succeeds. A fault is an error:
whatever this step did to the registry is undone. The aliases come last, so nobody who watches them ever sees a model
that was not verified.
"""

import math
import tempfile
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from typing import Any

from components.avatar.errors import Fault, InputError, SystemFault
from components.avatar.harness.render import system_prompt, tools_of
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.integrations.cli import validate_settings
from components.integrations.lineage import Lineage
from components.integrations.metrics import Metric, read_json, write_json
from components.integrations.objects import MIB, S3Settings
from components.integrations.progress import Progress
from components.integrations.registry import Registered, Registry
from components.integrations.release import release_of
from components.integrations.tracking import Tracking
from components.integrations.weights import check_model_folder
from components.registration.gates import CANDIDATE, FIGURES, Leads, Models, judge
from components.registration.settings import Settings
from components.registration.verify import same_generation


def run(
    *,
    hat: Path,
    evaluation: Path,
    merchant: Path,
    lineage: dict[str, str],
    tracking_uri: str,
    experiment: str,
    fixed_sft: Path | None = None,
    base: Path | None = None,
    first_lineage: dict[str, str] | None = None,
    storage_uri: str = "",
    storage_encryption: str = "",
    run_id: str | None = None,
    output: Path,
    settings: Settings,
    seed: int,
    progress: Progress,
) -> dict[str, Metric]:
    """Register model folder `hat`; make it the challenger when the gates on `evaluation` (evaluation.json or its
    folder) pass.

    While there is no champion, `fixed_sft` (else `base`) is registered first and becomes champion. `lineage` holds
    the fields of lineage.Lineage, `first_lineage` those that differ for that first version. The folder `merchant` gives
    the versions their input example: its prompt and tools, and its first question. `storage_uri` is where weights go;
    empty: `models/` beside an sqlite tracking database; `storage_encryption` as in objects.Encryption. `run_id`: the
    MLflow run that the versions belong to. Writes registration.json.

    Raises InputError with every fault of the inputs before anything is registered, SystemFault when a server fails or
    the registered copy answers otherwise than the trained model.
    """
    first = fixed_sft or base
    s3 = validate_settings(S3Settings, {"encryption": storage_encryption}, "storage_encryption")
    models, leads, origins, world = _checked(hat, first, evaluation, merchant, lineage, first_lineage or {})
    verdicts = judge(models, settings, leads)
    for name, verdict in verdicts.items():
        progress.note(f"gate {name}: {'passed' if verdict.passed else 'failed'}: {verdict.why}")
    passed = all(verdict.passed for verdict in verdicts.values())

    tracking = Tracking(tracking_uri, experiment)
    registry = Registry(
        tracking,
        storage_uri or _beside(tracking),
        s3=s3,
        inline_limit_bytes=settings.inline_limit_mib * MIB,
    )
    champion = registry.champion()
    folders = {CANDIDATE: hat}
    if champion is None:
        if first is None:
            raise InputError([Fault("registration", "fixed_sft, base", "neither", "one of them: there is no champion")])
        folders = {"fixed_sft" if fixed_sft else "base": first, CANDIDATE: hat}  # the first version is the baseline

    compared, example = 0, input_example(world)
    made: dict[str, Registered] = {}
    with registry.changes() as changes:
        for done, (arm, folder) in enumerate(folders.items()):
            progress.update(done, len(folders), registering=arm)
            made[arm] = changes.register(
                folder,
                arm=arm,
                release=release_of(folder, settings.server_arguments),
                lineage=origins[arm == CANDIDATE],
                run_id=run_id,
                metrics=_figures(models, arm, settings.decoding),
                example=example,
            )
            compared += _verified(registry, made[arm], folder, settings.verify_tokens)
        candidate = made[CANDIDATE]
        if champion is None:
            champion = next(iter(made.values()))
            changes.set_alias("champion", champion.version)
        if passed:
            changes.set_alias("challenger", candidate.version)
        result = {
            "gates": {name: asdict(verdict) for name, verdict in verdicts.items()},
            "model_version": candidate.version,
            "champion": asdict(champion),
            "challenger": asdict(candidate) if passed else None,
        }
        write_json(output / "registration.json", result)  # inside: a full disk here undoes the registration
    # After: traces that name a version cannot forget it again. A fault here leaves a whole registration, and a repeated
    # step only this to do.
    shown = registry.link_traces(candidate, evaluated) if (evaluated := origins[True].evaluation_run) else 0
    progress.update(len(folders), len(folders), version=candidate.version, challenger=passed, traces=shown)
    won = sum(verdict.passed for verdict in verdicts.values())
    return {
        "gates_passed": Metric(won / len(verdicts), len(verdicts)),
        "promoted_to_challenger": Metric(float(passed), 1),
        "same_generation": Metric(1.0, compared),
    }


def input_example(world: Merchant) -> dict[str, Any]:
    """What the model sees first when a viewer asks the merchant's first question, in OpenAI's form."""
    harness = world.harness
    messages = [
        {"role": "system", "content": system_prompt(harness)},
        {"role": "user", "content": world.questions[0].text},
    ]
    return {"messages": messages, "tools": tools_of(harness)}


def _checked(
    hat: Path,
    first: Path | None,
    evaluation: Path,
    merchant: Path,
    lineage: dict[str, str],
    first_lineage: dict[str, str],
) -> tuple[Models, Leads, tuple[Lineage, Lineage], Merchant]:
    """The evaluated models, their paired leads, the lineage of the first version and of the candidate, and the
    merchant. Raises InputError with the faults of all inputs together."""
    faults: list[Fault] = []
    for folder in (hat, first):
        try:
            if folder is not None:
                check_model_folder(folder)
        except InputError as error:
            faults += error.faults
    world: Any = None
    try:
        world = load_merchant(merchant)
    except InputError as error:
        faults += error.faults
    wanted = {field.name: field.default is MISSING for field in fields(Lineage)}  # name -> required
    missing = [name for name, required in wanted.items() if required and not lineage.get(name)]
    faults += [Fault("lineage", name, "nothing", "a value") for name in missing]
    for what, given in (("lineage", lineage), ("first_lineage", first_lineage)):
        faults += [Fault(what, name, "unknown", ", ".join(wanted)) for name in given if name not in wanted]
    path = evaluation / "evaluation.json" if evaluation.is_dir() else evaluation
    models: Any = None
    leads: Any = None
    try:
        report = read_json(path)
        models = report.get("models") if isinstance(report, dict) else None
        leads = report.get("leads") if isinstance(report, dict) else None
        faults += _shape_faults(models, path)
    except InputError as error:
        faults += error.faults
    if faults:
        raise InputError(faults)
    origin = Lineage(**lineage)
    return models, leads or {}, (replace(origin, **first_lineage), origin), world


_FIGURE = '{"value": a rate or null, "n": a count}'


def _shape_faults(models: Any, path: Path) -> list[Fault]:
    """Faults of the figures that the gates read; evaluation.json may hold more."""
    if not isinstance(models, dict) or CANDIDATE not in models:
        return [Fault(str(path), "models", str(models)[:80], f"an object of evaluated models with {CANDIDATE}")]
    faults = []
    for arm, decodings in models.items():
        if not isinstance(decodings, dict) or not all(isinstance(metrics, dict) for metrics in decodings.values()):
            faults.append(Fault(str(path), f"models.{arm}", str(decodings)[:80], "{decoding: {metric: {...}}}"))
            continue
        faults += [
            Fault(
                str(path),
                f"models.{arm}.{decoding}.{name}",
                str(metrics[name])[:80],
                _FIGURE,
            )
            for decoding, metrics in decodings.items()
            for name in FIGURES
            if name in metrics and not _is_figure(metrics[name], -1 if name == "gap" else 0, 1)
        ]
    return faults


def _is_figure(row: Any, least: float = -math.inf, most: float = math.inf) -> bool:
    value, n = (row.get("value", "absent"), row.get("n")) if isinstance(row, dict) else ("absent", None)
    rate = value is None or (isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most)
    return rate and isinstance(n, int | float) and n >= 0


def _beside(tracking: Tracking) -> str:
    if tracking.folder is None:
        allowed = "where weights go (s3://bucket/prefix): only an sqlite tracking database has a folder beside it"
        raise InputError([Fault("registration", "storage_uri", "nothing", allowed)])
    return str(tracking.folder / "models")


def _figures(models: Models, arm: str, decoding: str) -> dict[str, Metric]:
    """The evaluated figures of an arm, as its version shows them; none when it was not evaluated."""
    rows = models.get(arm, {}).get(decoding, {})
    return {
        name: Metric(float(r["value"]), int(r["n"])) for name, r in rows.items() if r["value"] is not None and r["n"]
    }


def _verified(registry: Registry, registered: Registered, trained: Path, tokens: int) -> int:
    """Fetch what was registered and compare; returns the number of compared ids."""
    with tempfile.TemporaryDirectory(prefix="registered-") as scratch:
        result = same_generation(trained, registry.fetch(registered, Path(scratch) / "model"), max_new_tokens=tokens)
    if not result.same:
        raise SystemFault(f"version {registered.version} is not the trained {registered.arm}: {result.difference}")
    return result.compared
