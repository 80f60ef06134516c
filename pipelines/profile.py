"""A profile: everything that a pipeline run is told, in one YAML file. No step reads a knob from anywhere else."""

from pathlib import Path, PurePosixPath
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from components.avatar.errors import Fault, InputError, file_fault
from components.avatar.harness.schema import Frozen, content_digest
from components.canary_deploy.settings import Settings as CanaryDeploy
from components.data_validation.settings import Settings as DataValidation
from components.distillation.settings import Settings as Distillation
from components.evaluation.settings import Settings as Evaluation
from components.harness_augmentation.settings import Settings as HarnessAugmentation
from components.harness_gate.settings import Settings as HarnessGate
from components.integrations.cli import validate_settings
from components.integrations.objects import Encryption
from components.registration.settings import Settings as Registration
from components.sft.settings import Settings as Sft
from components.simulator_rl.settings import Settings as SimulatorRl
from components.teacher_generation.settings import Settings as TeacherGeneration

PROFILES = Path(__file__).parent / "profiles"

StepFolder = Literal[
    "harness_gate",
    "teacher_generation",
    "harness_augmentation",
    "data_validation",
    "sft",
    "distillation",
    "simulator_rl",
    "evaluation",
    "registration",
    "canary_deploy",
]

IMAGE_BY_DIGEST = r"^[^@\s]+@sha256:[0-9a-f]{64}$"


class Images(Frozen):
    """Container images, by digest: a tag can move under a running rollout."""

    trainer: str = Field(pattern=IMAGE_BY_DIGEST)
    server: str = Field(pattern=IMAGE_BY_DIGEST)
    router: str = Field(pattern=IMAGE_BY_DIGEST)


class Toleration(Frozen):
    key: str
    operator: Literal["Equal", "Exists"] = "Exists"
    value: str | None = None
    effect: Literal["NoExecute", "NoSchedule", "PreferNoSchedule"] = "NoSchedule"


class Resources(Frozen):
    """What one step's pod asks for; requests equal limits so that a GPU node is not overbooked."""

    gpus: int = Field(default=0, ge=0)
    cpu: str = "4"
    memory: str = "16Gi"
    timeout_hours: float = Field(default=2, gt=0)


class SecretEnv(Frozen):
    """A Kubernetes secret whose keys become environment variables (key -> variable) of every step."""

    name: str
    env: dict[str, str]


class SecretMount(Frozen):
    """A Kubernetes secret as a folder, one file a key, in the pods of the named steps (folders) and in no others."""

    name: str
    path: str = Field(pattern=r"^(/[\w.-]*[\w-][\w.-]*)+$")  # absolute, no `.` or `..`
    steps: tuple[StepFolder, ...] = Field(min_length=1)


class Retry(Frozen):
    times: int = Field(default=2, ge=0)
    backoff: str = "60s"
    factor: float = 2.0
    backoff_max: str = "900s"


class Cluster(Frozen):
    """Where and how the steps run on Kubernetes."""

    namespace: str
    serving_namespace: str
    service_account: str
    images: Images
    gpu_node_selector: dict[str, str]
    """Label of the GPU nodes; NVIDIA's feature discovery writes `nvidia.com/gpu.product`."""
    gpu_tolerations: tuple[Toleration, ...] = ()
    accelerator: str = "nvidia.com/gpu"
    shm: str = "64Gi"
    """Size of /dev/shm of GPU steps: the default of 64 MiB breaks data loaders and NCCL."""
    secrets: tuple[SecretEnv, ...] = ()
    secret_mounts: tuple[SecretMount, ...] = ()
    retry: Retry = Retry()
    resources: dict[str, Resources] = Field(default_factory=dict)
    """By step folder; a step that is not named gets the defaults of Resources."""

    @field_validator("secret_mounts")
    @classmethod
    def _paths_differ(cls, mounts: tuple[SecretMount, ...]) -> tuple[SecretMount, ...]:
        places = [(step, mount.path) for mount in mounts for step in mount.steps]
        if len(set(places)) < len(places):
            raise ValueError("Kubernetes mounts one secret at a path of a step, not two")
        return mounts


