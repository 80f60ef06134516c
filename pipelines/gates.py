"""Small KFP components that are glue of the DAG, not steps."""

from kfp import dsl

from components.integrations.component import component


@component
def read_flag(result: dsl.Input[dsl.Artifact], file: str, field: str) -> bool:
    """Whether a field of a JSON file of an artifact folder is true or there, as a value that `dsl.If` can test.

    A condition on a *named* output of a task with several outputs is skipped silently by the local runner, hence this
    task.
    """
    import json
    from pathlib import Path

    return bool(json.loads((Path(result.path) / file).read_text(encoding="utf-8"))[field])


@component
def report_failure(status: dsl.PipelineTaskFinalStatus, context: str) -> None:
    """The exit task: writes a failure report that says which step failed and why."""
    from components.integrations.task import write_failure_report

    write_failure_report(context, {"state": status.state, "error_message": status.error_message})
