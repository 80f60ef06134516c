"""Storage when servers, networks and people fail: a clear error or another try, and never half a tree."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from components.avatar.errors import InputError, SystemFault
from components.integrations.objects import MIB, open_objects
from components.integrations.seaweedfs import SECRET_KEY, seaweedfs
from components.integrations.storage import Store, describe
from components.integrations.storage_benchmark import peak_memory_mib
from components.integrations.task import Context
from tests.integration.faulty_proxy import (
    PAGE,
    RUBBISH,
    UNAVAILABLE,
    Answer,
    CutAnswer,
    CutUpload,
    Damage,
    Fault,
    FaultyProxy,
    Request,
    Stall,
    faulty_proxy,
)

PART_MIB = 5


@pytest.fixture
def root(s3, request):
    return f"s3://{s3.bucket}/faults/{request.node.name}"


@pytest.fixture
def proxy(s3):
    with faulty_proxy(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def tree(tmp_path):
    """A small file and one of three parts."""
    return make_tree(tmp_path / "model", 2 * PART_MIB * MIB + 1000)


def make_tree(folder: Path, size: int) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text('{"a": 1}')
    (folder / "weights.safetensors").write_bytes(os.urandom(size))
    return folder


def settings(s3, proxy: FaultyProxy, **changed):
    return s3.settings(**({"endpoint_url": proxy.url, "part_mib": PART_MIB} | changed))


def once(fault: Fault, wanted: Callable[[Request], bool] = lambda request: True) -> Callable[[Request], Fault | None]:
    """`fault` for the first time that each wanted request is made."""
    seen: set[tuple[str, str]] = set()

    def decide(request: Request) -> Fault | None:
        if not wanted(request) or (request.method, request.path) in seen:
            return None
        seen.add((request.method, request.path))
        return fault

    return decide


def after(count: int, fault: Fault, wanted: Callable[[Request], bool] = lambda request: True):
    """`fault` for every wanted request but the first `count`."""
    lock, numbers = threading.Lock(), iter(range(100_000))

    def decide(request: Request) -> Fault | None:
        if not wanted(request):
            return None
        with lock:
            return fault if next(numbers) >= count else None

    return decide


# --- failures that pass


@pytest.mark.parametrize(
    "fault",
    [UNAVAILABLE, PAGE, RUBBISH, CutUpload(), CutAnswer(10), CutAnswer(-1), Damage()],
    ids=["503", "page", "rubbish", "cut upload", "cut answer at its start", "cut answer at its end", "damage"],
)
def test_every_request_may_fail_once(s3, root, proxy, tree, tmp_path, fault):
    store = Store(root, settings(s3, proxy))
    proxy.fault = once(fault)
    digest = store.put(tree).digest
    assert store.present(digest)
    assert describe(store.get(digest, tmp_path / "got")).digest == digest
    assert {request.method for request in proxy.requests} == {"GET", "HEAD", "PUT", "POST"}


def test_a_server_that_does_not_answer_is_asked_again(s3, root, proxy, tree, tmp_path):
    store = Store(root, settings(s3, proxy, read_timeout_s=3))
    proxy.fault = once(Stall(), lambda request: "partNumber=2" in request.path or "range" in request.headers)
    digest = store.put(tree).digest
    assert describe(store.get(digest, tmp_path / "got")).digest == digest


# --- failures that stay, at each call


@pytest.mark.parametrize("fault", [UNAVAILABLE, PAGE, CutUpload()], ids=["503", "page", "down"])
def test_a_put_that_fails_at_any_call_leaves_no_tree_and_can_be_repeated(s3, root, proxy, tree, tmp_path, fault):
    healthy, failing = Store(root, s3.settings(part_mib=PART_MIB)), Store(root, settings(s3, proxy, max_attempts=1))
    digest = describe(tree).digest
    calls = 0
    while True:  # one more request gets through each time, until the put is whole
        proxy.fault = after(calls, fault)
        try:
            failing.put(tree)
            break
        except SystemFault as error:
            assert s3.bucket in str(error) and proxy.url in str(error) and SECRET_KEY not in str(error)
        assert healthy.manifest(digest) is None and not healthy.present(digest)
        with pytest.raises(InputError, match="deleted"):
            healthy.get(digest, tmp_path / "got")
        calls += 1
    assert calls >= 5  # resuming made the later ones shorter: the listing, two parts, their completion, the manifest
    assert describe(healthy.get(digest, tmp_path / "got")).digest == digest


@pytest.mark.parametrize("fault", [UNAVAILABLE, PAGE, CutUpload(), CutAnswer(-1)], ids=["503", "page", "down", "short"])
def test_a_get_that_fails_at_any_call_leaves_nothing(s3, root, proxy, tree, tmp_path, fault):
    digest = Store(root, s3.settings(part_mib=PART_MIB)).put(tree).digest
    failing = Store(root, settings(s3, proxy, max_attempts=1))
    calls = 0
    while True:
        proxy.fault = after(calls, fault)
        try:
            got = failing.get(digest, tmp_path / "got")
            break
        except SystemFault as error:
            assert s3.bucket in str(error) and proxy.url in str(error) and SECRET_KEY not in str(error)
        assert {path.name for path in tmp_path.iterdir()} == {"model"}
        calls += 1
    assert calls == 7  # the manifest; head and content of the small file; head and three parts of the large one
    assert describe(got).digest == digest


NOT_FOUND = Answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nConnection: close\r\n\r\nnot found")


@pytest.mark.parametrize(
    ("fault", "said", "attempts"),
    [
        (UNAVAILABLE, "503", 2),
        (PAGE, "not S3's", 2),
        (RUBBISH, "Connection was closed", 2),
        (Stall(), "timeout", 2),
        (NOT_FOUND, "404", 1),
    ],
    ids=["503", "page", "rubbish", "slow", "another server"],
)
@pytest.mark.parametrize("call", ["put", "present", "manifest", "get", "keys", "write", "delete"])
def test_every_operation_says_what_is_wrong_and_where(s3, root, proxy, tree, tmp_path, fault, said, attempts, call):
    broken = settings(s3, proxy, max_attempts=2, read_timeout_s=0.2)
    store, objects = Store(root, broken), open_objects(root, broken)
    proxy.fault = lambda request: fault
    calls = {
        "put": lambda: store.put(tree),
        "present": lambda: store.present("0" * 64),
        "manifest": lambda: store.manifest("0" * 64),
        "get": lambda: store.get("0" * 64, tmp_path / "got"),
        "keys": objects.keys,
        "write": lambda: objects.write("k", b"x"),
        "delete": lambda: objects.delete("k"),
    }
    with pytest.raises(SystemFault, match=said) as caught:
        calls[call]()
    assert f"s3://{s3.bucket} at {proxy.url}" in str(caught.value) and SECRET_KEY not in str(caught.value)
    assert len(proxy.requests) == attempts


@pytest.mark.parametrize("call", ["put", "present", "get"])
def test_wrong_credentials_are_named_at_once_and_without_the_secret(s3, root, proxy, tree, tmp_path, call):
    wrong = tmp_path / "wrong"
    wrong.write_text("[default]\naws_access_key_id = test-access\naws_secret_access_key = not-the-secret\n")
    store = Store(root, settings(s3, proxy, secret_file=wrong))
    calls = {
        "put": lambda: store.put(tree),
        "present": lambda: store.present("0" * 64),
        "get": lambda: store.get("0" * 64, tmp_path / "got"),
    }
    with pytest.raises(SystemFault, match=r"SignatureDoesNotMatch \(the secret key is wrong\)") as caught:
        calls[call]()
    assert "not-the-secret" not in str(caught.value)
    assert len(proxy.requests) == 1  # another try cannot help


@pytest.mark.parametrize("call", ["put", "present", "get"])
def test_a_missing_bucket_is_named(s3, tree, tmp_path, call):
    store = Store("s3://no-such-bucket/m", s3.settings())
    calls = {
        "put": lambda: store.put(tree),
        "present": lambda: store.present("0" * 64),
        "get": lambda: store.get("0" * 64, tmp_path / "got"),
    }
    with pytest.raises(SystemFault, match=r"s3://no-such-bucket at http.*NoSuchBucket \(there is no such bucket\)"):
        calls[call]()


def test_a_model_deleted_behind_a_cache_hit_says_what_to_do(s3, root, tree, tmp_path, monkeypatch):
    """A cached task's output still has the manifest; the weights that it names are gone."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3.endpoint)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(s3.credentials))
    manifest = Store(root).put(tree)
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    (artifact / "model.manifest.json").write_text(manifest.model_dump_json())
    context = Context(storage_uri=root, cache_dir=str(tmp_path / "cache"))
    objects = open_objects(root)
    objects.delete(f"{manifest.digest}/weights.safetensors")
    with pytest.raises(SystemFault, match=r"weights\.safetensors is missing .* run the step that made it again"):
        context.model(str(artifact))
    objects.delete(f"{manifest.digest}.json")
    with pytest.raises(InputError, match=rf"{manifest.digest}.*run the step that made it again"):
        context.model(str(artifact))
    assert Store(root).put(tree) == manifest
    assert describe(context.model(str(artifact))).digest == manifest.digest


