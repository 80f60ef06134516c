"""The receiver takes what MLflow signed, once and in time, and nothing else."""

import json
import sqlite3
import threading
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from mlflow.webhooks.constants import WEBHOOK_DELIVERY_ID_HEADER, WEBHOOK_SIGNATURE_HEADER, WEBHOOK_TIMESTAMP_HEADER
from mlflow.webhooks.delivery import _generate_hmac_signature

from components.avatar.errors import InputError, SystemFault
from components.canary_deploy import webhook
from components.canary_deploy.inbox import KEEP_S, Delivery, Inbox
from components.canary_deploy.webhook import MAX_BYTES, PATH, WINDOW_S, create_app, read_secrets, sign

SECRET = "a secret of this test"
NOW = 1_800_000_000.0
MODEL = "avatar-agent"


class Receiver:
    """The app with a clock of its own, and a sender that signs as MLflow does."""

    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.woken = 0
        self.secret_file = folder / "secret"
        self.secret_file.write_text(SECRET + "\n")
        self.inbox = Inbox(folder / "state" / "inbox.db")
        health = {"ready": True}
        app = create_app(MODEL, self.secret_file, self.inbox, self.wake, lambda: health, lambda: self.now)
        self.client, self.health = TestClient(app), health

    def wake(self) -> None:
        self.woken += 1

    def send(self, body: bytes | None = None, *, delivery="d1", sent=NOW, secret=SECRET, **headers: str) -> int:
        body = event() if body is None else body
        signature = _generate_hmac_signature(secret, delivery, str(int(sent)), body.decode("utf-8", "replace"))
        given = {
            WEBHOOK_DELIVERY_ID_HEADER.lower(): delivery,
            WEBHOOK_TIMESTAMP_HEADER.lower(): str(int(sent)),
            WEBHOOK_SIGNATURE_HEADER.lower(): signature,
        }
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        response = self.client.post(PATH, content=body, headers={k: v.encode("utf-8") for k, v in given.items() if v})
        assert response.json()["detail"]
        return response.status_code


def event(
    action="created", alias="canary", version: str | None = "2", name=MODEL, entity="model_version_alias"
) -> bytes:
    data = {"name": name, "alias": alias} | ({"version": version} if version else {})
    sent = "2027-01-15T08:00:00+00:00"
    return json.dumps({"entity": entity, "action": action, "timestamp": sent, "data": data}).encode()


@pytest.fixture
def receiver(tmp_path: Path) -> Receiver:
    return Receiver(tmp_path)


def test_a_signed_delivery_is_stored_and_wakes_the_worker(receiver: Receiver) -> None:
    assert receiver.send() == 202
    assert receiver.woken == 1
    assert receiver.inbox.waiting() == [Delivery("d1", "created", "canary", "2", 1_800_000_000.0, NOW)]
    assert receiver.send(event("deleted", version=""), delivery="d2") == 202
    assert receiver.inbox.waiting()[1].version == ""


def test_our_signature_is_mlflows() -> None:
    body = event()
    assert sign(SECRET, "d1", "1800000000", body) == _generate_hmac_signature(SECRET, "d1", "1800000000", body.decode())


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"secret": "another secret of this test"}, 401),
        ({"x_mlflow_signature": ""}, 401),
        ({"x_mlflow_signature": "v1,"}, 401),
        ({"x_mlflow_signature": "v1,not base64 ü"}, 401),
        ({"x_mlflow_delivery_id": "d2"}, 401),
        ({"x_mlflow_delivery_id": ""}, 401),
        ({"x_mlflow_timestamp": str(int(NOW) + 1)}, 401),
        ({"x_mlflow_timestamp": "soon"}, 401),
        ({"x_mlflow_timestamp": ""}, 401),
        ({"sent": NOW - WINDOW_S - 1}, 401),
        ({"sent": NOW + WINDOW_S + 1}, 401),
        ({"sent": NOW - WINDOW_S}, 202),
        ({"sent": NOW + WINDOW_S}, 202),
        ({"body": b"not json"}, 400),
        ({"body": b"[]"}, 400),
        ({"body": b"\xff\xfe"}, 401),
        ({"body": json.dumps({"entity": "model_version_alias", "action": "created"}).encode()}, 400),
        ({"body": event(alias="canary").replace(b'"2"', b"[]")}, 400),
        ({"body": event().replace(b"2027-01-15T08:00:00+00:00", b"yesterday")}, 400),
        ({"body": b" " * (MAX_BYTES + 1)}, 413),
    ],
)
def test_what_is_taken_and_what_is_refused(receiver: Receiver, changes: dict, status: int) -> None:
    assert receiver.send(**changes) == status
    assert len(receiver.inbox.waiting()) == receiver.woken == (status == 202)


