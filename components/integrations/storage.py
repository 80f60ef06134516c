"""Content-addressed storage of files and folders (weights, data sets), in S3 or in a folder.

A tree lies as it is under `<root>/<digest>/<path>`, so KServe and vLLM can load the prefix directly, and its manifest
at
`<root>/<digest>.json`. The manifest is written last: a tree without one was never completed and does not exist for
readers. The same content is uploaded once. Only the small manifest travels through pipeline artifacts and MLflow.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from components.avatar.errors import Fault, InputError, SystemFault, file_fault
from components.integrations.objects import S3Settings, open_objects, sha256_of
from components.integrations.progress import Progress

MANIFEST_SUFFIX = ".manifest.json"  # of what stands for a tree in a step's output
_AGAIN = "run the step that made it again, without its cache"


class StoredFile(BaseModel):
    """One file of a tree: POSIX path below it, bytes, SHA-256 as 64 hex digits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")

    @field_validator("path")
    @classmethod
    def _stays_below(cls, path: str) -> str:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\\" in path:
            raise ValueError("a relative path inside the tree")
        return path


class Manifest(BaseModel):
    """What a tree holds and where it lies. `digest` covers paths and contents, neither place nor time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    uri: str  # prefix of the tree, without a slash at the end
    digest: str  # SHA-256 over the sorted lines "sha256 size path", and whether it is a single file
    size: int  # bytes of all files
    files: tuple[StoredFile, ...]
    single: bool = False  # the tree is one file that was put by itself


class Store:
    """Trees under one root URI: `s3://bucket/prefix`, `file:///folder` or a folder path."""

    def __init__(self, uri: str, s3: S3Settings | None = None) -> None:
        self.uri = uri.rstrip("/")
        self._objects = open_objects(self.uri, s3)

    def put(self, source: Path, progress: Progress | None = None) -> Manifest:
        """Store a file or a folder; uploads only what is not there yet, and the manifest last.

        After a failure the same call continues: files, and parts of a large file, that arrived are not sent again.
        Raises InputError when `source` is missing or holds no file, SystemFault when the server fails or a file changes
        meanwhile.
        """
        files = _files(source)
        before = {name: _stamp(path) for name, path in files.items()}
        manifest = describe(source, self.uri)
        there = self._objects.sizes(f"{manifest.digest}/")
        done = 0
        for file in manifest.files:
            key = f"{manifest.digest}/{file.path}"
            if there.get(key) != file.size:
                self._objects.upload(files[file.path], key, file.sha256)
                if _stamp(files[file.path]) != before[file.path]:
                    self._objects.delete(key)  # else these bytes would be taken for the digest's
                    raise SystemFault(f"{files[file.path]} changed while it was being stored")
            done += file.size
            if progress is not None:
                progress.update(done, manifest.size, storing=file.path)
        self._objects.write(f"{manifest.digest}.json", manifest.model_dump_json(indent=2).encode())
        return manifest

    def manifest(self, digest: str) -> Manifest | None:
        """The manifest of a completed tree, None when there is none. Raises SystemFault when it is damaged."""
        try:
            data = self._objects.read(f"{digest}.json")
        except KeyError:
            return None
        try:
            manifest = Manifest.model_validate_json(data)
        except ValidationError as error:
            raise SystemFault(f"{self.uri}/{digest}.json is damaged: {error.error_count()} faults") from error
        if tree_digest(manifest.files, manifest.single) != digest:
            raise SystemFault(f"{self.uri}/{digest}.json is damaged: it describes another tree")
        return manifest

    def present(self, digest: str) -> bool:
        """Whether the manifest and every file, at its size, are really there: objects may have been deleted."""
        manifest = self.manifest(digest)
        if manifest is None:
            return False
        there = self._objects.sizes(f"{digest}/")
        return all(there.get(f"{digest}/{file.path}") == file.size for file in manifest.files)

    def get(self, digest: str, target: Path, progress: Progress | None = None) -> Path:
        """Fetch a tree to `target` (a folder, or a file when a file was put); every file's SHA-256 is verified.

        `target` appears only when it is complete; one that already holds this content is kept as it is. Raises
        InputError when the store has no such tree or `target` holds something else, SystemFault when bytes are
        missing or damaged.
        """
        manifest = self.manifest(digest)
        if manifest is None:
            raise InputError([Fault(self.uri, "digest", digest, f"a stored tree; if it was deleted, {_AGAIN}")])
        if target.exists():
            if describe(target, self.uri).digest == digest:
                return target
            raise InputError([file_fault(target, "other content", "a new path, or the same content")])
        target.parent.mkdir(parents=True, exist_ok=True)
        arriving = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            done = 0
            for file in manifest.files:
                self._fetch(digest, file, arriving / file.path)
                done += file.size
                if progress is not None:
                    progress.update(done, manifest.size, fetching=file.path)
            arriving.chmod(0o755)  # mkdtemp makes it private
            (arriving / manifest.files[0].path if manifest.single else arriving).rename(target)
        finally:
            shutil.rmtree(arriving, ignore_errors=True)
        return target

    def _fetch(self, digest: str, file: StoredFile, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(2):  # bytes damaged on the way are fetched once more; bytes damaged in the store stay so
            try:
                arrived = self._objects.download(f"{digest}/{file.path}", target)
            except KeyError:
                raise SystemFault(f"{self.uri}/{digest}/{file.path} is missing from the store; {_AGAIN}") from None
            if arrived == file.sha256:
                return
        raise SystemFault(f"{self.uri}/{digest}/{file.path} is damaged: its SHA-256 is not the manifest's")


def describe(source: Path, root_uri: str = "") -> Manifest:
    """The manifest that `source` has in a store at `root_uri`; reads every byte, writes none.

    Symbolic links count as what they point to (model caches are full of them). Raises InputError when nothing is there.
    """
    paths = _files(source)
    if not paths:
        found = "an empty folder" if source.exists() else "nothing"
        raise InputError([file_fault(source, found, "a file or a folder with files")])
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        digests = pool.map(sha256_of, paths.values())
        files = tuple(
            StoredFile(path=name, size=path.stat().st_size, sha256=digest)
            for (name, path), digest in zip(paths.items(), digests, strict=True)
        )
    single = source.is_file()
    digest = tree_digest(files, single)
    size = sum(file.size for file in files)
    return Manifest(uri=f"{root_uri}/{digest}", digest=digest, size=size, files=files, single=single)


def fetch(uri: str, target: Path, s3: S3Settings | None = None, progress: Progress | None = None) -> Path:
    """Fetch the tree that a manifest's `uri` names (`<root>/<digest>`) to `target`, as `Store.get` does."""
    root, _, digest = uri.rstrip("/").rpartition("/")
    return Store(root, s3).get(digest, target, progress)


def _files(source: Path) -> dict[str, Path]:
    """Every file of a tree by its POSIX path below `source`, sorted; a single file by its name."""
    if source.is_file():
        return {source.name: source}
    return dict(sorted((path.relative_to(source).as_posix(), path) for path in source.rglob("*") if path.is_file()))


def _stamp(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns


def tree_digest(files: Iterable[StoredFile], single: bool = False) -> str:
    """The digest of a tree of these files (`single`: of one file that is put by itself)."""
    lines = sorted(f"{file.sha256} {file.size} {file.path}\n" for file in files) + ["single\n"] * single
    return hashlib.sha256("".join(lines).encode()).hexdigest()
