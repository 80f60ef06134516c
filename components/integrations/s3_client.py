"""One S3 bucket through boto3: requests that are tried again while a failure may pass, and errors in plain words.

botocore's own retries pause 1.6 s at most in all, less than any server takes to restart, and do not cover a body that
breaks off or a proxy that answers 200 with a page of its own. They are off; the loop here covers all of these.

Credentials come from the standard AWS chain or from a secret file, and appear in no message: errors name bucket, key
and endpoint.
"""

import configparser
import logging
import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
)
from botocore.exceptions import ConnectionError as NoConnectionError
from botocore.parsers import ResponseParserError

from components.avatar.errors import Fault, InputError, SystemFault, file_fault
from components.integrations.objects import S3Settings

T = TypeVar("T")
Answer = dict[str, Any]


class NotS3(Exception):
    """An answer that no S3 server gives: a proxy's page, rubbish."""


FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 16.0
_CREDENTIALS = ("aws_access_key_id", "aws_secret_access_key")
_PASSING_STATUS = {429, 500, 502, 503, 504}
_PASSING_CODES = {
    *("RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "OperationAborted", "IncompleteBody"),
    *("BadDigest", "XAmzContentSHA256Mismatch", "MalformedXML"),  # bytes damaged on the way
}
_NOT_S3 = (NotS3, ResponseParserError)
_PASSING_ERRORS = (*_NOT_S3, HTTPClientError, NoConnectionError, IncompleteReadError, FlexibleChecksumError)
_MEANINGS = {
    "403": "the credentials are wrong or may not do this",
    "Forbidden": "the credentials are wrong or may not do this",
    "AccessDenied": "the credentials are wrong or may not do this",
    "InvalidAccessKeyId": "the server does not know this access key",
    "SignatureDoesNotMatch": "the secret key is wrong",
    "ExpiredToken": "the credentials have expired",
    "NoSuchBucket": "there is no such bucket",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
    "BadDigest": "bytes were damaged on the way",
    "XAmzContentSHA256Mismatch": "bytes were damaged on the way",
    "MalformedXML": "bytes were damaged on the way",
}


class S3Fault(SystemFault):
    """A request that failed for good. `code` is the server's error code, empty when it gave none."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class S3Client:
    """Requests to one bucket. Safe to share between threads."""

    def __init__(self, bucket: str, settings: S3Settings) -> None:
        self.bucket = bucket
        self._attempts = settings.max_attempts
        secret = _secret(settings.secret_file, settings.secret_profile) if settings.secret_file else {}
        try:
            session = boto3.Session(**secret)
            config = Config(
                region_name=settings.region or session.region_name or "us-east-1",
                retries={"total_max_attempts": 1, "mode": "standard"},
                connect_timeout=settings.connect_timeout_s,
                read_timeout=settings.read_timeout_s,
                # What is stored travels with its SHA-256 in a signed header: hashing it again to sign it adds nothing.
                s3={
                    "addressing_style": "path" if settings.path_style else "auto",
                    "payload_signing_enabled": False,
                },
            )
            self._client = session.client("s3", endpoint_url=settings.endpoint_url, config=config)
        except (BotoCoreError, ValueError) as error:  # an AWS profile that is not there, a malformed endpoint
            found = type(error).__name__ if "@" in str(error) else str(error)
            allowed = "http(s)://host[:port], and settings that boto3 accepts"
            raise InputError([Fault("S3", "endpoint or AWS configuration", found, allowed)]) from None
        endpoint = str(self._client.meta.endpoint_url)
        if "@" in urlsplit(endpoint).netloc:
            allowed = "http(s)://host[:port]; credentials come from the AWS chain or a secret file"
            raise InputError([Fault("S3", "endpoint", "an address with a user name or password in it", allowed)])
        self.where = f"s3://{bucket} at {endpoint}"

    def request(self, operation: str, accept: Callable[[Answer], T], **parameters: Any) -> T:
        """What `accept` makes of the answer to an operation of boto3's client on this bucket.

        `accept` raises NotS3 for an answer that lacks what every S3 server gives. Raises KeyError for an absent object,
        S3Fault when the request cannot succeed or still fails after the last attempt.
        """
        for attempt in count(1):
            try:
                return accept(getattr(self._client, operation)(Bucket=self.bucket, **parameters))
            except (ClientError, BotoCoreError, ResponseParserError, NotS3) as error:
                if _is_absent(operation, error):
                    raise KeyError(parameters["Key"]) from None
                key = parameters.get("Key", parameters.get("Prefix", ""))
                fault = S3Fault(f"{self.where}: {operation} {key}: {_described(error)}", _code(error))
                if attempt >= self._attempts or not _may_pass(error):
                    raise fault from None
            pause = min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S) * random.uniform(0.5, 1)
            logging.getLogger(__name__).warning("%s; trying again in %.1f s", fault, pause)
            time.sleep(pause)
        raise AssertionError  # count() does not end


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def _is_absent(operation: str, error: Exception) -> bool:
    """Only HEAD, which has no body, may say a bare 404: from other operations that is a server of something else."""
    return _code(error) == "NoSuchKey" or (operation == "head_object" and _code(error) in ("404", "NotFound"))


def _may_pass(error: Exception) -> bool:
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return status in _PASSING_STATUS or _code(error) in _PASSING_CODES
    return isinstance(error, _PASSING_ERRORS)


def _described(error: Exception) -> str:
    """In words, without the server's own text: that may repeat what was sent."""
    if isinstance(error, ClientError):
        code = _code(error) or "an error without a code"
        return f"{code} ({_MEANINGS[code]})" if code in _MEANINGS else code
    if isinstance(error, _NOT_S3):
        return "an answer that is not S3's (a proxy before the server, or another server?)"
    return f"{type(error).__name__}: {error}"


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
