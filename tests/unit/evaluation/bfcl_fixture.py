"""A wheel in BFCL's format with cases written here."""

import json
import zipfile
from pathlib import Path
from typing import Any

FUNCTIONS: dict[str, dict[str, Any]] = {
    "room.book": {
        "name": "room.book",
        "description": "Book a meeting room for some people.",
        "parameters": {
            "type": "dict",
            "properties": {
                "floor": {"type": "integer", "description": "On which level the room is."},
                "people": {"type": "array", "items": {"type": "string"}, "description": "Who comes."},
                "start_hour": {"type": "float", "description": "When it begins, 0 to 24.", "default": 9.0},
                "equipment": {
                    "type": "dict",
                    "description": "What must be there.",
                    "properties": {"screens": {"type": "integer"}, "kind": {"type": "string", "enum": ["oled", "lcd"]}},
                },
            },
            "required": ["floor", "people"],
        },
    },
    "menu_search": {
        "name": "menu_search",
        "description": "Find dishes on the menu of the canteen.",
        "parameters": {
            "type": "dict",
            "properties": {
                "dish": {"type": "string", "description": "A dish or a part of its name."},
                "vegan": {"type": "boolean", "description": "Only vegan ones.", "optional": True},
                "near": {"type": "tuple", "items": {"type": "float"}, "description": "Coordinates of the building."},
                "extra": {"type": "any", "description": "Anything else to pass on."},
            },
            "required": ["dish"],
        },
    },
}
ROWS: dict[str, list[dict[str, Any]]] = {
    "simple_python": [
        {
            "id": "simple_python_0",
            "question": [[{"role": "user", "content": "Book a room on floor 3 for Ann and Bo at half past nine."}]],
            "function": [FUNCTIONS["room.book"]],
        },
        {
            "id": "simple_python_1",
            "question": [[{"role": "user", "content": "Is there vegan soup?"}]],
            "function": [FUNCTIONS["menu_search"]],
        },
    ],
    "multiple": [
        {
            "id": "multiple_0",
            "question": [[{"role": "user", "content": "Where can I get noodles near 1.5, 2.0?"}]],
            "function": [FUNCTIONS["room.book"], FUNCTIONS["menu_search"]],
        }
    ],
    "irrelevance": [
        {
            "id": "irrelevance_0",
            "question": [[{"role": "user", "content": "Who painted the Mona Lisa?"}]],
            "function": [FUNCTIONS["menu_search"]],
        }
    ],
}
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "simple_python": [
        {
            "id": "simple_python_0",
            "ground_truth": [
                {
                    "room.book": {
                        "floor": [3],
                        "people": [["Ann", "Bo"]],
                        "start_hour": [9.5],
                        "equipment": ["", {"screens": [1, ""], "kind": ["oled"]}],
                    }
                }
            ],
        },
        {
            "id": "simple_python_1",
            "ground_truth": [{"menu_search": {"dish": ["soup", "vegan soup"], "vegan": [True, ""]}}],
        },
    ],
    "multiple": [
        {
            "id": "multiple_0",
            "ground_truth": [{"menu_search": {"dish": ["noodles"], "vegan": [False, ""], "near": [[1.5, 2.0]]}}],
        }
    ],
}


def write_wheel(folder: Path, answers: dict[str, list[dict[str, Any]]] | None = None) -> Path:
    path = folder / "bfcl_fixture.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for category, rows in ROWS.items():
            archive.writestr(f"bfcl_eval/data/BFCL_v4_{category}.json", "\n".join(map(json.dumps, rows)) + "\n")
        for category, rows in (answers or ANSWERS).items():
            name = f"bfcl_eval/data/possible_answer/BFCL_v4_{category}.json"
            archive.writestr(name, "\n".join(map(json.dumps, rows)) + "\n")
    return path
