"""Create or replace the recurring run of a profile; safe to repeat.

python -m pipelines.schedule --host https://kfp.example --profile h20 --cron "0 0 3 * * *"
"""

import argparse
import sys
import tempfile
from pathlib import Path

from components.avatar.errors import Fault, InputError
from pipelines.compile import compile_pipeline
from pipelines.dag import PIPELINE
from pipelines.profile import Profile, load_profile
from pipelines.submit import arguments, cluster_of


def schedule(profile: Profile, host: str, cron: str) -> str:
    """Delete the recurring runs of this profile's name and create one; returns its id.

    Kubeflow cannot change a recurring run. The new one is created before the old ones are deleted, so that a failure in
    between leaves one too many, never none; the next call cleans up. `cron` has six fields, seconds first.
    """
    import kfp

    if len(cron.split()) != 6:
        raise InputError([Fault("command line", "CRON", cron, "six fields: second minute hour day month weekday")])
    cluster = cluster_of(profile, host)
    client = kfp.Client(host=host, namespace=cluster.namespace)
    experiment = client.create_experiment(profile.experiment, namespace=cluster.namespace)
    name = f"{PIPELINE}-{profile.name}"
    known = client.list_recurring_runs(
        experiment_id=experiment.experiment_id, namespace=cluster.namespace, page_size=100
    )
    old = [run.recurring_run_id for run in known.recurring_runs or [] if run.display_name == name]
    with tempfile.TemporaryDirectory() as folder:
        package = compile_pipeline(profile, Path(folder) / "pipeline.yaml")
        created = client.create_recurring_run(
            experiment_id=str(experiment.experiment_id),
            job_name=name,
            cron_expression=cron,
            max_concurrency=1,
            no_catchup=True,
            pipeline_package_path=str(package),
            params=arguments(profile),
            service_account=cluster.service_account,
        )
    for run_id in old:
        client.delete_recurring_run(run_id)
    return str(created.recurring_run_id)


def main(argv: list[str] | None = None) -> int:
    """Exit status 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.schedule", description="Create or replace the recurring run."
    )
    parser.add_argument("--host", default="", help="address of the Kubeflow Pipelines server")
    parser.add_argument("--profile", default="h20")
    parser.add_argument("--cron", default="0 0 3 * * *", help="six fields, seconds first")
    options = parser.parse_args(argv)
    try:
        run_id = schedule(load_profile(options.profile), options.host, options.cron)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"recurring run {run_id} on {options.host}: {options.cron}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
