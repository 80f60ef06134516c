"""The merchant's folder that the services of a rollout read, and the edit that the merchant makes while they run."""

import json
import shutil
from pathlib import Path

from components.avatar.harness.files import load_harness, save_harness
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.stream import STREAM_KINDS, apply_harness_event


def open_live_folder(source: Path, target: Path) -> Merchant:
    """Copy the folder to `target`, with the harness edits taken out of its events: `edit` makes them. Raises
    InputError."""
    merchant = load_merchant(source)
    shutil.copytree(source, target)
    if merchant.events:
        kept = [event.model_dump(mode="json") for event in merchant.events if event.kind in STREAM_KINDS]
        text = "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in kept)
        (target / "events.jsonl").write_text(text, encoding="utf-8")
    return load_merchant(target)


def edit(source: Path, target: Path) -> str | None:
    """Apply the harness edits of `source`'s events to the harness in `target`; its new digest, or None if there are no
    edits.

    Several files change one after the other, as under an editor: the services keep the old state until the whole is
    valid.
    """
    edits = [event for event in load_merchant(source).events if event.kind not in STREAM_KINDS]
    if not edits:
        return None
    harness = load_harness(target)
    for event in edits:
        harness = apply_harness_event(harness, event)
    save_harness(harness, target)
    return load_harness(target).digest
