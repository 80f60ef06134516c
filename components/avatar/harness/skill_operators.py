"""Operators on skills: identifier (name, description, order, decoys) and content (order, wording and masking of
rules).
"""

from functools import lru_cache

from components.avatar.harness import edits
from components.avatar.harness.banks import banks
from components.avatar.harness.draw import Draw, taken_names
from components.avatar.harness.names import clean_name
from components.avatar.harness.rewording import reword_rule
from components.avatar.harness.schema import Family, Harness, Skill
from components.avatar.harness.tool_operators import MAX_DECOYS, decoys

TOPICS = 7  # families named in one description: more would cost too many tokens


def rename_skills(harness: Harness, draw: Draw) -> Harness:
    taken = taken_names(harness)
    names: dict[str, str] = {}
    for skill in harness.skills:
        if draw.hits():
            words = _family_words(skill.handles)
            name = draw.name([words, draw.banks.skill_words] if words else [draw.banks.skill_words], taken)
            names[skill.name] = name
            taken.add(clean_name(name))
    draw.renamed.update(names)
    return edits.rename_skills(harness, names) if names else harness


def reword_skill_descriptions(harness: Harness, draw: Draw) -> Harness:
    """Another description made of the families that the skill handles; skills that handle none keep theirs."""
    skills = []
    for skill in harness.skills:
        if skill.handles and draw.hits():
            for _ in range(10):
                text = _description(skill, draw)
                if text != skill.description and text not in draw.exclude:
                    skill = skill.model_copy(update={"description": text})
                    break
        skills.append(skill)
    return harness.model_copy(update={"skills": tuple(skills)})


def add_decoy_skill(harness: Harness, draw: Draw) -> Harness:
    """One reply skill that handles no family."""
    described = {skill.description for skill in harness.skills}
    bank = [d for d in draw.banks.decoy_skills.of(draw.split) if d.says not in described and d.says not in draw.exclude]
    if not bank or decoys(harness) >= MAX_DECOYS:
        return harness
    decoy = draw.rng.choice(bank)
    name = draw.name([[word] for word in decoy.words], taken_names(harness))
    body = "\n".join(f"- {rule}" for rule in decoy.body)
    skills = list(harness.skills)
    skills.insert(draw.rng.randint(0, len(skills)), Skill(name=name, description=decoy.says, body=body))
    harness = harness.model_copy(update={"skills": tuple(skills)})
    return edits.edit_skill_enum(harness, lambda names: [*names, name])


def reorder_skills(harness: Harness, draw: Draw) -> Harness:
    return harness.model_copy(update={"skills": tuple(draw.rng.sample(harness.skills, len(harness.skills)))})


def reorder_skill_rules(harness: Harness, draw: Draw) -> Harness:
    return _edit_rules(harness, draw, lambda rules: draw.rng.sample(rules, len(rules)))


def reword_skill_rules(harness: Harness, draw: Draw) -> Harness:
    return _edit_rules(harness, draw, lambda rules: [reword_rule(rule, draw) for rule in rules])


def mask_skill_rules(harness: Harness, draw: Draw) -> Harness:
    """Drops one rule of a skill, never its last."""

    def mask(rules: list[str]) -> list[str]:
        if len(rules) < 2:
            return rules
        dropped = draw.rng.randrange(len(rules))
        return [rule for number, rule in enumerate(rules) if number != dropped]

    return _edit_rules(harness, draw, mask)


@lru_cache(maxsize=256)
def _family_words(families: tuple[Family, ...]) -> tuple[str, ...]:
    """Words that a name of a skill for these families may have."""
    return tuple(word for family in families for word in banks().family_names[family])


def _edit_rules(harness: Harness, draw: Draw, edit) -> Harness:
    skills = []
    for skill in harness.skills:
        parts = _rules(skill.body)
        if parts is not None and draw.hits():
            before, rules, after = parts
            lines = [*before, *(f"- {rule}" for rule in edit(list(rules))), *after]
            skill = skill.model_copy(update={"body": "\n".join(lines)})
        skills.append(skill)
    return harness.model_copy(update={"skills": tuple(skills)})


@lru_cache(maxsize=256)
def _rules(body: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None:
    """The first unbroken list of `- rule` lines with the lines before and after it; None without one."""
    lines = body.split("\n")
    start = next((number for number, line in enumerate(lines) if line.startswith("- ")), None)
    if start is None:
        return None
    end = next((n for n in range(start, len(lines)) if not lines[n].startswith("- ")), len(lines))
    if end < len(lines) and lines[end].startswith((" ", "\t")):
        return None  # rules over several lines: moving their first lines alone would garble them
    return tuple(lines[:start]), tuple(line[2:] for line in lines[start:end]), tuple(lines[end:])


@lru_cache(maxsize=256)
def _named(families: tuple[Family, ...]) -> list[Family]:
    """Those of `families` that a description names, in the order of the banks."""
    return sorted(families, key=list(banks().families).index)[:TOPICS]


def _description(skill: Skill, draw: Draw) -> str:
    topics = [draw.rng.choice(draw.banks.families[family].of(draw.split)) for family in _named(skill.handles)]
    draw.rng.shuffle(topics)
    frame = draw.rng.choice(draw.banks.skill_frames.of(draw.split))
    text = frame.replace("{topics}", ", ".join(topics))
    return text[0].upper() + text[1:]
