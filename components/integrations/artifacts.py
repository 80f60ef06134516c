"""A step's output on a cluster: what is big lies in the store, and the artifact keeps a small manifest of each thing.

Every entry of an output is a tree of its own: `<name>` becomes `<name>.manifest.json`. So a stage's model and the same
weights once registered are one tree, uploaded once, and a reader fetches only what it asks for. Small results in JSON
stay: they are what the pipeline's conditions and MLflow's links read.
"""

import shutil
from pathlib import Path

from components.integrations.progress import Progress
from components.integrations.storage import MANIFEST_SUFFIX, Manifest, Store, describe, fetch

KEPT_BYTES = 256 * 1024  # of a JSON result that stays in the artifact


def move_to_store(output: Path, store: Store, progress: Progress) -> None:
    """Put everything in folder `output`, small JSON results apart, into `store`, and leave its manifest in its place.

    Raises SystemFault when the store fails; what had arrived is not sent again by the next call.
    """
    for path in sorted(output.iterdir()):
        if _stays(path):
            continue
        manifest = store.put(path, progress)
        (output / f"{path.name}{MANIFEST_SUFFIX}").write_text(manifest.model_dump_json(indent=2), encoding="utf-8")
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def readable(place: Path, cache: Path) -> Path:
    """Where `place`, a step's output or a file or folder in it, can be read: where it is; or, when it is in the store,
    in a copy of the output below `cache` that holds what was asked for so far.

    Raises InputError or SystemFault, saying which step's work is lost, when the store has not got it any more.
    """
    manifest = place.with_name(f"{place.name}{MANIFEST_SUFFIX}")
    output, wanted = (place.parent, [manifest]) if manifest.is_file() else (place, _manifests(place))
    if not wanted:
        return place
    copy = cache / "artifacts" / describe(output).digest
    copy.mkdir(parents=True, exist_ok=True)
    for path in output.iterdir():
        if path.is_file():
            shutil.copyfile(path, copy / path.name)
    for path in wanted:
        stored = Manifest.model_validate_json(path.read_text(encoding="utf-8"))
        fetch(stored.uri, copy / path.name.removesuffix(MANIFEST_SUFFIX))
    return copy if output == place else copy / place.name


def _stays(path: Path) -> bool:
    if path.is_dir():
        return not any(below.is_file() for below in path.rglob("*"))  # the store keeps files, no empty folders
    return path.suffix == ".json" and path.stat().st_size <= KEPT_BYTES


def _manifests(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{MANIFEST_SUFFIX}"))