def test_a_body_changed_on_the_way_is_refused(receiver: Receiver) -> None:
    signature = sign(SECRET, "d1", str(int(NOW)), event(version="2"))
    assert receiver.send(event(version="3"), x_mlflow_signature=signature) == 401


@pytest.mark.parametrize(
    "body",
    [event(name="example_model"), event(entity="prompt_alias"), event("set", entity="model_version_tag")],
)
def test_other_models_and_events_are_thanked_and_dropped(receiver: Receiver, body: bytes) -> None:
    assert receiver.send(body) == 202
    assert receiver.inbox.waiting() == [] and receiver.woken == 0


def test_a_replay_is_refused_also_after_a_restart_and_when_done(receiver: Receiver, tmp_path: Path) -> None:
    assert receiver.send() == 202
    assert receiver.send() == 409
    again = Receiver(tmp_path)
    assert again.send() == 409
    again.inbox.done(again.inbox.waiting(), NOW)
    assert again.inbox.waiting() == []
    assert again.send() == 409 and again.woken == 0
    assert again.send(delivery="d2") == 202


def test_ids_outlive_the_time_window(receiver: Receiver) -> None:
    assert KEEP_S > 2 * WINDOW_S
    receiver.send()
    receiver.inbox.done(receiver.inbox.waiting(), NOW)
    receiver.now = NOW + KEEP_S + 1
    assert receiver.send(delivery="d2", sent=receiver.now) == 202  # forgets d1 ...
    assert receiver.send() == 401  # ... which is too old by now


def test_one_of_many_threads_wins(receiver: Receiver) -> None:
    taken: list[bool] = []
    delivery = Delivery("d1", "created", "canary", "2", NOW, NOW)
    threads = [threading.Thread(target=lambda: taken.append(receiver.inbox.put(delivery))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 7 + [True]


def test_a_secret_is_changed_without_a_restart(receiver: Receiver) -> None:
    receiver.secret_file.write_text(f"the next secret of this test\n{SECRET}\n")
    assert receiver.send(secret="the next secret of this test") == 202
    assert receiver.send(delivery="d2") == 202
    receiver.secret_file.write_text("the next secret of this test\n")
    assert receiver.send(delivery="d3") == 401


@pytest.mark.parametrize("text", [None, "", "\n\n", "short", f"{SECRET}\nshort"])
def test_a_secret_file_that_will_not_do(receiver: Receiver, text: str | None, capsys) -> None:
    if text is None:
        receiver.secret_file.unlink()
    else:
        receiver.secret_file.write_text(text)
    with pytest.raises(InputError, match="one secret a line"):
        read_secrets(receiver.secret_file)
    assert receiver.send() == 503  # MLflow tries again
    assert str(receiver.secret_file) in capsys.readouterr().out
    assert receiver.inbox.waiting() == []


def test_a_disk_that_fails_is_no_thanks(receiver: Receiver) -> None:
    with sqlite3.connect(receiver.inbox.path) as db:
        db.execute("DROP TABLE deliveries")
    assert receiver.send() == 503
    with pytest.raises(SystemFault, match=r"inbox\.db"):
        receiver.inbox.waiting()


def test_signatures_are_compared_in_constant_time(receiver: Receiver, monkeypatch) -> None:
    compared = []
    monkeypatch.setattr(webhook.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    receiver.secret_file.write_text(f"{SECRET}\nthe next secret of this test\n")
    assert receiver.send() == 202
    assert len(compared) == 2  # a match ends nothing early


def test_healthz(receiver: Receiver) -> None:
    assert receiver.client.get("/healthz").status_code == 200
    receiver.health["ready"] = False
    assert receiver.client.get("/healthz").status_code == 503
    assert receiver.client.get("/docs").status_code == 404
