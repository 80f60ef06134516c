"""Every KFP wrapper hands its step exactly what the step's `run` takes: a mismatch would show after an hour of
training.
"""

import importlib
import inspect
import json
from types import SimpleNamespace

import pytest

from components.integrations import task
from pipelines.dag import SIDE_EFFECTS
from pipelines.digests import code_digest

FOLDERS = (
    "harness_gate",
    "teacher_generation",
    "harness_augmentation",
    "data_validation",
    "sft",
    "distillation",
    "simulator_rl",
    "evaluation",
    "registration",
    "canary_deploy",
)
COMMON = {"output": None, "settings": None, "seed": 0, "progress": None}


@pytest.mark.parametrize("step", FOLDERS)
def test_the_wrapper_hands_over_what_run_takes(step, tmp_path, monkeypatch):
    (tmp_path / "gate.json").write_text('{"harness_digest": "abc"}')
    for arm in ("fixed", "hsa"):
        (tmp_path / f"{arm}.jsonl").write_text("{}")
    wrapper = getattr(importlib.import_module(f"components.{step}.component"), step).python_func
    values = {
        "settings": "{}",
        "seed": 0,
        "arm": "hsa",
        "models": ["base", "hat"],
        **dict.fromkeys(("code", "code_version", "base_digest", "merchant", "merchant_digest", "base_model"), "x"),
    }
    artifact = SimpleNamespace(path=str(tmp_path), uri=str(tmp_path))
    given = {name: values.get(name, artifact) for name in inspect.signature(wrapper).parameters}
    given["context"] = task.Context(tracking_uri="sqlite:///x.db").model_dump_json()
    called = []
    monkeypatch.setattr(task, "run_task", lambda name, run, **rest: called.append((name, run, rest)))
    monkeypatch.setattr(task.Context, "base_model", lambda self, spec: tmp_path)

    wrapper(**given)
    [(name, run, rest)] = called
    assert name == ("sft_hsa" if step == "sft" else step)
    inputs = rest["inputs"](task.Context.model_validate_json(given["context"]))
    inspect.signature(run).bind(**inputs, **COMMON)


def test_settings_of_every_step_have_defaults_and_survive_json():
    for step in FOLDERS:
        settings = importlib.import_module(f"components.{step}.settings").Settings()
        assert type(settings).model_validate_json(settings.model_dump_json()) == settings
        json.loads(settings.model_dump_json(exclude_unset=True))


def test_a_step_has_a_code_digest_of_its_own():
    digests = {step: code_digest(step) for step in FOLDERS}
    assert len(set(digests.values())) == len(FOLDERS)
    assert code_digest() not in digests.values()
    assert SIDE_EFFECTS <= set(FOLDERS)
