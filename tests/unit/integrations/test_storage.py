import errno
import json
import os
import re
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from components.avatar.errors import InputError, SystemFault
from components.integrations.objects import MIB, FolderObjects, S3Settings, open_objects, sha256_of
from components.integrations.s3 import part_lengths
from components.integrations.storage import Store, StoredFile, describe, fetch


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "weights.bin").write_bytes(bytes(range(256)) * 10)
    return folder


@pytest.fixture
def store(tmp_path):
    return Store(str(tmp_path / "store"))


def test_a_folder_comes_back_as_it_went(store, tree, tmp_path):
    manifest = store.put(tree)
    got = store.get(manifest.digest, tmp_path / "got")
    assert (got / "config.json").read_text() == "{}"
    assert (got / "sub" / "weights.bin").read_bytes() == (tree / "sub" / "weights.bin").read_bytes()
    assert manifest.size == 2562 and [f.path for f in manifest.files] == ["config.json", "sub/weights.bin"]
    assert store.manifest(manifest.digest) == manifest


def test_a_single_file_comes_back_as_a_file(store, tree, tmp_path):
    manifest = store.put(tree / "config.json")
    assert store.get(manifest.digest, tmp_path / "deep" / "c.json").read_text() == "{}"
    lone = tmp_path / "lone"
    lone.mkdir()
    (lone / "config.json").write_text("{}")
    assert describe(lone).digest != manifest.digest  # a folder that holds the same file is something else


def test_the_tree_lies_below_its_uri_for_servers_to_load(store, tree):
    assert (Path(store.put(tree).uri) / "sub" / "weights.bin").is_file()


def test_digest_depends_on_names_and_contents_only(tree, tmp_path):
    before = describe(tree, "a").digest
    (tree / "config.json").touch()
    assert describe(tree, "b").digest == before
    (tree / "config.json").rename(tree / "renamed.json")
    renamed = describe(tree).digest
    (tree / "renamed.json").write_text("[]")
    assert len({before, renamed, describe(tree).digest}) == 3


def test_links_count_as_what_they_point_to(tree, tmp_path):
    linked = tmp_path / "linked"
    (linked / "sub").mkdir(parents=True)
    for name in ("config.json", "sub/weights.bin"):
        (linked / name).symlink_to(tree / name)
    assert describe(linked).digest == describe(tree).digest


def test_the_same_content_is_uploaded_once(store, tree, monkeypatch):
    uploads = []
    real = FolderObjects.upload
    monkeypatch.setattr(FolderObjects, "upload", lambda self, s, key, d: (uploads.append(key), real(self, s, key, d)))
    store.put(tree)
    store.put(tree)
    assert len(uploads) == 2  # the tree's two files, once


@pytest.mark.parametrize("fail_at", [0, 1])
def test_an_upload_that_fails_half_way_does_not_exist_and_can_be_repeated(store, tree, tmp_path, monkeypatch, fail_at):
    real, count = FolderObjects.upload, iter(range(10))

    def upload(self, source, key, digest):
        if next(count) == fail_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, source, key, digest)

    monkeypatch.setattr(FolderObjects, "upload", upload)
    digest = describe(tree).digest
    with pytest.raises(OSError, match="No space left"):
        store.put(tree)
    assert store.manifest(digest) is None and not store.present(digest)
    with pytest.raises(InputError):
        store.get(digest, tmp_path / "got")
    store.put(tree)
    assert store.present(digest)


def test_a_full_disk_while_copying_leaves_no_object(tmp_path, tree, monkeypatch):
    objects = FolderObjects(tmp_path / "store")

    def copy(source, target):
        Path(target).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("components.integrations.objects.shutil.copyfile", copy)
    with pytest.raises(OSError):
        objects.upload(tree / "config.json", "k/config.json", "")
    assert objects.size("k/config.json") is None and list((tmp_path / "store" / "k").iterdir()) == []


def test_deleted_objects_are_missed_and_named(store, tree, tmp_path):
    manifest = store.put(tree)
    (Path(manifest.uri) / "config.json").unlink()
    assert not store.present(manifest.digest)
    with pytest.raises(SystemFault, match=r"config\.json is missing"):
        store.get(manifest.digest, tmp_path / "got")
    assert not (tmp_path / "got").exists()
    store.put(tree)
    assert store.present(manifest.digest)


def test_damaged_bytes_never_arrive(store, tree, tmp_path):
    manifest = store.put(tree)
    (Path(manifest.uri) / "config.json").write_text("[]")  # the same size
    with pytest.raises(SystemFault, match="damaged"):
        store.get(manifest.digest, tmp_path / "got")
    assert {p.name for p in tmp_path.iterdir()} == {"model", "store"}  # no scraps either


def test_a_file_that_changes_while_it_is_stored_leaves_no_object(store, tree, monkeypatch):
    real = FolderObjects.upload

    def upload(self, source, key, digest):
        real(self, source, key, digest)
        if source.name == "weights.bin":
            source.write_bytes(b"still training")

    monkeypatch.setattr(FolderObjects, "upload", upload)
    digest = describe(tree).digest
    with pytest.raises(SystemFault, match=r"weights\.bin changed"):
        store.put(tree)
    assert store.manifest(digest) is None and not (Path(store.uri) / digest / "sub" / "weights.bin").exists()


def test_hidden_files_belong_to_a_tree(store, tree, tmp_path):
    (tree / ".gitattributes").write_text("*.bin filter=lfs")
    digest = store.put(tree).digest
    assert store.present(digest) and (store.get(digest, tmp_path / "got") / ".gitattributes").is_file()


