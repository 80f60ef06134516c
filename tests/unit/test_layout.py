"""Dependencies point one way: pipelines -> step -> avatar, step -> integrations."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = sorted(p.parent.name for p in (ROOT / "components").glob("*/metadata.yaml"))
PLATFORM = {"kfp", "mlflow", "boto3", "great_expectations"}
TORCH_ALLOWED = {"transformers_client.py", "constrained.py", "kv_cache.py"}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_all_ten_steps_are_there() -> None:
    assert len(STEPS) == 10


@pytest.mark.parametrize(
    "path", sorted((ROOT / "components/avatar").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_domain_knows_no_platform_and_no_step(path: Path) -> None:
    found = set(imports(path))
    assert not {name for name in found if name.split(".")[0] in PLATFORM}
    assert not {
        name for name in found if name.startswith("components.") and not name.startswith(("components.avatar",))
    }
    if path.name not in TORCH_ALLOWED:
        assert "torch" not in {name.split(".")[0] for name in found}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_imports_no_other_step_and_no_pipeline(step: str) -> None:
    for path in (ROOT / "components" / step).rglob("*.py"):
        for name in imports(path):
            if name.startswith("components."):
                assert name.split(".")[1] in {"avatar", "integrations", step}, f"{path.name} imports {name}"
            assert not name.startswith("pipelines"), f"{path.name} imports {name}"


def test_integrations_import_no_step() -> None:
    for path in (ROOT / "components/integrations").glob("*.py"):
        for name in imports(path):
            assert not (name.startswith("components.") and name.split(".")[1] in STEPS), f"{path.name} imports {name}"
