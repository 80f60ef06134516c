"""Everything that can be wrong with a run's inputs is found before anything is trained, and said in one message."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.avatar.errors import Fault, InputError
from components.avatar.simulator.merchant import load_merchant
from components.integrations.weights import resolve_base_model
from pipelines.digests import folder_digest
from pipelines.profile import Profile

GIB = 1024**3


@dataclass(frozen=True)
class Prepared:
    """What the checks found on the way: digests for the cache keys, the folder of the base model."""

    merchant: Path
    merchant_digest: str
    harness_digest: str
    base_model: Path
    base_digest: str


def preflight(profile: Profile, run_dir: Path, cache_dir: Path) -> Prepared:
    """Check merchant folder, base model and disk space. Raises InputError with the faults of all of them."""
    merchant = Path(profile.merchant)
    faults: list[Fault] = []
    loaded = _collect(faults, load_merchant, merchant)
    base = _collect(faults, resolve_base_model, profile.base_model, cache_dir)
    _collect(faults, _check_disk, run_dir, profile.disk_gib)
    if faults:
        raise InputError(faults)
    return Prepared(merchant.resolve(), folder_digest(merchant), loaded.harness.digest, base, folder_digest(base))


def refuse_cluster_profile(profile: Profile) -> None:
    """A profile with a cluster section trains models that no laptop holds. Raises InputError that names the way to run
    it.
    """
    if profile.cluster is not None:
        raise InputError(
            [
                Fault(
                    f"profile {profile.name}",
                    "cluster",
                    "a profile for Kubernetes",
                    f"make pipeline-submit PROFILE={profile.name} KFP_HOST=https://... (or PROFILE=local here)",
                )
            ]
        )


def _collect(faults: list[Fault], check: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return check(*arguments)
    except InputError as error:
        faults += error.faults
        return None


def _check_disk(run_dir: Path, needed_gib: float) -> None:
    existing = next(folder for folder in (run_dir, *run_dir.parents) if folder.exists())
    free = shutil.disk_usage(existing).free / GIB
    if free < needed_gib:
        raise InputError([Fault(str(run_dir), "disk space", f"{free:.1f} GiB free", f"at least {needed_gib:g} GiB")])