# --- resuming


def test_a_connection_cut_mid_upload_is_resumed_with_the_missing_parts_only(s3, root, proxy, tmp_path):
    tree = make_tree(tmp_path / "model", 8 * PART_MIB * MIB)
    proxy.fault = after(5, CutUpload(MIB), lambda request: request.is_part)
    with pytest.raises(SystemFault):
        Store(root, settings(s3, proxy, max_attempts=2)).put(tree)
    proxy.fault = lambda request: None
    proxy.requests.clear()
    digest = Store(root, settings(s3, proxy)).put(tree).digest  # as a new process would
    assert proxy.parts == 3
    assert not any(request.path.endswith("config.json") for request in proxy.requests)
    assert describe(Store(root, s3.settings()).get(digest, tmp_path / "got")).digest == digest


def interrupted(s3, root, proxy, tree, **changed) -> tuple[str, dict]:
    """Key and row of the upload that a put of `tree` leaves behind with one of its three parts."""
    proxy.fault = after(1, CutUpload(), lambda request: request.is_part)
    with suppress(SystemFault):
        Store(root, settings(s3, proxy, max_attempts=1, **changed)).put(tree)
    proxy.fault = lambda request: None
    proxy.requests.clear()
    key = f"{root.removeprefix(f's3://{s3.bucket}/')}/{describe(tree).digest}/weights.safetensors"
    (row,) = s3.client().list_multipart_uploads(Bucket=s3.bucket, Prefix=key)["Uploads"]
    return key, row


