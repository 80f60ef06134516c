"""Everything that can be wrong with a run's inputs is found before anything is trained, and said in one message."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.avatar.errors import Fault, InputError
from components.avatar.simulator.merchant import load_merchant
from components.integrations.objects import S3Settings, open_objects
from components.integrations.weights import resolve_base_model
from pipelines.digests import folder_digest
from pipelines.profile import Profile, unstored_weights

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
    """Check merchant folder, base model, disk space and a place for weights. Raises InputError with the faults of all
    of them, SystemFault when the object store cannot be written.
    """
    merchant = Path(profile.merchant)
    faults = unstored_weights(profile)
    loaded = _collect(faults, load_merchant, merchant)
    base = _collect(faults, resolve_base_model, profile.base_model, cache_dir)
    _collect(faults, _check_disk, run_dir, profile.disk_gib)
    if faults:
        raise InputError(faults)
    if profile.storage_uri:
        _write_once(profile)
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


def _write_once(profile: Profile) -> None:
    """Wrong credentials, a bucket that is not there, a server that cannot encrypt: said now, not by registration."""
    store = open_objects(profile.storage_uri, S3Settings(encryption=profile.storage_encryption))
    try:
        store.write("writable", b"written before each run that will need this store\n")
    except OSError as error:
        found = f"{profile.storage_uri}: {error.strerror}"
        raise InputError([Fault(f"profile {profile.name}", "storage_uri", found, "a folder to write in")]) from error


def _check_disk(run_dir: Path, needed_gib: float) -> None:
    existing = next(folder for folder in (run_dir, *run_dir.parents) if folder.exists())
    free = shutil.disk_usage(existing).free / GIB
    if free < needed_gib:
        raise InputError([Fault(str(run_dir), "disk space", f"{free:.1f} GiB free", f"at least {needed_gib:g} GiB")])
