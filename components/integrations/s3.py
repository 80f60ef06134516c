"""Objects below a prefix of an S3 bucket: checksums on every byte sent, large objects in parts.

boto3's own transfers abort an upload that fails, so that the next attempt sends every byte again, and leave hashing to
a second reading of the file. Here an unfinished multipart upload stays on the server and is continued by the next call
for the same key, in this process or another: a part that the server holds with the right checksum is not sent again.
Downloads are hashed while they arrive. Memory: a few parts (`part_mib`), whatever the size of the object.
"""

import hashlib
import mimetypes
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import FileIO
from pathlib import Path
from typing import Any

from components.avatar.errors import SystemFault
from components.integrations.objects import MIB, S3Settings
from components.integrations.s3_client import Answer, NotS3, S3Client, S3Fault

THREADS = 4
RANGE_BYTES = 8 * MIB  # of a download; measured: larger ones wait longer for the first byte to hash
MAX_PARTS = 10_000  # of S3

# Another process completed or aborted the upload that we were continuing, or sent other parts to it.
_LOST = {"NoSuchUpload", "InvalidPart", "InvalidPartOrder", "EntityTooSmall"}
_NOT_LISTED = {"AccessDenied", "NotImplemented", "MethodNotAllowed"}  # unfinished uploads: then none is continued


