"""What counts as a change of a merchant's folder."""

import os
import shutil
import time

import pytest

from components.avatar.errors import InputError
from pipelines.watch.scan import FolderSource, open_source


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


def test_an_unchanged_folder_keeps_its_fingerprint_and_its_digest(merchants, tmp_path):
    source = FolderSource(merchants)
    first = settled(source)
    assert first == source.look().fingerprints and set(first) == {"lumi"}
    assert source.take("lumi", tmp_path / "one") == source.take("lumi", tmp_path / "two")
    (merchants / "lumi/harness.yaml").touch()
    assert source.look().fingerprints != first  # cheap, and may be wrong
    assert source.take("lumi", tmp_path / "three") == source.take("lumi", tmp_path / "one")  # the content decides


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
    source.take("lumi", tmp_path / "copy")
    assert not (tmp_path / "copy" / name).exists()


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
    source.take("mounted", tmp_path / "copy")
    assert (tmp_path / "copy/harness.yaml").read_text() == "..2"


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
