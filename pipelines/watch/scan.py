"""What changed: the merchants' folders below a folder or an S3 prefix, each with a cheap fingerprint and, where that
changed, its content.

A fingerprint costs one stat a file (or one listing of 1,000 keys a request) and may change without the content; only
the digest of the content says that a merchant changed. Hidden files and editors' backups are no part of a merchant.
"""

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

from components.avatar.errors import Fault, InputError, SystemFault, file_fault
from components.integrations.objects import S3Settings
from components.integrations.s3 import S3Objects

_NAME = re.compile(r"\w[\w.-]{0,79}")
_SETTLED_NS = 1_000_000_000  # a file written this shortly before the look may be written again within one clock tick


@dataclass(frozen=True)
class Looked:
    """Fingerprints by merchant; `faults` says in words which folders could not be looked at, and why."""

    fingerprints: dict[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)


class Source(Protocol):
    def look(self) -> Looked:
        """Raises SystemFault when nothing at all can be seen."""
        ...

    def files(self, merchant: str) -> Iterator[tuple[str, int, IO[bytes]]]:
        """POSIX path, bytes and content of every file of a merchant; the content is open until the next one.

        Raises SystemFault or OSError when they cannot be read now, InputError when they never can.
        """
        ...


class FolderSource:
    """Sub-folders of `root`; a link to a merchant's folder is followed, links to folders further down are not."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError([Fault("command line", "--merchants", f"{root}: no such folder", "a folder of folders")])
        if (root / "harness.yaml").is_file():
            raise InputError(
                [
                    Fault(
                        "command line", "--merchants", f"{root}: one merchant's folder", f"the one above: {root.parent}"
                    )
                ]
            )
        self.root = root

    def look(self) -> Looked:
        looked = Looked()
        try:
            names = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir() and _counts(entry.name))
        except OSError as error:
            raise SystemFault(f"{self.root} cannot be listed: {error.strerror}") from error
        for name in names:
            if not _NAME.fullmatch(name):
                looked.faults[name] = (
                    f"{name!r} cannot be a merchant's name: letters, digits, '.', '_', '-', at most 80"
                )
                continue
            try:
                fingerprint = _fingerprint(self.root / name)
            except FileNotFoundError:  # being edited: the next look shows it
                continue
            except OSError as error:
                looked.faults[name] = f"{name} cannot be read: {error.strerror}: {error.filename}"
                continue
            if fingerprint:
                looked.fingerprints[name] = fingerprint
        return looked

    def files(self, merchant: str) -> Iterator[tuple[str, int, IO[bytes]]]:
        folder = f"{self.root}/{merchant}"
        for path, _ in _files(folder):
            with open(f"{folder}/{path}", "rb") as file:
                yield path, os.fstat(file.fileno()).st_size, file


class S3Source:
    """The first path segments below `uri`; endpoint and credentials are those of the AWS chain."""

    def __init__(self, uri: str) -> None:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        if not bucket:
            raise InputError([Fault("command line", "--merchants", uri, "s3://bucket[/prefix]")])
        self.uri = uri.rstrip("/")
        self._objects = S3Objects(bucket, prefix, S3Settings(max_attempts=4))  # the next look is another attempt

    def look(self) -> Looked:
        """One listing; entity tags stand for the content."""
        looked, hashes = Looked(), {}
        for key, size, tag in self._objects.listed():
            merchant, separator, path = key.partition("/")
            if not separator or not all(map(_counts, (merchant, *path.split("/")))):
                continue
            if not _NAME.fullmatch(merchant):
                looked.faults[merchant] = f"{merchant!r} cannot be a merchant's name: letters, digits, '.', '_', '-'"
                continue
            hashes.setdefault(merchant, hashlib.sha256()).update(f"{path}\0{size}\0{tag}\0".encode())
        looked.fingerprints.update({merchant: value.hexdigest() for merchant, value in hashes.items()})
        return looked

    def files(self, merchant: str) -> Iterator[tuple[str, int, IO[bytes]]]:
        seen: set[str] = set()
        for key, _, _ in self._objects.listed(f"{merchant}/"):
            path = key.removeprefix(f"{merchant}/")
            if not all(map(_counts, path.split("/"))):
                continue
            seen.add(path)
            for above in PurePosixPath(path).parents:
                if str(above) in seen:
                    allowed = "a key that can be a file's path"
                    raise InputError([file_fault(f"{self.uri}/{key}", f"an object {above} above it", allowed)])
            with tempfile.NamedTemporaryFile() as file:
                try:
                    self._objects.download(key, Path(file.name))
                except KeyError:
                    raise SystemFault(f"{self.uri}/{key} went away while it was read") from None
                yield path, os.fstat(file.fileno()).st_size, file


def open_source(merchants: str) -> Source:
    """Raises InputError for a place that can hold no merchants."""
    if merchants.startswith("s3://"):
        return S3Source(merchants)
    if "://" in merchants:
        raise InputError([Fault("command line", "--merchants", merchants, "a folder or s3://bucket[/prefix]")])
    return FolderSource(Path(merchants).resolve())


def _counts(name: str) -> bool:
    """Also false for the empty and the dotted segments of odd keys, which would lead out of the folder."""
    return name != "" and not name.startswith(".") and not name.endswith("~")


def _files(folder: str, below: str = "") -> Iterator[tuple[str, os.stat_result]]:
    """Path and stat of every file that counts; os.scandir, since this is all that a look at 1,000 folders costs."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not _counts(entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path, f"{below}{entry.name}/")
            elif entry.is_file():
                yield below + entry.name, entry.stat()


def _fingerprint(folder: Path) -> str:
    """ "" for a folder without files. The change time is part of it, because a program can set back the modification
    time but not that one.
    """
    hashed, newest, count = hashlib.sha256(), 0, 0
    for path, stat in _files(str(folder)):
        hashed.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0{stat.st_ctime_ns}\0{stat.st_ino}\0".encode())
        newest, count = max(newest, stat.st_ctime_ns), count + 1
    if not count:
        return ""
    now = time.time_ns()
    return hashed.hexdigest() + (f"@{now}" if now - newest < _SETTLED_NS else "")
