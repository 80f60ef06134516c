"""Create or replace the recurring run of a profile; safe to repeat.

python -m pipelines.schedule --host https://kfp.example --profile h20 --cron "0 0 3 * * *"
"""

import argparse
import re
import sys

from kfp_server_api import (
    RecurringRunMode,
    V2beta1CronSchedule,
    V2beta1RecurringRun,
    V2beta1RuntimeConfig,
    V2beta1Trigger,
)

from components.avatar.errors import Fault, InputError, SystemFault
from pipelines.dag import PIPELINE
from pipelines.kubeflow import PipelineServer
from pipelines.profile import Profile, load_profile
from pipelines.submit import arguments, cluster_of, merchant_faults, pipeline_spec

CRON_FIELDS: dict[str, tuple[int, int, str]] = {
    "second": (0, 59, ""),
    "minute": (0, 59, ""),
    "hour": (0, 23, ""),
    "day": (1, 31, ""),
    "month": (1, 12, "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"),
    "weekday": (0, 6, "SUN MON TUE WED THU FRI SAT"),
}
"""Of the scheduler's cron expressions (robfig/cron 1): least and greatest value; names count from the least."""


def schedule(profile: Profile, host: str, cron: str) -> str:
    """Create the recurring run of this profile and delete the others of its name; returns its id.

    Kubeflow cannot change a recurring run. The new one is created before the old ones are deleted, so that a failure in
    between leaves one too many, never none; the next call cleans up. Raises InputError for a bad cron expression or a
    profile that cannot run on a cluster, SystemFault when the store or the server fails.
    """
    cluster = cluster_of(profile, host, [*cron_faults(cron), *merchant_faults(profile)])
    spec, parameters = pipeline_spec(profile), arguments(profile)
    server = PipelineServer(host, cluster.namespace)
    name = f"{PIPELINE}-{profile.name}"
    experiment = server.experiment(profile.experiment)
    old = server.recurring_runs(name)
    run = V2beta1RecurringRun(
        display_name=name,
        experiment_id=experiment,
        namespace=cluster.namespace,
        pipeline_spec=spec,
        runtime_config=V2beta1RuntimeConfig(parameters=parameters),
        service_account=cluster.service_account,
        trigger=V2beta1Trigger(cron_schedule=V2beta1CronSchedule(cron=cron)),
        mode=RecurringRunMode.ENABLE,
        max_concurrency="1",
        no_catchup=True,
    )
    created = server.create_recurring_run(run, old)
    for run_id in sorted(old):
        server.delete_recurring_run(run_id)
    return created


def cron_faults(cron: str) -> list[Fault]:
    """What the scheduler would refuse, or read otherwise than meant: it takes five fields, but seconds first."""
    parts = cron.split()
    if len(parts) != len(CRON_FIELDS):
        return [Fault("command line", "CRON", cron or "(nothing)", f"six fields: {' '.join(CRON_FIELDS)}")]
    return [
        Fault(
            "command line",
            f"CRON, {field}",
            part,
            f"{low}-{high}{' or ' + names if names else ''}, *, lists, ranges, /steps",
        )
        for part, (field, (low, high, names)) in zip(parts, CRON_FIELDS.items(), strict=True)
        if not all(_fits(item, low, high, names.split()) for item in part.split(","))
    ]


def _fits(item: str, low: int, high: int, names: list[str]) -> bool:
    """One item of a cron field's list: `*`, `?`, a value or a range of values, each with an optional step."""
    match = re.fullmatch(r"(?:[*?]|(\w+)(?:-(\w+))?)(?:/(\d+))?", item, re.ASCII)
    if match is None:
        return False
    values = dict(zip(names, range(low, high + 1), strict=False)) | {str(n): n for n in range(low, high + 1)}
    first, last, step = match.groups()
    ends = [values.get(end.upper().lstrip("0") or "0", -1) for end in (first, last or first) if end is not None]
    return -1 not in ends and ends == sorted(ends) and (step is None or int(step) > 0)


def main(argv: list[str] | None = None) -> int:
    """Exit status 0, 1 when the store or the server fails, or 2 for bad input."""
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
    except SystemFault as error:
        print(error, file=sys.stderr)
        return 1
    print(f"recurring run {run_id} on {options.host}: {options.cron}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
