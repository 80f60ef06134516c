"""Profiles: what they accept, and that all faults are said at once."""

import pytest

from components.avatar.errors import InputError
from pipelines.preflight import refuse_cluster_profile
from pipelines.profile import PROFILES, load_profile


@pytest.mark.parametrize("name", [path.stem for path in sorted(PROFILES.glob("*.yaml"))])
def test_shipped_profiles_load(name):
    assert load_profile(name).name == name


def test_all_faults_of_a_profile_are_said_at_once(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text(
        "name: bad\npurpose: x\nmerchant: m\ntracking_uri: t\nseeed: 1\nsft: {learning_rate: -1, epochs: 0}\n"
    )
    with pytest.raises(InputError) as caught:
        load_profile(str(path))
    fields = {fault.field for fault in caught.value.faults}
    assert fields == {"base_model", "seeed", "sft.learning_rate", "sft.epochs"}
    assert all(str(path) == fault.file for fault in caught.value.faults)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"name: [", "valid YAML"), (b"\xff\xfe\x00", "UTF-8"), (b"- a list", "a YAML mapping"), (b"", "a YAML mapping")],
)
def test_a_file_that_is_no_profile(tmp_path, content, words):
    path = tmp_path / "profile.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        load_profile(str(path))


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="h20, local, quick, smoke"):
        load_profile("lokal")


def test_an_image_tag_is_refused(tmp_path):
    text = (PROFILES / "h20.yaml").read_text().replace("server@sha256:" + "0" * 64, "server:latest")
    assert "server:latest" in text
    path = tmp_path / "tagged.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"cluster\.images\.server"):
        load_profile(str(path))


def test_a_cluster_profile_names_the_way_to_run_it():
    with pytest.raises(InputError, match="make pipeline-submit PROFILE=h20"):
        refuse_cluster_profile(load_profile("h20"))
    refuse_cluster_profile(load_profile("smoke"))
