"""Small but real training data: the shipped merchant, the oracle, the real tokenizer."""

import io
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from components.avatar.agent.chat import Chat
from components.avatar.simulator.merchant import load_merchant
from components.harness_augmentation.run import run as run_augmentation
from components.harness_augmentation.settings import Settings as AugmentationSettings
from components.integrations.progress import Progress
from components.integrations.weights import resolve_base_model
from components.teacher_generation.run import run as run_teacher
from components.teacher_generation.settings import Settings as TeacherSettings

ROOT = Path(__file__).parents[3]
MERCHANT = ROOT / "infra" / "harnesses" / "lumi-beauty"
TEACHER = TeacherSettings(episodes=48, retry_share=0.2, misstep_share=0.2, fault_rate=0.2, outage_rate=0.1)
AUGMENTATION = AugmentationSettings(original_share=0.1, trajectories_per_variant=2)


@pytest.fixture(scope="session")
def base_model() -> Path:
    return resolve_base_model("random:tiny", ROOT / ".cache")


@pytest.fixture(scope="session")
def chat(base_model):
    return Chat(AutoTokenizer.from_pretrained(base_model))


@pytest.fixture(scope="session")
def world():
    return load_merchant(MERCHANT)


@pytest.fixture
def quiet():
    return Progress("test", stream=io.StringIO())


@pytest.fixture(scope="session")
def taught(tmp_path_factory):
    """Output folder of teacher_generation."""
    output = tmp_path_factory.mktemp("teacher")
    run_teacher(
        merchant=MERCHANT, output=output, settings=TEACHER, seed=3, progress=Progress("test", stream=io.StringIO())
    )
    return output


@pytest.fixture(scope="session")
def augmented(tmp_path_factory, taught, base_model):
    """Output folder of harness_augmentation."""
    output = tmp_path_factory.mktemp("augmentation")
    run_augmentation(
        merchant=MERCHANT, trajectories=taught, base_model=base_model, output=output, settings=AUGMENTATION, seed=3,
        progress=Progress("test", stream=io.StringIO()),
    )  # fmt: skip
    return output
