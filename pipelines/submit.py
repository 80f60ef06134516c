"""Submit a pipeline run to a Kubeflow Pipelines server.

python -m pipelines.submit --host https://kfp.example --profile h20
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kfp_server_api import V2beta1Run, V2beta1RuntimeConfig

from components.avatar.errors import Fault, InputError, SystemFault
from components.avatar.harness.schema import content_digest
from components.avatar.simulator.merchant import load_merchant
from components.integrations.task import Context
from pipelines.compile import compile_pipeline
from pipelines.dag import PIPELINE
from pipelines.digests import code_digest
from pipelines.kubeflow import FINISHED, PipelineServer
from pipelines.profile import Cluster, Profile, load_profile, unmounted_keys


@dataclass(frozen=True)
class Submission:
    """`started` is False when a run of the very same pipeline and arguments was going already."""

    run_id: str
    started: bool


def cluster_of(profile: Profile, host: str, also: Sequence[Fault] = ()) -> Cluster:
    """The profile's cluster section. Raises InputError with the faults `also` and all that keeps the profile from
    running on a cluster: no host, no store, no images, a key that no secret holds.
    """
    faults = [*also, *unmounted_keys(profile)]
    if not profile.storage_uri.startswith("s3://"):
        found = profile.storage_uri or "missing"
        faults.append(Fault(f"profile {profile.name}", "storage_uri", found, "s3://... that the pods can reach"))
    if not re.fullmatch(r"https?://[^\s@?#/]+(/[^\s?#]*)?", host):
        allowed = "the address of a Kubeflow Pipelines server, http(s)://..., without a user"
        faults.append(Fault("command line", "KFP_HOST", "(nothing)" if not host else "no such address", allowed))
    if profile.cluster is None:
        faults.append(Fault(f"profile {profile.name}", "cluster", "missing", "a profile for Kubernetes, such as h20"))
    elif any("sha256:" + "0" * 64 in image for image in profile.cluster.images.model_dump().values()):
        faults.append(
            Fault(f"profile {profile.name}", "cluster.images", "the placeholder digest", "digests of your own images")
        )
    if faults or profile.cluster is None:
        raise InputError(faults)
    return profile.cluster


def merchant_faults(profile: Profile) -> Sequence[Fault]:
    """What is wrong with a merchant folder on this machine, so that it stops here and not in a pod."""
    if profile.merchant.startswith("s3://"):
        return ()
    try:
        load_merchant(Path(profile.merchant))
    except InputError as error:
        return error.faults
    return ()


def arguments(profile: Profile) -> dict[str, Any]:
    """Pipeline parameters of a cluster run; a local merchant folder is put into the store, where the pods can read it.

    A base model in the object store is named by its URI, which must change with its content (a versioned prefix).
    """
    context = Context(
        tracking_uri=profile.tracking_uri,
        experiment=profile.experiment,
        storage_uri=profile.storage_uri,
        storage_encryption=profile.storage_encryption,
        cache_dir="/tmp/hat-cache",
    )
    merchant = profile.merchant
    if not merchant.startswith("s3://"):
        merchant = context.store().put(Path(merchant)).uri
    return {
        "merchant": merchant,
        "merchant_digest": merchant.rpartition("/")[2],
        "base_digest": profile.base_model,
        "code_version": code_digest(),
        "context": context.model_dump_json(),
    }


def pipeline_spec(profile: Profile) -> dict[str, Any]:
    """The compiled pipeline and its Kubernetes settings in the form of the API (a run's `pipeline_spec`)."""
    with tempfile.TemporaryDirectory() as folder:
        text = compile_pipeline(profile, Path(folder) / "pipeline.yaml").read_text(encoding="utf-8")
    pipeline, platform = yaml.safe_load_all(text)
    return {"pipeline_spec": pipeline, "platform_spec": platform}


def submit(profile: Profile, host: str) -> Submission:
    """Start one run, unless one of the very same pipeline and arguments is going.

    A run's description holds the digest of what it runs. So a run whose answer was lost is found, by this call or by
    the same command later, and never doubled. Raises InputError for a profile that cannot run on a cluster,
    SystemFault when the store or the server fails.
    """
    cluster = cluster_of(profile, host, merchant_faults(profile))
    spec, parameters = pipeline_spec(profile), arguments(profile)
    server = PipelineServer(host, cluster.namespace)
    run = V2beta1Run(
        display_name=f"{PIPELINE}-{profile.name}",
        description=f"pipeline and arguments {content_digest([spec, parameters, cluster.service_account])}",
        experiment_id=server.experiment(profile.experiment),
        pipeline_spec=spec,
        runtime_config=V2beta1RuntimeConfig(parameters=parameters),
        service_account=cluster.service_account,
    )
    known = server.runs(run)
    going = [run_id for run_id, row in known.items() if row.state not in FINISHED]
    if going:
        return Submission(going[0], started=False)
    return Submission(server.start_run(run, known), started=True)


def main(argv: list[str] | None = None) -> int:
    """Exit status 0, 1 when the store or the server fails, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.submit", description="Submit a run to Kubeflow Pipelines."
    )
    parser.add_argument("--host", default="", help="address of the Kubeflow Pipelines server")
    parser.add_argument("--profile", default="h20")
    options = parser.parse_args(argv)
    try:
        done = submit(load_profile(options.profile), options.host)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except SystemFault as error:
        print(error, file=sys.stderr)
        return 1
    what = "submitted run" if done.started else "this very run is going already:"
    print(f"{what} {done.run_id}: {options.host.rstrip('/')}/#/runs/details/{done.run_id}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
