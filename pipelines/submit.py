"""Submit a pipeline run to a Kubeflow Pipelines server.

python -m pipelines.submit --host https://kfp.example --profile h20
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from components.avatar.errors import Fault, InputError
from components.avatar.simulator.merchant import load_merchant
from components.integrations.storage import Store
from components.integrations.task import Context
from pipelines.compile import compile_pipeline
from pipelines.dag import PIPELINE
from pipelines.digests import code_digest
from pipelines.profile import Cluster, Profile, load_profile


def cluster_of(profile: Profile, host: str) -> Cluster:
    """The profile's cluster section. Raises InputError when it has none or no host is given."""
    faults = []
    if not profile.storage_uri:
        faults.append(Fault(f"profile {profile.name}", "storage_uri", "missing", "s3://... that the pods can reach"))
    if not host:
        faults.append(Fault("command line", "KFP_HOST", "(nothing)", "the address of a Kubeflow Pipelines server"))
    if profile.cluster is None:
        faults.append(Fault(f"profile {profile.name}", "cluster", "missing", "a profile for Kubernetes, such as h20"))
    elif any("sha256:" + "0" * 64 in image for image in profile.cluster.images.model_dump().values()):
        faults.append(
            Fault(f"profile {profile.name}", "cluster.images", "the placeholder digest", "digests of your own images")
        )
    if faults or profile.cluster is None:
        raise InputError(faults)
    return profile.cluster


def arguments(profile: Profile) -> dict[str, Any]:
    """Pipeline parameters of a cluster run; a local merchant folder is put into the store, where the pods can read it.

    A base model in the object store is named by its URI, which must change with its content (a versioned prefix).
    """
    context = Context(
        tracking_uri=profile.tracking_uri,
        experiment=profile.experiment,
        storage_uri=profile.storage_uri,
        cache_dir="/tmp/hat-cache",
    )
    merchant = profile.merchant
    if not merchant.startswith("s3://"):
        load_merchant(Path(merchant))  # a bad folder stops here, not in a pod
        merchant = Store(profile.storage_uri).put(Path(merchant)).uri
    return {
        "merchant": merchant,
        "merchant_digest": merchant.rpartition("/")[2],
        "base_digest": profile.base_model,
        "code_version": code_digest(),
        "context": context.model_dump_json(),
    }


def submit(profile: Profile, host: str) -> str:
    """Start one run; returns its id. Raises InputError for a profile that cannot run on a cluster."""
    import kfp

    cluster = cluster_of(profile, host)
    with tempfile.TemporaryDirectory() as folder:
        package = compile_pipeline(profile, Path(folder) / "pipeline.yaml")
        run = kfp.Client(host=host, namespace=cluster.namespace).create_run_from_pipeline_package(
            str(package),
            arguments=arguments(profile),
            run_name=f"{PIPELINE}-{profile.name}",
            namespace=cluster.namespace,
            experiment_name=profile.experiment,
            service_account=cluster.service_account,
        )
    return str(run.run_id)


def main(argv: list[str] | None = None) -> int:
    """Exit status 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.submit", description="Submit a run to Kubeflow Pipelines."
    )
    parser.add_argument("--host", default="", help="address of the Kubeflow Pipelines server")
    parser.add_argument("--profile", default="h20")
    options = parser.parse_args(argv)
    try:
        run_id = submit(load_profile(options.profile), options.host)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"submitted run {run_id} to {options.host}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