class S3Objects:
    def __init__(self, bucket: str, prefix: str, settings: S3Settings) -> None:
        self.prefix = prefix.strip("/")
        self._client = S3Client(bucket, settings)
        self._part_bytes = settings.part_mib * MIB
        scheme = "aws:kms" if settings.encryption.startswith("aws:kms") else settings.encryption
        key = settings.encryption.removeprefix(scheme).removeprefix(":")
        self._encryption = {k: v for k, v in (("ServerSideEncryption", scheme), ("SSEKMSKeyId", key)) if v}
        self._stale = timedelta(days=settings.abandon_uploads_after_days)

    def keys(self) -> list[str]:
        return sorted(self.sizes())

    def sizes(self, below: str = "") -> dict[str, int]:
        return {key: size for key, size, _ in self.listed(below)}

    def listed(self, below: str = "") -> Iterator[tuple[str, int, str]]:
        """Key, bytes and entity tag of every object, sorted by key. The tag changes when the content does."""
        root, more = self._key(""), {}
        while True:
            page = self._client.request("list_objects_v2", _listing, Prefix=self._key(below), **more)
            for row in page.get("Contents", ()):
                yield row["Key"].removeprefix(root), row["Size"], row["ETag"]
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def size(self, key: str) -> int | None:
        try:
            return self._head(key)["ContentLength"]
        except KeyError:
            return None

    def read(self, key: str) -> bytes:
        return self._client.request("get_object", lambda answer: _object(answer)["Body"].read(), Key=self._key(key))

    def write(self, key: str, data: bytes) -> None:
        self._put(key, data, hashlib.sha256(data).digest(), {})

    def upload(self, source: Path, key: str, sha256: str) -> None:
        size = source.stat().st_size
        headers: dict[str, Any] = {"Metadata": {"sha256": sha256}}
        content_type, packing = mimetypes.guess_type(key)
        if content_type and not packing:
            headers["ContentType"] = content_type  # reports and data docs open in a browser from where they lie
        if size > self._part_bytes:
            self._upload_in_parts(source, key, size, headers)
            return
        data = source.read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise _changed(source)
        self._put(key, data, bytes.fromhex(sha256), headers)

    def download(self, key: str, target: Path) -> str:
        size = self._head(key)["ContentLength"]
        length = min(self._part_bytes, RANGE_BYTES)
        digest = hashlib.sha256()
        with target.open("w+b", buffering=0) as file, ThreadPoolExecutor(THREADS) as pool:
            ranges = range(0, size, length)
            for end in pool.map(lambda start: self._fetch(key, start, min(start + length, size), size, file), ranges):
                while data := file.read(min(MIB, end - file.tell())):  # in order, while later ranges arrive
                    digest.update(data)
        return digest.hexdigest()

    def delete(self, key: str) -> None:
        self._client.request("delete_object", _deleted, Key=self._key(key))

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{key}" if self.prefix else key

    def _head(self, key: str) -> Answer:
        return self._client.request("head_object", _object, Key=self._key(key))

    def _put(self, key: str, data: bytes, sha256: bytes, headers: Mapping[str, Any]) -> None:
        checksum = b64encode(sha256).decode()
        self._client.request(
            "put_object",
            _object,
            **{"Key": self._key(key), "Body": data, "ChecksumSHA256": checksum, **headers, **self._encryption},
        )
        if self._encryption and not self._stored(key, len(data)):
            raise self._not_as_asked(key, len(data))

    def _stored(self, key: str, size: int) -> bool:
        """Whether the object is there, whole and encrypted as asked."""
        try:
            head = self._head(key)
        except KeyError:
            return False
        asked = self._encryption.get("ServerSideEncryption")
        return head["ContentLength"] == size and (asked is None or head.get("ServerSideEncryption") == asked)

    def _not_as_asked(self, key: str, size: int) -> SystemFault:
        encryption = self._encryption.get("ServerSideEncryption", "not asked for")
        return SystemFault(
            f"{self._client.where}: {self._key(key)} is not stored as asked: {size} bytes, encryption {encryption}"
        )

    def _fetch(self, key: str, start: int, end: int, size: int, file: FileIO) -> int:
        """Write bytes `start` to `end` of an object of `size` bytes to their place in `file`; returns `end`."""

        def accept(answer: Answer) -> int:
            if answer.get("ContentRange") != f"bytes {start}-{end - 1}/{size}":
                raise NotS3
            at = start
            while data := answer["Body"].read(MIB // 4):
                at += os.pwrite(file.fileno(), data, at)
            return at

        return self._client.request("get_object", accept, Key=self._key(key), Range=f"bytes={start}-{end - 1}")

    def _upload_in_parts(self, source: Path, key: str, size: int, headers: Mapping[str, Any]) -> None:
        lengths = part_lengths(size, self._part_bytes)
        self._abandon_stale()
        begun = self._resumable(key, lengths)
        if begun is not None and self._complete(source, key, lengths, *begun):
            return
        answer = self._client.request(
            "create_multipart_upload",
            _upload,
            **{"Key": self._key(key), "ChecksumAlgorithm": "SHA256", **headers, **self._encryption},
        )
        if not self._complete(source, key, lengths, answer["UploadId"], {}):
            raise self._not_as_asked(key, size)

    def _resumable(self, key: str, lengths: list[int]) -> tuple[str, dict[int, Answer]] | None:
        """The unfinished upload of this key, cut into the same parts, of which most has arrived; and what has."""
        begun = []
        for upload in self._unfinished(key):
            if upload["Key"] == self._key(key):
                parts = self._parts(key, upload["UploadId"])
                if all(n <= len(lengths) and part["Size"] == lengths[n - 1] for n, part in parts.items()):
                    begun.append((upload["UploadId"], parts))
        return max(begun, key=lambda upload: len(upload[1]), default=None)

    def _unfinished(self, below: str) -> list[Answer]:
        """Unfinished multipart uploads of keys that start with `below`."""
        rows: list[Answer] = []
        more: dict[str, str] = {}
        while True:
            try:
                page = self._client.request("list_multipart_uploads", _listed, Prefix=self._key(below), **more)
            except S3Fault as fault:
                if fault.code in _NOT_LISTED:
                    return []
                raise
            rows += page.get("Uploads", ())
            if not page.get("IsTruncated"):
                return rows
            more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def _parts(self, key: str, upload_id: str) -> dict[int, Answer]:
        rows: list[Answer] = []
        more: dict[str, int] = {}
        while True:
            try:
                page = self._client.request("list_parts", _upload, Key=self._key(key), UploadId=upload_id, **more)
            except S3Fault as fault:
                if fault.code in _LOST:
                    return {}
                raise
            rows += page.get("Parts", ())
            if not page.get("IsTruncated"):
                return {row["PartNumber"]: row for row in rows}
            more = {"PartNumberMarker": page["NextPartNumberMarker"]}

    def _complete(self, source: Path, key: str, lengths: list[int], upload_id: str, there: dict[int, Answer]) -> bool:
        """Send the parts that are not there yet and complete the upload; whether the object is now as asked."""
        name = {"Key": self._key(key), "UploadId": upload_id}

        def send(number: int) -> Answer:
            with source.open("rb") as file:
                file.seek((number - 1) * lengths[0])
                data = file.read(lengths[number - 1])
            if len(data) != lengths[number - 1]:
                raise _changed(source)
            checksum = b64encode(hashlib.sha256(data).digest()).decode()
            part = there.get(number)
            if part is None or not _holds(part, data, checksum):
                part = self._client.request(
                    "upload_part", _object, **name, PartNumber=number, Body=data, ChecksumSHA256=checksum
                )
            return {"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": checksum}

        try:
            with ThreadPoolExecutor(THREADS) as pool:
                parts = list(pool.map(send, range(1, len(lengths) + 1)))
            self._client.request("complete_multipart_upload", _object, **name, MultipartUpload={"Parts": parts})
        except S3Fault as fault:
            if fault.code not in _LOST:
                raise
        return self._stored(key, sum(lengths))

    def _abandon_stale(self) -> None:
        """Abort what nobody continued for days: servers keep, and bill, the parts of unfinished uploads."""
        for upload in self._unfinished(""):
            if datetime.now(UTC) - upload["Initiated"] > self._stale:
                try:
                    self._client.request(
                        "abort_multipart_upload", lambda answer: None, Key=upload["Key"], UploadId=upload["UploadId"]
                    )
                except S3Fault as fault:
                    if fault.code not in _LOST:
                        raise


def part_lengths(size: int, part_bytes: int) -> list[int]:
    """Bytes of each part of an object of `size` bytes: `part_bytes`, or more where S3 would not take that many."""
    part = max(part_bytes, -(-size // MAX_PARTS))
    return [min(part, size - start) for start in range(0, size, part)]


def _with(field: str, answer: Answer) -> Answer:
    if not answer.get(field):
        raise NotS3
    return answer


def _object(answer: Answer) -> Answer:
    """Every answer about an object or a part has an ETag; a proxy's page has none."""
    return _with("ETag", answer)


def _upload(answer: Answer) -> Answer:
    return _with("UploadId", answer)


def _listing(answer: Answer) -> Answer:
    return _with("Name", answer)


def _listed(answer: Answer) -> Answer:
    return _with("Bucket", answer)


def _deleted(answer: Answer) -> None:
    if answer["ResponseMetadata"]["HTTPStatusCode"] != 204:
        raise NotS3


def _holds(part: Answer, data: bytes, checksum: str) -> bool:
    """Whether an uploaded part is these bytes: by its checksum, or by MD5 on servers that list none."""
    if part.get("ChecksumSHA256"):
        return part["ChecksumSHA256"] == checksum
    return part["ETag"].strip('"') == hashlib.md5(data, usedforsecurity=False).hexdigest()


def _changed(source: Path) -> SystemFault:
    return SystemFault(f"{source} changed while it was being stored")
