"""What counts as a change of a merchant's folder."""

import io
import os
import shutil
import time

import pytest

from components.avatar.errors import InputError, SystemFault
from components.integrations.storage import describe
from pipelines.watch.scan import FolderSource, S3Source, open_source
from pipelines.watch.staging import Staging


@pytest.fixture
def merchants(tmp_path):
    root = tmp_path / "merchants"
    (root / "lumi/skills/price").mkdir(parents=True)
    (root / "lumi/harness.yaml").write_text("a: 1\n")
    (root / "lumi/skills/price/SKILL.md").write_text("text")
    old = time.time() - 60
    for path in root.rglob("*"):
        os.utime(path, (old, old))
    return root


def settled(source):
    """A fingerprint taken a while after the last write; the clock of files is the real one."""
    time.sleep(1.05)
    return source.look().fingerprints


def taken(source, merchant, tmp_path):
    """The folder that would be examined."""
    staging = Staging(tmp_path / "staging")
    digest = staging.take(source, merchant)
    folder = staging.unpacked(merchant, digest)
    assert folder is not None and describe(folder).digest == digest
    return folder


def test_what_was_seen_is_what_is_examined_whatever_happens_to_the_folder_meanwhile(merchants, tmp_path):
    source, staging = FolderSource(merchants), Staging(tmp_path / "staging")
    digest = staging.take(source, "lumi")
    shutil.rmtree(merchants / "lumi")
    for _ in range(2):  # the second: after a crash in the middle of the first
        folder = staging.unpacked("lumi", digest)
        assert folder is not None and folder.name == "lumi" and describe(folder).digest == digest
        (folder / "harness.yaml").unlink()
    assert staging.unpacked("lumi", "0" * 64) is None  # another version is no substitute
    staging.drop("lumi")
    assert staging.unpacked("lumi", digest) is None and not folder.exists()


@pytest.mark.parametrize("size", [0, 700, 1300])
def test_a_kept_version_that_lost_its_end_is_none(merchants, tmp_path, size):
    """The machine lost its power before the disk had everything."""
    staging = Staging(tmp_path / "staging")
    digest = staging.take(FolderSource(merchants), "lumi")
    os.truncate(tmp_path / "staging/kept/lumi.tar", size)
    assert staging.unpacked("lumi", digest) is None


class Bucket:
    """S3Objects with these keys; the object of a key that is None has been deleted since it was listed."""

    def __init__(self, objects: dict[str, bytes | None]) -> None:
        self.objects = objects

    def listed(self, below=""):
        yield from ((key, len(data or b""), "tag") for key, data in sorted(self.objects.items()))

    def download(self, key, target):
        data = self.objects[key]
        if data is None:
            raise KeyError(key)
        target.write_bytes(data)


@pytest.mark.parametrize(
    ("objects", "kind", "words"),
    [
        ({"lumi/a": b"1", "lumi/a-b": b"2", "lumi/a/c": b"3"}, InputError, r"merchants/lumi/a/c.*an object a above it"),
        ({"lumi/a": b"1", "lumi/b": None}, SystemFault, "merchants/lumi/b went away"),
        ({"lumi/.hidden": b"1"}, SystemFault, "lumi went away"),
    ],
)
def test_objects_that_make_no_folder_are_said(tmp_path, objects, kind, words):
    source = S3Source("s3://bucket/merchants")
    source._objects = Bucket(objects)  # type: ignore[assignment]
    with pytest.raises(kind, match=words):
        Staging(tmp_path / "staging").take(source, "lumi")


def test_objects_are_taken_as_files(tmp_path):
    source = S3Source("s3://bucket/merchants")
    source._objects = Bucket({"lumi/skills/a/SKILL.md": b"text", "lumi/tools.json": b"[]"})  # type: ignore[assignment]
    folder = taken(source, "lumi", tmp_path)
    assert (folder / "skills/a/SKILL.md").read_text() == "text" and (folder / "tools.json").read_text() == "[]"


