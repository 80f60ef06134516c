"""Folders of SKILL.md files (Agent Skills, agentskills.io/specification) read as skills of a harness.

Kept: name, description, body, and our own `kind` and `handles` where a file has them. Said: other front matter and the
files beside SKILL.md, for which a harness has no place.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from components.avatar.errors import Fault, file_fault
from components.avatar.harness.files import read_skill, skill_of
from components.avatar.harness.schema import Skill
from components.avatar.harness.strict import shorten

KEPT = ("name", "description", "kind", "handles")
MARK = "SKILL.md"


@dataclass
class SkillFolders:
    """What was read: `skills` by name in order; `dropped`: front matter without a place -> names of its skills;
    `notes`: other things that the operator should know.
    """

    skills: dict[str, Skill] = field(default_factory=dict)
    dropped: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    places: dict[str, Path] = field(default_factory=dict)


def read_skill_folders(paths: Sequence[Path], faults: list[Fault]) -> SkillFolders:
    """The skills in `paths`: each a SKILL.md, a skill's folder, or a folder of them at any depth (hidden ones are
    passed over). All faults are added to `faults`.
    """
    folders = SkillFolders()
    for path in paths:
        found = [path] if path.name == MARK else _marks(path)
        if not found:
            faults.append(file_fault(path, "no SKILL.md in this folder", "a folder of <name>/SKILL.md"))
        for mark in found:
            parts = read_skill(mark, faults)
            if parts is None:
                continue
            front, body = parts
            skill = skill_of({key: front[key] for key in KEPT if key in front}, body, mark, faults)
            if skill is None:
                continue
            for key in front:
                if key not in KEPT:
                    folders.dropped.setdefault(str(key), []).append(skill.name)
            _add(skill, mark, folders, faults)
    return folders


def _marks(folder: Path) -> list[Path]:
    found = [mark for mark in folder.rglob(MARK) if not _hidden(mark.relative_to(folder))]
    return sorted(found)


def _add(skill: Skill, mark: Path, folders: SkillFolders, faults: list[Fault]) -> None:
    known = folders.skills.setdefault(skill.name, skill)
    place = folders.places.setdefault(skill.name, mark)
    if place == mark:
        beside = [file for file in sorted(mark.parent.rglob("*")) if file.is_file() and file.name != MARK]
        beside = [file.relative_to(mark.parent) for file in beside if not _hidden(file.relative_to(mark.parent))]
        if beside:
            names = ", ".join(shorten(str(file)) for file in beside[:5]) + (
                f" and {len(beside) - 5} more files" if len(beside) > 5 else ""
            )
            folders.notes.append(f"not kept beside {mark}: {names}")
    elif known == skill:
        folders.notes.append(f"skill {skill.name!r} stands in {place} and {mark} in the same words: kept once")
    else:
        allowed = f"a name of its own (another skill of that name stands in {place})"
        faults.append(Fault(str(mark), "front matter.name", shorten(skill.name), allowed))


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