def test_what_killed_writers_left_behind_is_removed_after_a_week_only(store, tree):
    folder = Path(store.put(tree).uri)
    left = [folder / f".{letter * 32}.part" for letter in "ab"]
    for path in left:
        path.write_bytes(b"half")
    week_ago = time.time() - 8 * 86400
    os.utime(left[0], (week_ago, week_ago))
    assert store.present(folder.name)
    (folder / "config.json").unlink()
    store.put(tree)
    assert [path.exists() for path in left] == [False, True]


def test_bytes_damaged_on_the_way_are_fetched_again(store, tree, tmp_path, monkeypatch):
    manifest = store.put(tree)
    real, first = FolderObjects.download, iter([True])

    def download(self, key, target):
        digest = real(self, key, target)
        if next(first, False):
            target.write_bytes(b"noise")
            digest = sha256_of(target)
        return digest

    monkeypatch.setattr(FolderObjects, "download", download)
    assert describe(store.get(manifest.digest, tmp_path / "got")).digest == manifest.digest


def test_a_manifest_that_lies_is_damaged(store, tree):
    manifest = store.put(tree)
    path = Path(f"{manifest.uri}.json")
    data = json.loads(path.read_text())
    data["files"][0]["size"] += 1
    path.write_text(json.dumps(data))
    with pytest.raises(SystemFault, match="describes another tree"):
        store.manifest(manifest.digest)
    path.write_text("{}")
    with pytest.raises(SystemFault, match="damaged"):
        store.manifest(manifest.digest)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", "a\\..\\x"])
def test_a_manifest_cannot_write_outside_its_target(path):
    with pytest.raises(ValidationError):
        StoredFile(path=path, size=0, sha256="0" * 64)


def test_target_is_kept_when_it_holds_the_content_and_refused_otherwise(store, tree, tmp_path):
    digest = store.put(tree).digest
    assert fetch(f"{store.uri}/{digest}", tree) == tree
    (tree / "more").write_text("x")
    with pytest.raises(InputError, match="other content"):
        store.get(digest, tree)


def test_nothing_to_store_is_an_input_error(store, tmp_path):
    (tmp_path / "empty").mkdir()
    for source in (tmp_path / "missing", tmp_path / "empty"):
        with pytest.raises(InputError, match=source.name):
            store.put(source)


@pytest.mark.parametrize("uri", ["gs://bucket/x", "s3://", "file://relative"])
def test_other_schemes_are_refused(uri):
    with pytest.raises(InputError, match="s3://bucket"):
        open_objects(uri)


@pytest.mark.parametrize("size", [1, 16 * MIB, 16 * MIB + 1, 10_000 * 16 * MIB, 10_000 * 16 * MIB + 1, 5 * 1024**4])
def test_objects_of_any_size_are_cut_into_parts_that_s3_takes(size):
    lengths = part_lengths(size, 16 * MIB)
    assert sum(lengths) == size and len(lengths) <= 10_000
    assert len(set(lengths[:-1])) <= 1 and all(16 * MIB <= length <= 5 * 1024**3 for length in lengths[:-1])
    assert 0 < lengths[-1] <= max(lengths)


def test_boto3_is_spoken_in_one_module():
    """seaweedfs.py aside, whose plain client is what tests and the benchmark compare with."""
    root = Path(__file__).parents[3]
    files = [path for part in ("components", "pipelines") for path in (root / part).rglob("*.py")]
    speaking = {path.name for path in files if re.search(r"^\s*(import|from) boto", path.read_text(), re.MULTILINE)}
    assert speaking == {"s3_client.py", "seaweedfs.py"}


@pytest.mark.parametrize("endpoint", ["nowhere", "http://user:hunter2@127.0.0.1:9", "ftp//user:hunter2@x"])
def test_an_endpoint_that_is_none_or_holds_a_password_is_refused_without_it(endpoint, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    with pytest.raises(InputError, match="endpoint") as caught:
        open_objects("s3://bucket/x")
    assert "hunter2" not in str(caught.value)


def test_an_aws_profile_that_is_not_there_is_an_input_error(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(InputError, match="no-such-profile"):
        open_objects("s3://bucket/x")


SECRET = "hunter2-very-secret"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "FileNotFoundError"),
        (f"aws_secret_access_key = {SECRET}\n", "INI"),
        (f"[other]\naws_secret_access_key = {SECRET}\n", r"\[default\]"),
        (f"[default]\naws_secret_access_key = {SECRET}\n", "aws_access_key_id"),
    ],
)
def test_a_bad_secret_file_is_named_without_its_contents(tmp_path, text, said):
    path = tmp_path / "credentials"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        open_objects("s3://bucket/x", S3Settings(secret_file=path))
    assert SECRET not in str(caught.value) and str(path) in str(caught.value)


def test_a_dead_endpoint_is_a_system_fault_that_names_it_and_no_secret(tmp_path, tree):
    path = tmp_path / "credentials"
    path.write_text(f"[default]\naws_access_key_id = someone\naws_secret_access_key = {SECRET}\n")
    settings = S3Settings(endpoint_url="http://127.0.0.1:9", secret_file=path, max_attempts=1)
    with pytest.raises(SystemFault, match=r"127\.0\.0\.1:9") as caught:
        Store("s3://bucket/models", settings).put(tree)
    assert SECRET not in str(caught.value)
