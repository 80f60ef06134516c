"""Content digests that the pipeline is started with."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

COMPONENTS = Path(__file__).parents[1] / "components"

CODE_SUFFIXES = frozenset({".py", ".jinja", ".txt", ".json", ".yaml"})


def code_digest(step: str | None = None) -> str:
    """Digest of the code and package data that `step` runs: its own folder and the two that all steps share. A fix in a
    late step leaves the early ones cached. None: of all components.
    """
    folders = [COMPONENTS / name for name in ("avatar", "integrations", step)] if step else [COMPONENTS]
    files = (path for folder in folders for path in folder.rglob("*"))
    return _digest(COMPONENTS, (p for p in files if p.suffix in CODE_SUFFIXES and "__pycache__" not in p.parts))


def folder_digest(folder: Path) -> str:
    """Digest of every file under `folder`, names included."""
    return _digest(folder, (path for path in folder.rglob("*") if path.is_file()))


def _digest(folder: Path, paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]
