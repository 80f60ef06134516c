import json
import math

import pytest

from components.avatar.errors import InputError
from components.integrations.metrics import Metric, read_metrics, write_json, write_metrics


def test_metrics_survive_the_round_trip(tmp_path):
    metrics = {"T2": Metric(0.75, 200), "general": Metric(0.5, 64)}
    write_metrics(tmp_path, metrics)
    assert read_metrics(tmp_path) == metrics
    assert json.loads((tmp_path / "metrics.json").read_text())["T2"] == {"value": 0.75, "n": 200}


def test_an_unmeasured_metric_is_null_and_reads_back_as_nan(tmp_path):
    write_metrics(tmp_path, {"recovery_rate": Metric(math.nan, 0)})
    assert json.loads((tmp_path / "metrics.json").read_text()) == {"recovery_rate": {"value": None, "n": 0}}
    assert math.isnan(read_metrics(tmp_path)["recovery_rate"].value)


def test_every_malformed_metric_is_named(tmp_path):
    write_json(
        tmp_path / "metrics.json",
        {"a": {"value": "0.5", "n": 3}, "b": {"value": 1.0, "n": -1}, "c": 3, "ok": {"value": 1, "n": 2}},
    )
    with pytest.raises(InputError) as caught:
        read_metrics(tmp_path)
    assert [fault.field for fault in caught.value.faults] == ["a", "b", "c"]


@pytest.mark.parametrize("content", [None, b"{", b"\xff\xfe", b"[]"])
def test_a_bad_metrics_file_is_an_input_error(tmp_path, content):
    if content is not None:
        (tmp_path / "metrics.json").write_bytes(content)
    with pytest.raises(InputError, match=r"metrics\.json"):
        read_metrics(tmp_path)


def test_a_failed_write_leaves_the_old_file_and_no_scrap(tmp_path):
    path = tmp_path / "x.json"
    write_json(path, {"kept": 1})
    with pytest.raises(ValueError):
        write_json(path, {"bad": math.inf})
    with pytest.raises(TypeError):
        write_json(path, {"bad": object()})
    assert json.loads(path.read_text()) == {"kept": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]
