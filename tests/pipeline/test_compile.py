"""The compiled cluster pipeline against a golden file: GPU placement, secrets, retries, caching are invisible in a
local run.

After an intended change: make pipeline-compile PROFILE=h20 OUT=tests/pipeline/golden/h20.yaml, and read the diff.
"""

import re
from pathlib import Path

import pytest
import yaml

from components.avatar.errors import InputError
from pipelines.compile import compile_pipeline
from pipelines.dag import SIDE_EFFECTS
from pipelines.profile import load_profile

GOLDEN = Path(__file__).parent / "golden" / "h20.yaml"
GPU_STEPS = {"harness-gate", "sft", "sft-2", "distillation", "simulator-rl", "evaluation"}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Path:
    return compile_pipeline(load_profile("h20"), tmp_path_factory.mktemp("compiled") / "h20.yaml")


@pytest.fixture(scope="module")
def documents(compiled):
    pipeline, platform = yaml.safe_load_all(compiled.read_text())
    return pipeline, platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]


def tasks_of(pipeline):
    """Every task of every DAG by name."""
    components = [pipeline["root"], *pipeline["components"].values()]
    return {name: task for component in components for name, task in component.get("dag", {}).get("tasks", {}).items()}


def without_code_digests(text: str) -> str:
    """Every changed line of a step changes its code digest; nothing else in the YAML does."""
    return re.sub(r"(code:\n\s+runtimeValue:\n\s+constant: )['\"]?[0-9a-f]{16}['\"]?", r"\1<digest>", text)


def test_it_is_the_golden_file(compiled):
    found = without_code_digests(compiled.read_text())
    assert found.count("<digest>") == 11, "one a step"
    assert found == without_code_digests(GOLDEN.read_text())


def test_gpu_steps_and_only_they_ask_for_gpus_on_h20_nodes_with_shared_memory(documents):
    pipeline, kubernetes = documents
    executors = pipeline["deploymentSpec"]["executors"]
    with_gpu = {
        n.removeprefix("exec-") for n, e in executors.items() if "accelerator" in e["container"].get("resources", {})
    }
    assert with_gpu == GPU_STEPS
    for step in GPU_STEPS:
        assert executors[f"exec-{step}"]["container"]["resources"]["accelerator"]["resourceType"] == "nvidia.com/gpu"
        placed = kubernetes[f"exec-{step}"]
        assert placed["nodeSelector"]["labels"] == {"nvidia.com/gpu.product": "NVIDIA-H20"}
        assert (
            placed["emptyDirMounts"][0]["mountPath"] == "/dev/shm" and placed["emptyDirMounts"][0]["medium"] == "Memory"
        )
        assert placed["tolerations"][0]["key"] == "nvidia.com/gpu"


def test_images_are_named_by_digest_and_no_package_is_installed_at_run_time(documents):
    pipeline, _ = documents
    for executor in pipeline["deploymentSpec"]["executors"].values():
        assert "@sha256:" in executor["container"]["image"]
        assert "pip install" not in " ".join(executor["container"]["command"])


def test_steps_with_side_effects_are_never_cached_and_all_steps_retry(documents):
    pipeline, _ = documents
    tasks = {
        name: task
        for name, task in tasks_of(pipeline).items()
        if "dag" not in pipeline["components"][task["componentRef"]["name"]]
    }
    uncached = {name for name, task in tasks.items() if not task.get("cachingOptions", {}).get("enableCache")}
    assert uncached == {name.replace("_", "-") for name in SIDE_EFFECTS} | {"report-failure"}
    assert {name for name, task in tasks.items() if "retryPolicy" not in task} == {"report-failure"}


def test_the_teachers_key_is_mounted_in_its_step_only(documents):
    _, kubernetes = documents
    volumes = {
        step: executor["secretAsVolume"] for step, executor in kubernetes.items() if "secretAsVolume" in executor
    }
    [volume] = volumes.pop("exec-teacher-generation")
    assert (volume["secretName"], volume["mountPath"]) == ("hat-teacher", "/var/run/secrets/hat-teacher")
    assert not volume.get("optional") and not volumes


def test_a_key_never_reaches_the_yaml(tmp_path):
    """Neither the content of a key file, nor a key that stands where the path of its file belongs."""
    (tmp_path / "key").write_text("sk-of-this-test")
    profile = load_profile("h20")
    cluster, endpoint = profile.cluster, profile.teacher_generation.endpoint
    assert cluster is not None and endpoint is not None

    def with_key(key_file: str):
        teacher = profile.teacher_generation.model_copy(
            update={"endpoint": endpoint.model_copy(update={"key_file": key_file})}
        )
        mounts = (cluster.secret_mounts[0].model_copy(update={"path": str(tmp_path)}),)
        mounted = cluster.model_copy(update={"secret_mounts": mounts})
        return profile.model_copy(update={"teacher_generation": teacher, "cluster": mounted})

    text = compile_pipeline(with_key(str(tmp_path / "key")), tmp_path / "pipeline.yaml").read_text()
    assert str(tmp_path / "key") in text and "sk-of-this-test" not in text
    with pytest.raises(InputError, match=r"teacher_generation\.endpoint\.key_file") as caught:
        compile_pipeline(with_key("sk-of-this-test"), tmp_path / "second.yaml")
    assert "sk-of" not in str(caught.value) and not (tmp_path / "second.yaml").exists()


def test_every_secret_is_a_reference(compiled):
    text = compiled.read_text()
    assert "secretKey: secret_key" in text and "AWS_SECRET_ACCESS_KEY" in text
