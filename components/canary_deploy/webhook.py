"""The receiver of MLflow's registry webhooks: POST /webhooks/mlflow.

A request is taken when it is signed with a secret of the secret file, was sent within `WINDOW_S`, and its delivery id
is new; it is answered as soon as it lies on disk, and worked off later. MLflow signs as Standard Webhooks do, under
headers of its own: base64 of HMAC-SHA256 over "<delivery id>.<seconds since 1970>.<body>".

    202 taken, or of no concern (another model, another event)     401 not signed by us, or outside the time window
    400 signed, but not what MLflow sends    409 a replay           413 too large    503 our disk or secret file fails
"""

import base64
import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool

from components.avatar.errors import InputError, SystemFault, file_fault
from components.canary_deploy.inbox import Delivery, Inbox

PATH = "/webhooks/mlflow"
EVENTS = ("model_version_alias.created", "model_version_alias.deleted")
WINDOW_S = 300.0  # as Standard Webhooks recommends; MLflow's three tries take seconds
MAX_BYTES = 64 * 1024
MIN_SECRET = 16  # characters

ID_HEADER, TIME_HEADER, SIGNATURE_HEADER = "x-mlflow-delivery-id", "x-mlflow-timestamp", "x-mlflow-signature"


class Refused(Exception):
    """A request that is not taken; `status` is the HTTP status of the answer."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Event(BaseModel):
    """What all of MLflow's deliveries have; `data` differs from event to event."""

    model_config = ConfigDict(frozen=True)
    entity: str
    action: str
    timestamp: AwareDatetime
    data: dict


class _AliasData(BaseModel):
    """`data` of an alias event; a `deleted` one names no version."""

    model_config = ConfigDict(frozen=True)
    name: str
    alias: str
    version: str = ""


def read_secrets(path: Path) -> list[str]:
    """The secrets of a file, one a line: during a change of the secret the old and the new one.

    Raises InputError when the file cannot be read or holds a secret of fewer than `MIN_SECRET` characters.
    """
    wanted = f"one secret a line, each of at least {MIN_SECRET} characters"
    try:
        found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([file_fault(path, str(error), wanted)]) from error
    if not found or min(map(len, found)) < MIN_SECRET:
        shortest = f"one of {min(map(len, found))} characters" if found else "none"
        raise InputError([file_fault(path, shortest, wanted, "secret")])
    return found


def sign(secret: str, delivery_id: str, sent: str, body: bytes) -> str:
    """MLflow's signature of a delivery: `v1,<base64>`."""
    content = f"{delivery_id}.{sent}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret.encode(), content, "sha256")).decode()


def verify(secrets: Sequence[str], headers: Mapping[str, str], body: bytes, now: float) -> str:
    """The id of a delivery that one of `secrets` signed no longer than `WINDOW_S` ago. Raises Refused.

    Every pair of a secret and a signature is compared, each in constant time: how long it takes tells nothing.
    """
    delivery_id, sent = headers.get(ID_HEADER, ""), headers.get(TIME_HEADER, "")
    given = headers.get(SIGNATURE_HEADER, "")
    if not delivery_id or not sent or not given:
        raise Refused(401, f"headers {ID_HEADER}, {TIME_HEADER}, {SIGNATURE_HEADER} are needed")
    if not sent.isascii() or not sent.isdigit() or abs(now - int(sent[:12])) > WINDOW_S:
        raise Refused(401, f"{TIME_HEADER} is not within {WINDOW_S:g} s of this machine's clock")
    matches = False
    for signature in given.split()[:8]:
        for secret in secrets:
            matches |= hmac.compare_digest(signature.encode(), sign(secret, delivery_id, sent, body).encode())
    if not matches:
        raise Refused(401, "wrong signature")
    return delivery_id


def parse(model: str, delivery_id: str, body: bytes, now: float) -> Delivery | None:
    """A verified body as a Delivery; None if it concerns another event or another model. Raises Refused."""
    try:
        event = _Event.model_validate_json(body)
        if f"{event.entity}.{event.action}" not in EVENTS:
            return None
        data = _AliasData.model_validate(event.data)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, e["loc"])) or "body" for e in error.errors(include_url=False))
        raise Refused(400, f"not an event of MLflow: {fields}") from error
    if data.name != model:
        return None
    return Delivery(delivery_id, event.action, data.alias, data.version, event.timestamp.timestamp(), now)


def create_app(
    model: str,
    secret_file: Path,
    inbox: Inbox,
    wake: Callable[[], None],
    health: Callable[[], dict],
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """The receiver for the registered model `model`. `wake` is called after a delivery was stored; `health` is what
    GET /healthz tells (status 200 when its `ready` holds)."""
    app = FastAPI(title="promotion", docs_url=None, redoc_url=None, openapi_url=None)

    @app.post(PATH)
    async def receive(request: Request) -> JSONResponse:
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                return _answer(413, f"more than {MAX_BYTES} bytes")
        try:
            return await run_in_threadpool(take, dict(request.headers), bytes(body))
        except Refused as error:
            return _answer(error.status, str(error))
        except (InputError, SystemFault) as error:
            print(f"[promotion] cannot take deliveries: {error}", flush=True)
            return _answer(503, "cannot take deliveries now")  # MLflow tries again; no path is told

    def take(headers: dict[str, str], body: bytes) -> JSONResponse:
        now = clock()
        delivery_id = verify(read_secrets(secret_file), headers, body, now)
        delivery = parse(model, delivery_id, body, now)
        if delivery is None:
            return _answer(202, "of no concern")
        if not inbox.put(delivery):
            raise Refused(409, "this delivery was received before")
        wake()
        return _answer(202, "taken")

    @app.get("/healthz")
    def healthz() -> JSONResponse:
        found = health()
        return JSONResponse(found, 200 if found["ready"] else 503)

    return app


def _answer(status: int, why: str) -> JSONResponse:
    return JSONResponse({"detail": why}, status)
