"""The wordings of banks.yaml, typed, and the choice between their training and held-out halves."""

from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml
from pydantic import Field

from components.avatar.harness.schema import Capability, Family, Frozen, HookCheck, Language
from components.avatar.harness.words import Split

BANKS_LANGUAGE: Language = "en"


class Wordings(Frozen):
    """Texts that say the same; the two lists share none."""

    train: tuple[str, ...] = Field(min_length=2)
    heldout: tuple[str, ...] = Field(min_length=2)

    def of(self, split: Split) -> tuple[str, ...]:
        return self.train if split == "train" else self.heldout


class CapabilityWordings(Wordings):
    names: tuple[str, ...]


class Phrase(Frozen):
    """A turn of speech in rules: `same` are training wordings and what is looked for, `heldout` the held-out ones."""

    same: tuple[str, ...]
    heldout: tuple[str, ...]


class DecoyTool(Frozen):
    words: tuple[str, ...]
    says: str
    arguments: dict[str, Literal["integer", "number", "string", "boolean"]]
    near: bool = False


class DecoySkill(Frozen):
    words: tuple[str, ...]
    says: str
    body: tuple[str, ...]


class DecoyTools(Frozen):
    train: tuple[DecoyTool, ...]
    heldout: tuple[DecoyTool, ...]

    def of(self, split: Split) -> tuple[DecoyTool, ...]:
        return self.train if split == "train" else self.heldout


class DecoySkills(Frozen):
    train: tuple[DecoySkill, ...]
    heldout: tuple[DecoySkill, ...]

    def of(self, split: Split) -> tuple[DecoySkill, ...]:
        return self.train if split == "train" else self.heldout


class Persona(Frozen):
    address: Wordings
    ends_with: Wordings


class Banks(Frozen):
    items: Wordings
    leads: Wordings
    verbs: tuple[str, ...]
    capabilities: dict[Capability, CapabilityWordings]
    arguments: dict[str, tuple[str, ...]]
    families: dict[Family, Wordings]
    family_names: dict[Family, tuple[str, ...]]
    skill_words: tuple[str, ...]
    skill_frames: Wordings
    hook_messages: dict[HookCheck, Wordings]
    persona: Persona
    phrases: tuple[Phrase, ...]
    frames: Wordings
    decoys: DecoyTools
    decoy_skills: DecoySkills


@cache
def banks() -> Banks:
    text = resources.files("components.avatar.harness").joinpath("banks.yaml").read_text(encoding="utf-8")
    value: Any = yaml.safe_load(text)
    return Banks.model_validate(value)