def test_a_part_with_other_bytes_is_sent_again(s3, root, proxy, tree, tmp_path):
    key, row = interrupted(s3, root, proxy, tree)
    client = s3.client()
    upload = {"Bucket": s3.bucket, "Key": key, "UploadId": row["UploadId"], "ChecksumAlgorithm": "SHA256"}
    for number, size in ((1, PART_MIB * MIB), (2, PART_MIB * MIB), (3, 1000)):
        client.upload_part(**upload, PartNumber=number, Body=os.urandom(size))
    store = Store(root, settings(s3, proxy))
    digest = store.put(tree).digest
    assert proxy.parts >= 2  # SeaweedFS keeps, and lists, the right one that had arrived beside the wrong one
    assert describe(store.get(digest, tmp_path / "got")).digest == digest


def test_an_upload_in_parts_of_another_size_is_left_alone(s3, root, proxy, tree, tmp_path):
    _, row = interrupted(s3, root, proxy, tree, part_mib=7)
    store = Store(root, settings(s3, proxy))
    digest = store.put(tree).digest
    assert proxy.parts == 3 and not any(
        row["UploadId"] in request.path for request in proxy.requests if request.is_part
    )
    assert describe(store.get(digest, tmp_path / "got")).digest == digest


def test_an_upload_that_somebody_aborts_meanwhile_is_begun_anew(s3, root, proxy, tree, tmp_path):
    key, row = interrupted(s3, root, proxy, tree)
    lock, aborted = threading.Lock(), []

    def abort(request: Request) -> None:
        with lock:
            if request.is_part and not aborted:
                s3.client().abort_multipart_upload(Bucket=s3.bucket, Key=key, UploadId=row["UploadId"])
                aborted.append(row)

    proxy.fault = abort
    store = Store(root, settings(s3, proxy))
    digest = store.put(tree).digest
    assert aborted and describe(store.get(digest, tmp_path / "got")).digest == digest


def test_uploads_that_nobody_continues_are_abandoned_when_they_are_old(s3, root, proxy, tree, tmp_path):
    _, row = interrupted(s3, root, proxy, make_tree(tmp_path / "forgotten", 2 * PART_MIB * MIB + 1000))
    listed = {"Bucket": s3.bucket, "Prefix": root.removeprefix(f"s3://{s3.bucket}/")}
    client = s3.client()
    Store(root, settings(s3, proxy)).put(tree)
    assert [upload["UploadId"] for upload in client.list_multipart_uploads(**listed)["Uploads"]] == [row["UploadId"]]
    (tree / "weights.safetensors").write_bytes(os.urandom(PART_MIB * MIB + 1))
    Store(root, settings(s3, proxy, abandon_uploads_after_days=0)).put(tree)
    assert not client.list_multipart_uploads(**listed).get("Uploads")


def test_two_writers_of_the_same_content_both_succeed(s3, root, tree, tmp_path):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: Store(root, s3.settings(part_mib=PART_MIB)).put(tree), range(2))
    assert first == second
    assert describe(Store(root, s3.settings()).get(first.digest, tmp_path / "got")).digest == first.digest


# --- what really reaches the server


