"""Keys and bytes, in an S3 bucket or in a folder: the two places where `storage.Store` keeps content.

The S3 form is s3.py; here are the interface of both, the settings, and the folder form.
"""

import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from components.avatar.errors import Fault, InputError

MIB = 1024 * 1024


def _known_encryption(value: str) -> str:
    if not re.fullmatch(r"(AES256|aws:kms(:\S+)?)?", value):
        raise PydanticCustomError("encryption", "AES256 (a key of the server), aws:kms, aws:kms:<key id>, or nothing")
    return value


Encryption = Annotated[str, AfterValidator(_known_encryption)]
"""How an S3 server encrypts what is uploaded from now on; "": as its bucket says. Readers need not know."""


class S3Settings(BaseModel):
    """How to reach an S3-compatible server; nothing here is secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint_url: str | None = None  # None: AWS_ENDPOINT_URL, else AWS itself
    region: str | None = None  # None: the AWS chain's (AWS_DEFAULT_REGION), else us-east-1
    path_style: bool = True  # MinIO, SeaweedFS and Ceph have no bucket host names
    encryption: Encryption = ""
    secret_file: Path | None = None  # AWS shared-credentials file (a mounted Kubernetes secret); None: the AWS chain
    secret_profile: str = "default"
    part_mib: int = Field(default=16, ge=5)  # at most 10,000 parts an object: parts of files over 156 GiB are larger
    max_attempts: int = Field(default=8, ge=1)  # of a request; the pauses double, 16 to 32 s in all: a restart is borne
    connect_timeout_s: float = Field(default=10.0, gt=0)
    read_timeout_s: float = Field(default=60.0, gt=0)
    abandon_uploads_after_days: float = Field(default=7.0, ge=0)  # unfinished ones of any key below the same prefix


class Objects(Protocol):
    """A flat space of keys. Writes are all or nothing: a key is absent or holds the whole object."""

    def keys(self) -> list[str]:
        """All keys, sorted."""
        ...

    def sizes(self, below: str = "") -> dict[str, int]:
        """Bytes of every object whose key starts with `below`, which is empty or ends with a slash."""
        ...

    def size(self, key: str) -> int | None:
        """Bytes stored under `key`, None when there is no such object."""
        ...

    def read(self, key: str) -> bytes:
        """The whole object; for manifests, not for weights. Raises KeyError when there is none."""
        ...

    def write(self, key: str, data: bytes) -> None: ...

    def upload(self, source: Path, key: str, sha256: str) -> None:
        """Store a file whose SHA-256 is `sha256`. One that failed half-way is continued when it is called again."""
        ...

    def download(self, key: str, target: Path) -> str:
        """Write the object to `target`; the SHA-256 of its bytes. Raises KeyError when there is no such object."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object if it is there."""
        ...


class FolderObjects:
    """Objects as files below `root`; the embedded form for laptops and tests."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def keys(self) -> list[str]:
        return sorted(self.sizes())

    def sizes(self, below: str = "") -> dict[str, int]:
        files = (path for path in (self.root / below).rglob("*") if path.is_file() and not _ARRIVING.match(path.name))
        return {path.relative_to(self.root).as_posix(): path.stat().st_size for path in files}

    def size(self, key: str) -> int | None:
        path = self.root / key
        return path.stat().st_size if path.is_file() else None

    def read(self, key: str) -> bytes:
        try:
            return (self.root / key).read_bytes()
        except FileNotFoundError:
            raise KeyError(key) from None

    def write(self, key: str, data: bytes) -> None:
        with self._arriving(key) as temporary:
            temporary.write_bytes(data)

    def upload(self, source: Path, key: str, sha256: str) -> None:
        with self._arriving(key) as temporary:
            shutil.copyfile(source, temporary)

    def download(self, key: str, target: Path) -> str:
        if self.size(key) is None:
            raise KeyError(key)
        shutil.copyfile(self.root / key, target)
        return sha256_of(target)

    def delete(self, key: str) -> None:
        (self.root / key).unlink(missing_ok=True)

    @contextmanager
    def _arriving(self, key: str) -> Iterator[Path]:
        """A temporary file that takes the key's name only once it is complete and on the disk."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        _abandon_stale(path.parent)
        temporary = path.with_name(f".{uuid.uuid4().hex}.part")
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


_ARRIVING = re.compile(r"\.[0-9a-f]{32}\.part$")
_STALE_S = 7 * 86400


def _abandon_stale(folder: Path) -> None:
    """Remove what killed processes left half-written a week ago: weights would fill the disk."""
    for path in folder.glob(".*.part"):
        if _ARRIVING.match(path.name) and path.stat().st_mtime < time.time() - _STALE_S:
            path.unlink(missing_ok=True)


def open_objects(uri: str, s3: S3Settings | None = None) -> Objects:
    """Objects at `s3://bucket[/prefix]`, `file:///folder` or a folder path. Raises InputError for other schemes."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return FolderObjects(Path(uri))
    if scheme == "file" and rest.startswith("/"):
        return FolderObjects(Path(rest))
    bucket, _, prefix = rest.partition("/")
    if scheme == "s3" and bucket:
        from components.integrations.s3 import S3Objects  # here: a folder needs no boto3

        return S3Objects(bucket, prefix, s3 or S3Settings())
    raise InputError([Fault("settings", "store", uri, "s3://bucket[/prefix], file:///folder or a folder path")])


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
