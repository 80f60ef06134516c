"""Keys and bytes, in an S3 bucket or in a folder: the two places where `storage.Store` keeps content.

Credentials come from the standard AWS chain or from a secret file, and appear in no message: errors of ours name
bucket, key and endpoint.
"""

import configparser
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict, Field

from components.avatar.errors import Fault, InputError, SystemFault, file_fault

MIB = 1024 * 1024
_CREDENTIALS = ("aws_access_key_id", "aws_secret_access_key")


class S3Settings(BaseModel):
    """How to reach an S3-compatible server; nothing here is secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint_url: str | None = None  # None: AWS itself
    region: str = "us-east-1"
    path_style: bool = True  # MinIO, SeaweedFS and Ceph have no bucket host names
    server_side_encryption: Literal["AES256", "aws:kms"] | None = None
    kms_key_id: str | None = None
    secret_file: Path | None = None  # AWS shared-credentials file (a mounted Kubernetes secret); None: the AWS chain
    secret_profile: str = "default"
    part_mib: int = Field(default=64, ge=5)  # S3 takes at most 10,000 parts: 64 MiB allows files of 625 GiB
    max_attempts: int = Field(default=6, ge=1)  # of a request; exponential backoff, jitter (botocore "standard")
    connect_timeout_s: float = Field(default=10.0, gt=0)
    read_timeout_s: float = Field(default=60.0, gt=0)


class Objects(Protocol):
    """A flat space of keys. Writes are all or nothing: a key is absent or holds the whole object."""

    def keys(self) -> list[str]:
        """All keys, sorted."""
        ...

    def size(self, key: str) -> int | None:
        """Bytes stored under `key`, None when there is no such object."""
        ...

    def read(self, key: str) -> bytes:
        """The whole object; for manifests, not for weights. Raises KeyError when there is none."""
        ...

    def write(self, key: str, data: bytes) -> None: ...

    def upload(self, source: Path, key: str, sha256: str) -> None: ...

    def download(self, key: str, target: Path) -> None:
        """Raises KeyError when there is no such object."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object if it is there."""
        ...


class FolderObjects:
    """Objects as files below `root`; the embedded form for laptops and tests."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def keys(self) -> list[str]:
        files = (path for path in self.root.rglob("*") if path.is_file() and not path.name.startswith("."))
        return sorted(path.relative_to(self.root).as_posix() for path in files)

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

    def download(self, key: str, target: Path) -> None:
        if self.size(key) is None:
            raise KeyError(key)
        shutil.copyfile(self.root / key, target)

    def delete(self, key: str) -> None:
        (self.root / key).unlink(missing_ok=True)

    @contextmanager
    def _arriving(self, key: str) -> Iterator[Path]:
        """A temporary file that takes the key's name only once it is complete and on the disk."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{uuid.uuid4().hex}.part")
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