def test_encryption_and_checksums_are_asked_for_in_every_request_that_stores(s3, root, proxy, tree):
    store = Store(root, settings(s3, proxy, encryption="AES256"))
    digest = store.put(tree).digest
    storing = [r for r in proxy.requests if (r.method == "PUT" and not r.is_part) or r.path.endswith("?uploads")]
    assert len(storing) == 3  # the small file, the beginning of the large one, the manifest
    assert {request.headers.get("x-amz-server-side-encryption") for request in storing} == {"AES256"}
    assert all("x-amz-checksum-sha256" in request.headers for request in proxy.requests if request.method == "PUT")
    for name in ("config.json", "weights.safetensors"):
        key = f"{root.removeprefix(f's3://{s3.bucket}/')}/{digest}/{name}"
        assert s3.client().head_object(Bucket=s3.bucket, Key=key)["ServerSideEncryption"] == "AES256"


def test_an_upload_begun_without_encryption_is_not_continued_when_encryption_is_asked_for(s3, root, proxy, tree):
    key, _ = interrupted(s3, root, proxy, tree)
    Store(root, settings(s3, proxy, encryption="AES256")).put(tree)
    assert s3.client().head_object(Bucket=s3.bucket, Key=key)["ServerSideEncryption"] == "AES256"


def test_the_server_refuses_bytes_that_differ_from_their_checksum(s3, root, proxy, tree):
    proxy.fault = lambda request: Damage()
    with pytest.raises(SystemFault, match=r"damaged on the way"):
        Store(root, settings(s3, proxy, max_attempts=2)).put(tree)


def test_requests_name_the_bucket_in_the_path(s3, root, proxy, tree):
    Store(root, settings(s3, proxy)).put(tree)
    assert {request.path.split("?")[0].split("/")[1] for request in proxy.requests} == {s3.bucket}
    assert {f"http://{request.headers['host']}" for request in proxy.requests} == {proxy.url}


# --- the real server dies


@pytest.fixture(scope="module")
def mortal(tmp_path_factory):
    """A server of this file's own, to be killed."""
    with seaweedfs(tmp_path_factory.mktemp("mortal")) as running:
        yield running


def test_a_server_that_is_killed_and_restarted_is_waited_for(mortal, tmp_path, monkeypatch):
    monkeypatch.setattr("components.integrations.s3_client.LONGEST_PAUSE_S", 1.0)  # more attempts, at shorter pauses
    tree = make_tree(tmp_path / "model", 6 * PART_MIB * MIB)
    lock, restarts = threading.Lock(), []

    def crash(wanted: Callable[[Request], bool]) -> Callable[[Request], None]:
        """Kill the server when it has been asked twice for what is wanted; another thread starts it again."""
        count = iter(range(1000))

        def decide(request: Request) -> None:
            with lock:
                if wanted(request) and next(count) == 2:
                    mortal.kill()
                    restarts.append(threading.Thread(target=mortal.start))
                    restarts[-1].start()

        return decide

    with faulty_proxy(mortal.endpoint) as proxy:
        store = Store(f"s3://{mortal.bucket}/restart", settings(mortal, proxy, max_attempts=400))
        proxy.fault = crash(lambda request: request.is_part)
        digest = store.put(tree).digest
        proxy.fault = crash(lambda request: "range" in request.headers)
        assert describe(store.get(digest, tmp_path / "got")).digest == digest
    for thread in restarts:
        thread.join()
    assert len(restarts) == 2


def test_a_server_that_dies_is_named_and_the_upload_goes_on_when_it_is_back(mortal, tmp_path):
    tree = make_tree(tmp_path / "model", 6 * PART_MIB * MIB)
    digest = describe(tree).digest
    lock, count = threading.Lock(), iter(range(1000))

    def crash(request: Request) -> None:
        with lock:
            if request.is_part and next(count) == 4:
                mortal.kill()

    with faulty_proxy(mortal.endpoint) as proxy:
        store = Store(f"s3://{mortal.bucket}/death", settings(mortal, proxy, max_attempts=3))
        proxy.fault = crash
        try:
            with pytest.raises(SystemFault, match=r"weights\.safetensors"):
                store.put(tree)
            with pytest.raises(SystemFault, match=proxy.url):
                store.present(digest)
        finally:
            mortal.start()
        assert store.manifest(digest) is None
        (upload,) = mortal.client().list_multipart_uploads(Bucket=mortal.bucket, Prefix="death/")["Uploads"]
        where = {"Bucket": mortal.bucket, "Key": upload["Key"], "UploadId": upload["UploadId"]}
        arrived = len(mortal.client().list_parts(**where).get("Parts", ()))
        proxy.requests.clear()
        store.put(tree)
        assert arrived >= 1 and proxy.parts == 6 - arrived
        assert describe(store.get(digest, tmp_path / "got")).digest == digest


# --- memory


def test_memory_does_not_grow_with_the_object(s3):
    """`make benchmark-storage` does the same with 1 GiB."""
    assert peak_memory_mib(s3, "faults/memory", 256) - peak_memory_mib(s3, "faults/memory", 1) < 200
