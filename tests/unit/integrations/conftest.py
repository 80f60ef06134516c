"""A real MLflow store in sqlite. Creating its tables takes a second, so it is done once and copied for each test."""

import shutil

import pytest

from components.integrations.tracking import Tracking


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    Tracking(f"sqlite:///{path}", "unused")
    return path


@pytest.fixture
def tracking(empty_database, tmp_path):
    (tmp_path / "runs").mkdir()
    shutil.copy(empty_database, tmp_path / "runs" / "mlflow.db")
    return Tracking(f"sqlite:///{tmp_path}/runs/mlflow.db", "avatar")
