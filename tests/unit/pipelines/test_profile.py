"""Profiles: what they accept, and that all faults are said at once."""

import json
from typing import get_args

import pytest

from components.avatar.errors import InputError
from pipelines import preflight
from pipelines.compile import main as compile_main
from pipelines.digests import COMPONENTS
from pipelines.preflight import refuse_cluster_profile
from pipelines.profile import PROFILES, StepFolder, load_profile, unmounted_keys, unstored_weights
from pipelines.submit import arguments


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
    with pytest.raises(InputError, match="h20, local, long, quick, smoke"):
        load_profile("lokal")


def test_an_image_tag_is_refused(tmp_path):
    text = (PROFILES / "h20.yaml").read_text().replace("server@sha256:" + "0" * 64, "server:latest")
    assert "server:latest" in text
    path = tmp_path / "tagged.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"cluster\.images\.server"):
        load_profile(str(path))


def changed(tmp_path, old: str, new: str) -> str:
    """The path of a copy of h20 with one passage changed."""
    text = (PROFILES / "h20.yaml").read_text()
    assert text.count(old) == 1
    path = tmp_path / "changed.yaml"
    path.write_text(text.replace(old, new))
    return str(path)


STORE = "storage_uri: s3://hat-artifacts/weights\n"


@pytest.mark.parametrize("value", ["AES-256", "aes256", "aws:kms:", "aws:kms:a key", "true"])
def test_an_unknown_encryption_is_refused(tmp_path, value):
    path = changed(tmp_path, STORE, f'{STORE}storage_encryption: "{value}"\n')
    with pytest.raises(InputError) as caught:
        load_profile(path)
    [fault] = caught.value.faults
    assert (fault.file, fault.field, fault.found) == (path, "storage_encryption", repr(value))
    assert fault.allowed.startswith("AES256 (a key of the server), aws:kms, aws:kms:<key id>")


@pytest.mark.parametrize("value", ["AES256", "aws:kms", "aws:kms:arn:aws:kms:eu-west-1:1:key/ab-c"])
def test_encryption_reaches_every_task(tmp_path, monkeypatch, value):
    path = changed(tmp_path, STORE, f"{STORE}storage_encryption: {value}\n")
    profile = load_profile(path).model_copy(update={"merchant": "s3://m/" + "a" * 64})
    assert json.loads(arguments(profile)["context"])["storage_encryption"] == value


def test_a_folder_encrypts_nothing(tmp_path):
    with pytest.raises(InputError, match=r"storage_encryption: found 'AES256'; allowed: nothing"):
        load_profile(changed(tmp_path, STORE, "storage_uri: file:///srv/store\nstorage_encryption: AES256\n"))


@pytest.mark.parametrize(
    ("tracking", "storage", "found"),
    [
        ("http://127.0.0.1:5000", "", True),
        ("postgresql+psycopg://host/db", "", True),
        ("http://127.0.0.1:5000", "file:///srv/store", False),
        ("https://mlflow.example", "s3://bucket/prefix", False),
        ("sqlite:///{runs}/mlflow.db", "", False),
    ],
)
def test_a_tracking_server_needs_a_place_for_weights(tracking, storage, found):
    profile = load_profile("smoke").model_copy(update={"tracking_uri": tracking, "storage_uri": storage})
    assert bool(unstored_weights(profile)) == found


def test_a_store_that_cannot_be_written_is_said_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(preflight, "resolve_base_model", lambda spec, cache: tmp_path)
    (tmp_path / "file").write_text("")
    profile = load_profile("smoke").model_copy(
        update={"storage_uri": f"file://{tmp_path}/file/store", "disk_gib": 0.001}
    )
    with pytest.raises(InputError, match=r"profile smoke: storage_uri: .*file/store: Not a directory"):
        preflight.preflight(profile, tmp_path / "run", tmp_path)
    profile = profile.model_copy(update={"storage_uri": f"file://{tmp_path}/store"})
    preflight.preflight(profile, tmp_path / "run", tmp_path)


