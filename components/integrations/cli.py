"""The command line of a step, built from the signature of its `run`, so that the two cannot drift apart.

# components/<step>/__main__.py
from components.integrations.cli import step_main
from components.<step>.run import run

if __name__ == "__main__":
    raise SystemExit(step_main("<step>", run))
"""

import argparse
import inspect
import sys
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from components.avatar.errors import Fault, InputError, SystemFault, file_fault
from components.integrations.metrics import Metric, write_metrics
from components.integrations.progress import Progress

S = TypeVar("S", bound=BaseModel)

_RESERVED = ("output", "settings", "seed", "progress")


def step_main(step: str, run: Callable[..., dict[str, Metric]], argv: Sequence[str] | None = None) -> int:
    """Parse the command line, call `run`, write metrics.json into --output; returns the exit status.

    Every parameter of `run` beside output, settings, seed and progress becomes an option: `Path` and `str` take one
    value, `dict[str, Path]` and `dict[str, str]` take NAME=VALUE pairs, `list[...]` takes several values, `bool`
    becomes --x / --no-x; one with a default or `| None` is optional. Status 0: done (a failed gate included); 1: a
    fault, said on stderr.
    """
    hints = typing.get_type_hints(run)
    parser = _parser(step, run, hints)
    arguments = vars(parser.parse_args(argv))
    output: Path = arguments["output"]
    try:
        inputs = _inputs(run, hints, arguments)
        settings = read_settings(hints["settings"], arguments["settings"])
        output.mkdir(parents=True, exist_ok=True)
        progress = Progress(step, arguments["progress"] or output / "progress.jsonl")
        metrics = run(**inputs, output=output, settings=settings, seed=arguments["seed"], progress=progress)
        write_metrics(output, metrics)
    except (InputError, SystemFault, OSError) as error:
        print(f"[{step}] failed: {error}", file=sys.stderr)
        return 1
    for name, metric in sorted(metrics.items()):
        print(f"[{step}] {name} = {metric.value:.4g} (n={metric.n})")
    return 0


def read_settings(model: type[S], text: str | None) -> S:
    """Settings from inline JSON (`{...}`), from a YAML or JSON file, or the defaults when `text` is None.

    Raises InputError with every unknown, missing or bad field.
    """
    if text is None:
        return validate_settings(model, {}, "settings")
    if text.lstrip().startswith("{"):
        where, source = "--settings", text
    else:
        where = text
        try:
            source = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError([file_fault(text, str(error), "a YAML or JSON file, or inline JSON")]) from error
    try:
        data = yaml.safe_load(source)  # JSON is YAML, so one parser reads both
    except yaml.YAMLError as error:
        raise InputError([file_fault(where, " ".join(str(error).split()), "valid YAML or JSON")]) from error
    return validate_settings(model, {} if data is None else data, where)


def exit_status(work: Callable[[], None], advice: str = "") -> int:
    """Do a command's `work`: 0, 2 for bad input, 1 when the machine or our side failed; then the reason and `advice`
    go to stderr."""
    try:
        work()
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except (SystemFault, OSError) as error:
        print(f"failed: {error}" + (f"\n{advice}" if advice else ""), file=sys.stderr)
        return 1
    return 0


def validate_settings(model: type[S], data: Any, where: str) -> S:
    """`data` as `model`. Raises one InputError that lists all of pydantic's errors, each under its field of `where`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(
            [
                Fault(where, ".".join(map(str, e["loc"])) or "(whole)", repr(e["input"])[:200], _allowed(e, model))
                for e in error.errors(include_url=False)
            ]
        ) from error


def _allowed(error: Any, model: type[BaseModel]) -> str:
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        return "one of " + ", ".join(sorted(model.model_fields))
    return error["msg"]


def _parser(step: str, run: Callable[..., Any], hints: dict[str, Any]) -> argparse.ArgumentParser:
    summary = (inspect.getdoc(run) or inspect.getdoc(inspect.getmodule(run)) or "").split("\n\n")[0]
    fields = "\n".join(
        f"  {name} = {field.get_default(call_default_factory=True)!r}"
        if not field.is_required()
        else f"  {name} (required)"
        for name, field in hints["settings"].model_fields.items()
    )
    parser = argparse.ArgumentParser(
        prog=f"python -m components.{step}",
        description=summary,
        epilog=f"settings and their defaults:\n{fields}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, parameter in inspect.signature(run).parameters.items():
        if name in _RESERVED:
            continue
        kind, optional = _kind(hints[name])
        given: dict[str, Any] = {"dest": name, "default": None}
        has_default = parameter.default is not inspect.Parameter.empty
        given["required"] = not (has_default or optional)
        if kind is bool:
            given["action"] = argparse.BooleanOptionalAction
        elif typing.get_origin(kind) in (dict, list, tuple):
            named = typing.get_origin(kind) is dict
            given |= {"nargs": "+", "metavar": "NAME=VALUE" if named else "VALUE"}
        else:
            given |= {"type": kind, "metavar": kind.__name__.upper()}
        if has_default:
            given["help"] = f"default: {parameter.default!r}"
        parser.add_argument("--" + name.replace("_", "-"), **given)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder for the step's results")
    parser.add_argument("--settings", metavar="FILE|JSON", help="YAML or JSON file, or inline JSON; default: see below")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    parser.add_argument("--progress", type=Path, metavar="FILE", help="default: OUTPUT/progress.jsonl")
    return parser


def _kind(hint: Any) -> tuple[Any, bool]:
    """The type to parse and whether None is allowed."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        rest = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(rest) != 1:
            raise TypeError(f"a step's parameter has one type, not {hint}")
        return rest[0], True
    if typing.get_origin(hint) is not None and issubclass(typing.get_origin(hint), typing.Mapping):
        return dict[typing.get_args(hint)], False  # type: ignore[valid-type]
    if typing.get_origin(hint) is not None and issubclass(typing.get_origin(hint), typing.Sequence):
        return list[typing.get_args(hint)[0]], False  # type: ignore[valid-type]
    return hint, False


def _inputs(run: Callable[..., Any], hints: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Values for `run`'s own parameters. Raises InputError with every missing path and malformed pair."""
    inputs: dict[str, Any] = {}
    faults: list[Fault] = []
    for name in inspect.signature(run).parameters:
        value = arguments.get(name)
        if name in _RESERVED or value is None:
            continue
        kind, _ = _kind(hints[name])
        option = "--" + name.replace("_", "-")
        parts = typing.get_args(kind)
        if typing.get_origin(kind) is dict:
            pairs = [pair.partition("=") for pair in value]
            faults += [
                Fault("command line", option, a or "(nothing)", "NAME=VALUE")
                for a, sep, b in pairs
                if not (a and sep and b)
            ]
            inputs[name] = {a: parts[1](b) for a, _, b in pairs}
        elif typing.get_origin(kind) is list:
            inputs[name] = [parts[0](item) for item in value]
        else:
            inputs[name] = value
        faults += [
            Fault("command line", option, f"{path} (does not exist)", "an existing file or folder")
            for path in _paths(inputs[name])
            if not path.exists()
        ]
    if faults:
        raise InputError(faults)
    for name, parameter in inspect.signature(run).parameters.items():
        if name not in inputs and name not in _RESERVED and parameter.default is inspect.Parameter.empty:
            inputs[name] = None
    return inputs


def _paths(value: Any) -> list[Path]:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, Path)]
