"""The MLmodel file of a registered model: what goes in and out of it, with an example, as MLflow's UI shows them.

It has no `python_function` flavor: the weights lie in the store, not in MLflow, so nothing here may pretend that
`mlflow.pyfunc.load_model` works. Its own flavor says where they are.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow.models import Model, ModelSignature
from mlflow.types.schema import AnyType, Array, ColSpec, DataType, Object, Property, Schema

from components.integrations.metrics import write_json

FLAVOR = "avatar_agent"
EXAMPLE_FILE = "input_example.json"

_MESSAGE = Object([Property("role", DataType.string), Property("content", DataType.string)])
_TOOL = Object([Property("type", DataType.string), Property("function", AnyType())])
SIGNATURE = ModelSignature(
    inputs=Schema([ColSpec(Array(_MESSAGE), name="messages"), ColSpec(Array(_TOOL), name="tools", required=False)]),
    outputs=Schema([ColSpec(DataType.string, name="text")]),
)
"""The chat interface: messages and tools in OpenAI's form in; one agent turn out, as text, tool calls included."""


def write_mlmodel(
    folder: Path, model_id: str, run_id: str | None, flavor: Mapping[str, Any], example: Mapping[str, Any] | None
) -> None:
    """Write MLmodel, and input_example.json when there is an `example` ({"messages", "tools"}), into `folder`."""
    info = None
    if example is not None:
        write_json(folder / EXAMPLE_FILE, dict(example))
        info = {"artifact_path": EXAMPLE_FILE, "type": "json_object"}
    Model(
        run_id=run_id,
        model_id=model_id,
        signature=SIGNATURE,
        saved_input_example_info=info,
        flavors={FLAVOR: dict(flavor)},
    ).save(folder / "MLmodel")
