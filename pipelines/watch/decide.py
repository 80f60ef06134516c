"""Is an edit sound, and what does it change? Needs no model; whether to train is the gate's question (gate.py)."""

from dataclasses import dataclass
from pathlib import Path

from components.avatar.errors import InputError
from components.avatar.harness.lint import lint
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.sampling import sample_scenarios
from pipelines.watch.queue import Described
from pipelines.watch.words import changes_in_words


@dataclass(frozen=True)
class Examined:
    """`faults` refuse the edit; warnings do not. `changes` are those since the last accepted version; without one
    they are empty. `meaning` is the digest of what was loaded: files that differ in form only have the same.
    """

    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changes: tuple[Described, ...] = ()
    harness_digest: str = ""
    meaning: str = ""


def examine(folder: Path, before: Path | None, seed: int) -> Examined:
    """Load and lint a merchant's folder and compare it with its last good version, `before`."""
    try:
        merchant = load_merchant(folder)
    except InputError as error:
        return Examined(faults=tuple(_below(str(fault), folder) for fault in error.faults))
    findings = [(finding.severity, _below(str(finding.fault), folder)) for finding in lint(merchant.harness)]
    faults = [text for severity, text in findings if severity == "error"]
    try:
        sample_scenarios(merchant, 1, seed=seed, split="test")
    except ValueError as error:
        faults.append(f"questions.jsonl: {error}: nothing could be measured on it")
    warnings = tuple(text for severity, text in findings if severity == "warning")
    if faults:
        return Examined(faults=tuple(faults), warnings=warnings)
    return Examined(
        warnings=warnings,
        changes=() if before is None else _changes(before, merchant),
        harness_digest=merchant.harness.digest,
        meaning=merchant.digest,
    )


def _changes(before: Path, merchant: Merchant) -> tuple[Described, ...]:
    try:
        return changes_in_words(load_merchant(before), merchant)
    except InputError:  # it was good once: the rules have changed since
        return (
            Described(text="the last good version cannot be loaded any more: nothing to compare with", effect="data"),
        )


def _below(text: str, folder: Path) -> str:
    """Without the path of our copy: the merchant knows the folder by its own name."""
    return text.replace(f"{folder}/", "").replace(str(folder), folder.name)