class S3Objects:
    """Objects below a prefix of an S3 bucket, with retries, multipart transfer and SHA-256 checksums."""

    def __init__(self, bucket: str, prefix: str, settings: S3Settings) -> None:
        self.bucket = bucket
        self.prefix = prefix.strip("/")
        config = Config(
            region_name=settings.region,
            retries={"max_attempts": settings.max_attempts, "mode": "standard"},
            connect_timeout=settings.connect_timeout_s,
            read_timeout=settings.read_timeout_s,
            s3={"addressing_style": "path" if settings.path_style else "auto"},
        )
        secret = _secret(settings.secret_file, settings.secret_profile) if settings.secret_file else {}
        self._client = boto3.Session(**secret).client("s3", endpoint_url=settings.endpoint_url, config=config)
        self._where = f"s3://{bucket} at {self._client.meta.endpoint_url}"
        self._transfer = TransferConfig(
            multipart_threshold=settings.part_mib * MIB, multipart_chunksize=settings.part_mib * MIB, max_concurrency=4
        )
        self._encryption: dict[str, str] = {}
        if settings.server_side_encryption:
            self._encryption["ServerSideEncryption"] = settings.server_side_encryption
        if settings.kms_key_id:
            self._encryption["SSEKMSKeyId"] = settings.kms_key_id

    def keys(self) -> list[str]:
        root = self._key("")
        with self._faults(""):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=root)
            return sorted(row["Key"].removeprefix(root) for page in pages for row in page.get("Contents", ()))

    def size(self, key: str) -> int | None:
        try:
            with self._faults(key):
                return self._client.head_object(Bucket=self.bucket, Key=self._key(key))["ContentLength"]
        except KeyError:
            return None

    def read(self, key: str) -> bytes:
        with self._faults(key):
            return self._client.get_object(Bucket=self.bucket, Key=self._key(key))["Body"].read()

    def write(self, key: str, data: bytes) -> None:
        with self._faults(key):
            self._client.put_object(
                Bucket=self.bucket, Key=self._key(key), Body=data, ChecksumAlgorithm="SHA256", **self._encryption
            )

    def upload(self, source: Path, key: str, sha256: str) -> None:
        # With ChecksumAlgorithm each part travels with its SHA-256 and the server refuses a damaged one; the digest of
        # the whole file, which S3 does not compute for multipart uploads, goes along as metadata.
        extra = {"ChecksumAlgorithm": "SHA256", "Metadata": {"sha256": sha256}, **self._encryption}
        with self._faults(key):
            self._client.upload_file(str(source), self.bucket, self._key(key), ExtraArgs=extra, Config=self._transfer)
        if self.size(key) != source.stat().st_size:
            raise SystemFault(f"{self._where}: {self._key(key)} has another size than {source} after the upload")

    def download(self, key: str, target: Path) -> None:
        with self._faults(key):
            self._client.download_file(self.bucket, self._key(key), str(target), Config=self._transfer)

    def delete(self, key: str) -> None:
        with self._faults(key):
            self._client.delete_object(Bucket=self.bucket, Key=self._key(key))

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}" if self.prefix else key

    @contextmanager
    def _faults(self, key: str) -> Iterator[None]:
        """KeyError for an absent object; any other failure is our side's, named without the signed request."""
        try:
            yield
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "unknown error")
            if code in ("404", "NoSuchKey", "NotFound"):
                raise KeyError(key) from None
            raise SystemFault(f"{self._where}: {error.operation_name} of {self._key(key)}: {code}") from None
        except Boto3Error as error:  # a transfer that failed for good; its text names file, key and the server's answer
            raise SystemFault(f"{self._where}: {self._key(key)}: {error}") from None
        except BotoCoreError as error:
            raise SystemFault(f"{self._where}: {self._key(key)}: {type(error).__name__}: {error}") from None


def open_objects(uri: str, s3: S3Settings | None = None) -> Objects:
    """Objects at `s3://bucket[/prefix]`, `file:///folder` or a folder path. Raises InputError for other schemes."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return FolderObjects(Path(uri))
    if scheme == "file" and rest.startswith("/"):
        return FolderObjects(Path(rest))
    bucket, _, prefix = rest.partition("/")
    if scheme == "s3" and bucket:
        return S3Objects(bucket, prefix, s3 or S3Settings())
    raise InputError([Fault("settings", "store", uri, "s3://bucket[/prefix], file:///folder or a folder path")])


def _secret(path: Path, profile: str) -> dict[str, str]:
    """Session arguments from a shared-credentials file; faults name the file and the key, never a value."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([file_fault(path, type(error).__name__, "a readable AWS shared-credentials file")]) from None
    except configparser.Error as error:
        raise InputError([file_fault(path, type(error).__name__, "an AWS shared-credentials file (INI)")]) from None
    if not parser.has_section(profile):
        raise InputError([Fault(str(path), f"[{profile}]", "no such section", "a section with the two keys")])
    section = parser[profile]
    faults = [Fault(str(path), f"[{profile}] {k}", "nothing", "a value") for k in _CREDENTIALS if not section.get(k)]
    if faults:
        raise InputError(faults)
    return {k: section[k] for k in (*_CREDENTIALS, "aws_session_token") if section.get(k)}
