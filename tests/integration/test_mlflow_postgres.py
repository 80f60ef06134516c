"""`make mlflow-up` over PostgreSQL and S3: runs, datasets, traces, versions; no password anywhere but in its file."""

import configparser
import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from components.avatar.errors import SystemFault
from components.integrations.lineage import Lineage
from components.integrations.metrics import Metric
from components.integrations.registry import Changes, Registered, Registry
from components.integrations.release import release_of
from components.integrations.traces import log_cases
from components.integrations.tracking import Tracking
from tests.integration.mlflow_servers import PASSWORD, mlflow_up, postgres
from tests.unit.integrations.episode_rows import failed_row, passed_row


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    with postgres(tmp_path_factory.mktemp("postgres")) as running:
        yield running


def test_postgresql_and_s3_hold_what_a_step_and_a_registration_write(database, s3, tmp_path, monkeypatch):
    environment = {
        "PGPASSFILE": str(database.passfile),
        "AWS_SHARED_CREDENTIALS_FILE": str(s3.credentials),
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    model = tmp_path / "hat"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (failed_row(0), passed_row(1))))
    with mlflow_up(tmp_path, database.uri, f"s3://{s3.bucket}/mlflow-postgres", environment) as uri:
        tracking = Tracking(uri, "postgres")
        parent = tracking.start_pipeline_run("pipeline", params={"seed": 0})
        with tracking.step_run(parent, "evaluation") as run:
            run.log_metrics({"T2": Metric(0.5, 10)})
            run.log_curves([{"step": i, "loss": 1 / (i + 1)} for i in range(1200)])
            run.log_dataset("harness", "abc", "/merchant", "evaluation")
            log_cases(run, tmp_path / "cases.jsonl")
        registry = Registry(tracking, str(tmp_path / "store"))
        with registry.changes() as changes:
            made = _register(changes, model, run.run_id)
            changes.set_alias("champion", made.version)
        with pytest.raises(SystemFault, match="the copy answers"), registry.changes() as changes:
            changes.set_alias("champion", _register(changes, model, run.run_id, "--other").version)
            raise SystemFault("the copy answers otherwise")
        assert registry.versions() == [made] == [registry.champion()]
        assert registry.link_traces(registry.champion(), run.run_id) == 2
        assert len(tracking.client.search_traces(locations=[tracking.experiment_id], run_id=run.run_id)) == 2
        assert len(tracking.client.get_metric_history(run.run_id, "loss")) == 1200
        commands = _command_lines()

    engine = create_engine(database.uri, connect_args={"passfile": str(database.passfile)})
    with engine.connect() as connection:
        # The second version was undone: MLflow keeps its row, as deleted.
        for table, rows in {"runs": 2, "model_versions": 2, "trace_info": 2, "datasets": 1}.items():
            assert connection.execute(text(f"select count(*) from {table}")).scalar() == rows, table
    engine.dispose()
    keys = [o["Key"] for o in s3.client().list_objects_v2(Bucket=s3.bucket, Prefix="mlflow-postgres/")["Contents"]]
    assert any(key.endswith("/failed_cases.json") for key in keys) and any(key.endswith("/MLmodel") for key in keys)
    aws = configparser.ConfigParser()
    aws.read(s3.credentials)
    secrets = [PASSWORD, aws["default"]["aws_secret_access_key"]]
    for place in (commands, (tmp_path / "log").read_text(), database.log.read_text()):
        assert not [secret for secret in secrets if secret in place]


def _register(changes: Changes, model: Path, run_id: str, *arguments: str) -> Registered:
    release = release_of(model, arguments)
    return changes.register(model, arm="hat", release=release, lineage=Lineage("h", "d", "c"), run_id=run_id)


def _command_lines() -> str:
    """Of every process, as any user of the machine can read them."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:  # it has ended
            continue
    return "\n".join(lines)