class Broken:
    """A merchant whose second file cannot be read, or that is not there."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def files(self, merchant):
        if self.error is not None:
            yield "harness.yaml", 2, io.BytesIO(b"ab")
            raise self.error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (PermissionError(13, "Permission denied", "lumi/tools.json"), SystemFault, r"lumi .*denied: lumi/tools\.json"),
        (SystemFault("gone"), SystemFault, "gone"),
        (None, SystemFault, "went away"),
    ],
)
def test_a_merchant_that_cannot_be_read_leaves_what_was_kept(merchants, tmp_path, error, kind, words):
    staging = Staging(tmp_path / "staging")
    digest = staging.take(FolderSource(merchants), "lumi")
    with pytest.raises(kind, match=words):
        staging.take(Broken(error), "lumi")
    assert staging.unpacked("lumi", digest) is not None
    assert [path.name for path in (tmp_path / "staging/kept").iterdir()] == ["lumi.tar"]


def test_a_file_that_shrinks_while_it_is_read_is_tried_again_later(merchants, tmp_path):
    class Shrinking:
        def files(self, merchant):
            yield "harness.yaml", 100, io.BytesIO(b"short")

    with pytest.raises(SystemFault, match="lumi cannot be read"):
        Staging(tmp_path / "staging").take(Shrinking(), "lumi")


def test_a_name_with_a_backslash_is_no_path(merchants, tmp_path):
    (merchants / "lumi" / "a\\b").write_text("")
    with pytest.raises(InputError, match="backslash"):
        Staging(tmp_path / "staging").take(FolderSource(merchants), "lumi")


def test_an_unchanged_folder_keeps_its_fingerprint_and_its_digest(merchants, tmp_path):
    source = FolderSource(merchants)
    first = settled(source)
    assert first == source.look().fingerprints and set(first) == {"lumi"}
    staging = Staging(tmp_path / "staging")
    digest = staging.take(source, "lumi")
    assert digest == staging.take(source, "lumi") == describe(merchants / "lumi").digest
    (merchants / "lumi/harness.yaml").touch()
    assert source.look().fingerprints != first  # cheap, and may be wrong
    assert staging.take(source, "lumi") == digest  # the content decides


def test_an_edit_that_keeps_size_and_time_is_seen(merchants):
    source = FolderSource(merchants)
    first = settled(source)
    path = merchants / "lumi/harness.yaml"
    stat = path.stat()
    path.write_text("a: 2\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert source.look().fingerprints != first


def test_a_file_written_just_now_is_read_again_at_the_next_look(merchants):
    source = FolderSource(merchants)
    (merchants / "lumi/harness.yaml").write_text("a: 3\n")
    assert source.look().fingerprints != source.look().fingerprints


@pytest.mark.parametrize("name", [".harness.yaml.swp", "harness.yaml~", ".git/config"])
def test_files_of_editors_are_no_part_of_a_merchant(merchants, tmp_path, name):
    source = FolderSource(merchants)
    first = settled(source)
    (merchants / "lumi" / name).parent.mkdir(exist_ok=True)
    (merchants / "lumi" / name).write_text("x")
    assert source.look().fingerprints == first
    copy = taken(source, "lumi", tmp_path)
    assert not (copy / name).exists() and describe(copy).digest != describe(merchants / "lumi").digest


def test_a_mounted_config_map_is_followed_through_its_links(merchants, tmp_path):
    """Kubernetes swaps `..data` and leaves the links of the files as they are."""
    folder = merchants / "mounted"
    for version in ("..1", "..2"):
        (folder / version).mkdir(parents=True)
        (folder / version / "harness.yaml").write_text(version)
    (folder / "..data").symlink_to("..1")
    (folder / "harness.yaml").symlink_to("..data/harness.yaml")
    source = FolderSource(merchants)
    first = settled(source)["mounted"]
    (folder / "..new").symlink_to("..2")
    (folder / "..new").rename(folder / "..data")
    assert settled(source)["mounted"] != first
    assert (taken(source, "mounted", tmp_path) / "harness.yaml").read_text() == "..2"


def test_what_cannot_be_a_merchant_is_said_and_hides_nothing(merchants):
    shutil.copytree(merchants / "lumi", merchants / "name with spaces")
    (merchants / "empty").mkdir()
    (merchants / "a file").write_text("")
    looked = FolderSource(merchants).look()
    assert set(looked.fingerprints) == {"lumi"} and set(looked.faults) == {"name with spaces"}


@pytest.mark.parametrize(
    ("place", "word"),
    [("missing", "no such folder"), ("merchants/lumi", "one merchant's folder"), ("ftp://x", "s3://")],
)
def test_a_place_that_holds_no_merchants_is_refused(merchants, tmp_path, place, word):
    with pytest.raises(InputError, match=word):
        open_source(place if "://" in place else str(tmp_path / place))


def test_a_thousand_unchanged_folders_cost_less_than_two_seconds(merchants):
    """The figure of the issue, with room for a loaded machine: what counts is the processor's time."""
    for number in range(1000):
        shutil.copytree(merchants / "lumi", merchants / f"m{number:04d}")
    source = FolderSource(merchants)
    started = time.process_time()
    assert len(source.look().fingerprints) == 1001
    assert time.process_time() - started < 2