class Profile(Frozen):
    """`merchant` is a folder (or `s3://.../<digest>`, a stored one, on a cluster). `{runs}` in `tracking_uri` is the
    folder that holds RUN_DIR, so runs that lie side by side share one registry and its champion.

    `minutes` are the step times on the reference machine (2 cores with AVX512-bf16), for the estimate at the start of
    a local run.

    `storage_uri` is where weights go, and on a cluster all that a step writes: `s3://bucket/prefix`, or `file:///folder`
    for runs on this machine. Empty: a folder beside an sqlite tracking database."""

    name: str
    purpose: str
    seed: int = 0
    base_model: str
    merchant: str
    tracking_uri: str
    experiment: str = "harness-aware-training"
    storage_uri: str = Field(default="", pattern=r"^(s3://.+|file:///.+)?$")
    storage_encryption: Encryption = ""
    disk_gib: float = Field(default=2.0, gt=0)
    """Free disk space that a run needs."""
    evaluated_models: tuple[Literal["base", "fixed_sft", "hsa_sft", "hsa_sft_opd", "hat"], ...] = (
        "base",
        "fixed_sft",
        "hat",
    )
    minutes: dict[str, float] = Field(default_factory=dict)
    cluster: Cluster | None = None

    harness_gate: HarnessGate = HarnessGate()
    teacher_generation: TeacherGeneration = TeacherGeneration()
    harness_augmentation: HarnessAugmentation = HarnessAugmentation()
    data_validation: DataValidation = DataValidation()
    sft: Sft = Sft()
    distillation: Distillation = Distillation()
    simulator_rl: SimulatorRl = SimulatorRl()
    evaluation: Evaluation = Evaluation()
    registration: Registration = Registration()
    canary_deploy: CanaryDeploy = CanaryDeploy()

    @field_validator("storage_encryption")
    @classmethod
    def _has_a_server(cls, encryption: str, fields: ValidationInfo) -> str:
        if encryption and not fields.data.get("storage_uri", "s3://").startswith("s3://"):
            raise PydanticCustomError("encryption", "nothing: a server encrypts, and storage_uri is not s3://...")
        return encryption

    def settings_json(self, step: str) -> str:
        """What this profile states about a step (defaults left out: they are code, and the code digest covers them)."""
        return getattr(self, step).model_dump_json(exclude_unset=True)

    @property
    def digest(self) -> str:
        return content_digest(self.model_dump(mode="json"))


def unmounted_keys(profile: Profile) -> list[Fault]:
    """The key files of a profile for Kubernetes that no mounted secret holds: the step would find them missing hours
    later. What stands there is not shown: it may be the key itself, put where its path belongs.
    """
    if profile.cluster is None:
        return []
    teacher = profile.teacher_generation
    endpoints = {f"judges.{number}": judge for number, judge in enumerate(teacher.judges)}
    if teacher.endpoint is not None:
        endpoints["endpoint"] = teacher.endpoint
    mounts = [mount.path for mount in profile.cluster.secret_mounts if "teacher_generation" in mount.steps]
    return [
        Fault(
            f"profile {profile.name}",
            f"teacher_generation.{field}.key_file",
            "a place where no secret is mounted",
            f"{' or '.join(mounts) or 'a path of cluster.secret_mounts'} (a secret of one key), or a file in it",
        )
        for field, endpoint in endpoints.items()
        if endpoint.key_file is not None and not any(_is_in(endpoint.key_file, mount) for mount in mounts)
    ]


def unstored_weights(profile: Profile) -> list[Fault]:
    """No place for the weights that the run will register: registration would say so at the run's end. Only an sqlite
    tracking database has a folder beside it.
    """
    if profile.storage_uri or profile.tracking_uri.startswith("sqlite:///"):
        return []
    allowed = "where registered weights go: s3://bucket/prefix, or file:///folder that the server's users can read"
    found = "nothing, and tracking_uri is a server: MLflow holds no weights"
    return [Fault(f"profile {profile.name}", "storage_uri", found, allowed)]


def _is_in(place: str, folder: str) -> bool:
    path = PurePosixPath(place)
    return ".." not in path.parts and path.is_relative_to(folder)


def load_profile(name_or_path: str) -> Profile:
    """The profile of that name in pipelines/profiles, or of that YAML file.

    Raises InputError with every fault: unknown or missing fields, bad values, a file that is missing, not UTF-8 or not
    YAML.
    """
    known = {path.stem: path for path in sorted(PROFILES.glob("*.yaml"))}
    path = known.get(name_or_path, Path(name_or_path))
    if not path.is_file():
        raise InputError([Fault("profile", "PROFILE", name_or_path, f"one of {', '.join(known)}, or a YAML file")])
    try:
        data: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise InputError([file_fault(path, str(error), "UTF-8")]) from error
    except yaml.YAMLError as error:
        raise InputError([file_fault(path, " ".join(str(error).split()), "valid YAML")]) from error
    if not isinstance(data, dict):
        raise InputError([file_fault(path, type(data).__name__, "a YAML mapping")])
    return validate_settings(Profile, data, str(path))
