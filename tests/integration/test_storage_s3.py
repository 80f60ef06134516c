"""storage.py against a real S3 server."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from components.avatar.errors import SystemFault
from components.canary_deploy.__main__ import main
from components.canary_deploy.drill import healthy_stream
from components.canary_deploy.events import write_events
from components.integrations.objects import MIB, S3Settings, open_objects
from components.integrations.s3 import S3Objects
from components.integrations.storage import Store, describe, fetch


@pytest.fixture
def prefix(request):
    return request.node.name


@pytest.fixture
def root(s3, prefix):
    return f"s3://{s3.bucket}/{prefix}"


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text('{"a": 1}')
    (folder / "sub" / "weights.safetensors").write_bytes(os.urandom(12 * MIB))
    (folder / "empty").write_bytes(b"")
    return folder


def test_multipart_upload_and_download_keep_every_byte(s3, root, prefix, tree, tmp_path):
    settings = s3.settings(part_mib=5)  # 12 MiB: three parts
    store = Store(root, settings)
    manifest = store.put(tree)
    head = s3.client().head_object(Bucket=s3.bucket, Key=f"{prefix}/{manifest.digest}/sub/weights.safetensors")
    assert head["ETag"].strip('"').endswith("-3")  # it really was multipart
    assert head["Metadata"]["sha256"] == manifest.files[-1].sha256
    assert store.present(manifest.digest)
    assert describe(fetch(manifest.uri, tmp_path / "got", settings)).digest == manifest.digest


def test_keys_are_those_below_the_prefix_only(s3, root):
    objects = open_objects(f"{root}/events", s3.settings())
    for number in range(5):
        objects.write(f"day=1/{number}.jsonl", b"{}")
    open_objects(f"{root}/eventsX", s3.settings()).write("other", b"")
    assert objects.keys() == [f"day=1/{number}.jsonl" for number in range(5)]


def test_the_canary_decides_on_event_batches_in_s3(s3, root, tmp_path, monkeypatch, capsys):
    stream = healthy_stream(0, rooms=60)
    (tmp_path / "state.json").write_text(stream.state.model_dump_json())
    write_events(tmp_path / "all.jsonl", stream.events)
    lines = (tmp_path / "all.jsonl").read_bytes().splitlines(keepends=True)
    batches = open_objects(f"{root}/events", s3.settings())
    batches.write("1.jsonl", b"".join(lines[: len(lines) // 2]))
    batches.write("2.jsonl", b"".join(lines[len(lines) // 2 :]))
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(s3.credentials))
    verdicts = []
    for source in (str(tmp_path / "all.jsonl"), f"{root}/events"):
        assert main(["decide", source, "--state", str(tmp_path / "state.json"), "--json"]) == 0
        verdicts.append(json.loads(capsys.readouterr().out))
    assert verdicts[0] == verdicts[1]
    assert main(["decide", f"{root}/nothing", "--state", str(tmp_path / "state.json")]) == 1


def test_the_same_content_is_uploaded_once(s3, root, prefix, tree, monkeypatch):
    store = Store(root, s3.settings())
    store.put(tree)
    monkeypatch.setattr(S3Objects, "upload", lambda *a: pytest.fail("uploaded again"))
    store.put(tree)


def test_a_deleted_object_is_missed_named_and_uploaded_again(s3, root, prefix, tree, tmp_path):
    store = Store(root, s3.settings())
    digest = store.put(tree).digest
    s3.client().delete_object(Bucket=s3.bucket, Key=f"{prefix}/{digest}/config.json")
    assert not store.present(digest)
    with pytest.raises(SystemFault, match=r"config\.json is missing"):
        store.get(digest, tmp_path / "got")
    store.put(tree)
    assert store.present(digest)


def test_damaged_objects_never_arrive(s3, root, prefix, tree, tmp_path):
    store = Store(root, s3.settings())
    digest = store.put(tree).digest
    s3.client().put_object(Bucket=s3.bucket, Key=f"{prefix}/{digest}/config.json", Body=b'{"a": 2}')
    with pytest.raises(SystemFault, match="damaged"):
        store.get(digest, tmp_path / "got")
    assert not (tmp_path / "got").exists()


def test_server_side_encryption_is_asked_for_and_transparent(s3, root, prefix, tree, tmp_path):
    settings = s3.settings(encryption="AES256", part_mib=5)
    store = Store(root, settings)
    digest = store.put(tree).digest
    head = s3.client().head_object(Bucket=s3.bucket, Key=f"{prefix}/{digest}/config.json")
    assert head["ServerSideEncryption"] == "AES256"
    assert describe(store.get(digest, tmp_path / "got")).digest == digest


def test_credentials_come_from_the_standard_chain_without_a_secret_file(s3, root, prefix, tree, monkeypatch):
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(s3.credentials))
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    assert Store(root, S3Settings()).put(tree).size > 12 * MIB


def test_wrong_credentials_are_a_fault_without_the_secret(s3, root, prefix, tree, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_text("[default]\naws_access_key_id = test-access\naws_secret_access_key = not-the-secret\n")
    store = Store(root, s3.settings(secret_file=wrong))
    with pytest.raises(SystemFault, match=r"403|Forbidden|SignatureDoesNotMatch|AccessDenied") as caught:
        store.put(tree)
    assert "not-the-secret" not in str(caught.value)


def test_a_missing_bucket_is_a_fault_that_names_it(s3, tree):
    with pytest.raises(SystemFault, match="s3://no-such-bucket"):
        Store("s3://no-such-bucket/m", s3.settings()).put(tree)


def test_a_server_that_is_overloaded_for_a_moment_is_tried_again(s3, root, prefix, tree, tmp_path):
    """A proxy before the real server answers every third request with 503."""
    count = iter(range(10_000))

    class Flaky(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if next(count) % 3 == 0:
                status, headers, content = 503, {}, b""
            else:
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("expect", "connection")}
                answer = httpx.request(self.command, s3.endpoint + self.path, headers=headers, content=body)
                status, headers, content = answer.status_code, answer.headers, answer.content
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in ("transfer-encoding", "connection", "content-length", "server", "date"):
                    self.send_header(name, value)
            size = headers.get("content-length") if self.command == "HEAD" else None
            self.send_header("Content-Length", size or str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = forward

        def log_message(self, *args):
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        settings = s3.settings(endpoint_url=f"http://127.0.0.1:{proxy.server_port}", part_mib=5)
        store = Store(root, settings)
        digest = store.put(tree).digest
        assert describe(store.get(digest, tmp_path / "got")).digest == digest
        assert next(count) > 9
    finally:
        proxy.shutdown()
        proxy.server_close()