MOUNT = "{name: hat-teacher, path: /var/run/secrets/hat-teacher, steps: [teacher_generation]}"
KEY_FILE = "key_file: /var/run/secrets/hat-teacher"


def test_a_mount_may_name_every_step_and_nothing_else():
    assert set(get_args(StepFolder)) == {path.parent.name for path in COMPONENTS.glob("*/settings.py")}


@pytest.mark.parametrize(
    ("mount", "field"),
    [
        ("{name: s, path: secrets, steps: [sft]}", "path"),
        ("{name: s, path: /, steps: [sft]}", "path"),
        ("{name: s, path: /secrets/../etc, steps: [sft]}", "path"),
        ("{name: s, path: /secrets/, steps: [sft]}", "path"),
        ("{name: s, path: /secrets, steps: []}", "steps"),
        ("{name: s, path: /secrets, steps: [teacher]}", r"steps\.0"),
        ("{name: s, path: /secrets, steps: [sft], key: k}", "key"),
    ],
)
def test_a_bad_mount_is_refused(tmp_path, mount, field):
    with pytest.raises(InputError, match=rf"cluster\.secret_mounts\.0\.{field}:"):
        load_profile(changed(tmp_path, MOUNT, mount))


def test_two_secrets_at_one_path_of_a_step_are_refused(tmp_path):
    second = MOUNT.replace("name: hat-teacher", "name: other")
    with pytest.raises(InputError, match="one secret at a path"):
        load_profile(changed(tmp_path, MOUNT, f"{MOUNT}\n    - {second}"))
    elsewhere = second.replace("teacher_generation", "evaluation")
    load_profile(changed(tmp_path, MOUNT, f"{MOUNT}\n    - {elsewhere}"))


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (KEY_FILE, KEY_FILE, False),
        (KEY_FILE, f"{KEY_FILE}/api-key", False),
        (KEY_FILE, f"{KEY_FILE}/../other/api-key", True),
        (KEY_FILE, f"{KEY_FILE}-2/api-key", True),
        (KEY_FILE, "key_file: run/secrets/hat-teacher", True),
        (MOUNT, MOUNT.replace("teacher_generation", "evaluation"), True),  # mounted, but in another step
        (KEY_FILE + "\n", "\n", False),  # a server that asks for no key
    ],
)
def test_a_key_file_lies_in_a_secret_that_its_step_mounts(tmp_path, old, new, found):
    faults = unmounted_keys(load_profile(changed(tmp_path, old, new)))
    assert [fault.field for fault in faults] == ["teacher_generation.endpoint.key_file"] * found


def test_the_keys_of_judges_are_looked_at_and_those_of_a_local_profile_are_not(tmp_path):
    judges = "[" + ", ".join(f"{{url: https://j/v1, model: m{n}, key_file: /k{n}}}" for n in range(3)) + "]"
    path = changed(tmp_path, "  episodes: 20000\n", f"  episodes: 20000\n  judges: {judges}\n")
    fields = [fault.field for fault in unmounted_keys(load_profile(path))]
    assert fields == [f"teacher_generation.judges.{n}.key_file" for n in range(3)]
    assert unmounted_keys(load_profile(path).model_copy(update={"cluster": None})) == []


def test_the_command_says_the_fault_and_writes_nothing(tmp_path, capsys):
    path = changed(tmp_path, KEY_FILE, "key_file: sk-of-this-test")
    assert compile_main(["--profile", path, "--out", str(tmp_path / "pipeline.yaml")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("1 fault in the input:") and "teacher_generation.endpoint.key_file" in said
    assert "sk-of" not in said and not (tmp_path / "pipeline.yaml").exists()


def test_a_cluster_profile_names_the_way_to_run_it():
    with pytest.raises(InputError, match="make pipeline-submit PROFILE=h20"):
        refuse_cluster_profile(load_profile("h20"))
    refuse_cluster_profile(load_profile("smoke"))
