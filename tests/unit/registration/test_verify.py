import json
import shutil

from safetensors.torch import load_file, save_file

from components.registration.verify import PROMPTS, same_generation


def test_a_copy_is_the_same(tiny_models, tmp_path):
    copy = shutil.copytree(tiny_models["hat"], tmp_path / "copy")
    result = same_generation(tiny_models["hat"], copy, max_new_tokens=8)
    assert result.same and result.compared > 8 * len(PROMPTS)  # prompts count too


def test_another_model_is_not(tiny_models):
    result = same_generation(tiny_models["hat"], tiny_models["base"])
    assert not result.same and "greedy ids of prompt" in result.difference


def test_changed_weights_are_noticed(tiny_models, tmp_path):
    copy = shutil.copytree(tiny_models["hat"], tmp_path / "copy")
    weights = load_file(copy / "model.safetensors")
    name = "lm_head.weight" if "lm_head.weight" in weights else "model.embed_tokens.weight"
    weights[name] = weights[name].flip(0).contiguous()
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert not same_generation(tiny_models["hat"], copy).same


def test_a_changed_template_is_noticed(tiny_models, tmp_path):
    copy = shutil.copytree(tiny_models["hat"], tmp_path / "copy")
    template = copy / "chat_template.jinja"
    template.write_text("you sell " + template.read_text())
    result = same_generation(tiny_models["hat"], copy)
    assert "prompt ids of prompt 0" in result.difference


def test_a_changed_vocabulary_is_noticed(tiny_models, tmp_path):
    copy = shutil.copytree(tiny_models["hat"], tmp_path / "copy")
    data = json.loads((copy / "tokenizer.json").read_text())
    vocabulary = data["model"]["vocab"]
    vocabulary["tea"], vocabulary["mild"] = vocabulary["mild"], vocabulary["tea"]
    (copy / "tokenizer.json").write_text(json.dumps(data))
    assert "prompt ids" in same_generation(tiny_models["hat"], copy).difference
