"""Operators on tool definitions: what a tool is called, how it is described, where it stands, what stands beside it."""

from components.avatar.harness import edits
from components.avatar.harness.banks import DecoyTool
from components.avatar.harness.draw import Draw, taken_names
from components.avatar.harness.names import clean_name
from components.avatar.harness.schema import Binding, Capability, Harness, Tool

MAX_DECOYS = 3  # tools and skills together: every decoy costs about 25 tokens of the system message

# Tools whose loss leaves an answerable harness: the reply then says that it can't be checked.
WITHDRAWABLE = frozenset(Capability) - {Capability.LOAD_SKILL, Capability.RECORDED, Capability.DECOY}


def rename_tools(harness: Harness, draw: Draw) -> Harness:
    taken = taken_names(harness)
    names: dict[str, str] = {}
    for tool in harness.tools:
        if draw.hits():
            name = draw.name(_plausible(harness, tool, draw), taken)
            names[tool.name] = name
            taken.add(clean_name(name))
    draw.renamed.update(names)
    return edits.rename_tools(harness, names) if names else harness


def rename_arguments(harness: Harness, draw: Draw) -> Harness:
    """Renames bound arguments; usually one name for one meaning across all tools, as most real tool lists have it."""
    consistent = draw.rng.random() < 0.7
    shared: dict[str, str] = {}
    originals = {new: old for old, new in draw.renamed.items()}
    renamed: dict[str, dict[str, str]] = {}
    for tool in harness.tools:
        binding = harness.bindings.get(tool.name)
        if binding is None:
            continue
        taken = {clean_name(name) for name in tool.argument_names()}
        names: dict[str, str] = {}
        for name, canonical in binding.arguments.items():
            if not draw.hits():
                continue
            new = shared.get(canonical) if consistent else None
            if new is None or clean_name(new) in taken:
                new = draw.argument(draw.banks.arguments.get(canonical, ()), taken)
            shared.setdefault(canonical, new)
            names[name] = new
            taken.add(clean_name(new))
            draw.renamed[f"{originals.get(tool.name, tool.name)}.{name}"] = new
        if names:
            renamed[tool.name] = names
    return edits.rename_arguments(harness, renamed) if renamed else harness


def reword_tool_descriptions(harness: Harness, draw: Draw) -> Harness:
    """Another description that still says what the tool does: with an arbitrary name it is all that tells."""
    tools = []
    for tool in harness.tools:
        binding = harness.bindings.get(tool.name)
        wordings = draw.banks.capabilities.get(binding.capability) if binding else None
        if wordings is not None and draw.hits():
            for _ in range(10):
                text = sentence(draw, draw.rng.choice(wordings.of(draw.split)))
                if text != tool.description and text not in draw.exclude:
                    tool = tool.model_copy(update={"description": text})
                    break
        tools.append(tool)
    return harness.model_copy(update={"tools": tuple(tools)})


def add_decoy_tools(harness: Harness, draw: Draw) -> Harness:
    """One to three tools that no question needs; at higher strength more of them, and nearer to the shop's business."""
    room = MAX_DECOYS - decoys(harness)
    if room <= 0:
        return harness
    count = min(room, 1 + (draw.rng.random() < 0.6 * draw.strength) + (draw.rng.random() < 0.4 * draw.strength))
    bank = draw.banks.decoys.of(draw.split)
    near = [decoy for decoy in bank if decoy.near]
    far = [decoy for decoy in bank if not decoy.near]
    tools, bindings = list(harness.tools), dict(harness.bindings)
    taken = taken_names(harness)
    described = {tool.description for tool in tools}
    for _ in range(count):
        decoy = draw.rng.choice(near if draw.rng.random() < 0.2 + 0.5 * draw.strength else far)
        tool = _decoy_tool(decoy, draw, taken)
        if tool.description in described or tool.description in draw.exclude:
            continue
        described.add(tool.description)
        taken.add(clean_name(tool.name))
        tools.insert(draw.rng.randint(0, len(tools)), tool)
        bindings[tool.name] = Binding(capability=Capability.DECOY)
    return harness.model_copy(update={"tools": tuple(tools), "bindings": bindings})


def reorder_tools(harness: Harness, draw: Draw) -> Harness:
    return harness.model_copy(update={"tools": tuple(draw.rng.sample(harness.tools, len(harness.tools)))})


def withdraw_tool(harness: Harness, draw: Draw) -> Harness:
    """Takes away one tool that no text mentions; at least one tool that looks something up remains."""
    mentions = " ".join(edits.texts(harness))
    bound = [tool for tool in harness.tools if tool.name in harness.bindings]
    candidates = [t for t in bound if harness.bindings[t.name].capability in WITHDRAWABLE]
    loose = [tool.name for tool in candidates if tool.name not in mentions]
    if len(candidates) < 2 or not loose:
        return harness
    return edits.withdraw_tool(harness, draw.rng.choice(loose))


def decoys(harness: Harness) -> int:
    """Decoy tools and decoy skills of a harness."""
    tools = sum(binding.capability == Capability.DECOY for binding in harness.bindings.values())
    return tools + sum(skill.kind == "reply" and not skill.handles for skill in harness.skills)


def sentence(draw: Draw, phrase: str) -> str:
    """A noun phrase as a description: a lead or none before it, the item put in, a full stop after it."""
    lead = draw.rng.choice(draw.banks.leads.of(draw.split))
    phrase = phrase.replace("{item}", draw.rng.choice(draw.banks.items.of(draw.split)))
    text = f"{lead} {phrase}." if lead else f"{phrase}."
    return text[0].upper() + text[1:]


def _plausible(harness: Harness, tool: Tool, draw: Draw) -> list[tuple[str, ...]]:
    binding = harness.bindings.get(tool.name)
    wordings = draw.banks.capabilities.get(binding.capability) if binding else None
    return [] if wordings is None else [wordings.names, draw.banks.verbs]


def _decoy_tool(decoy: DecoyTool, draw: Draw, taken: set[str]) -> Tool:
    name = draw.name([[word] for word in decoy.words], taken)
    properties: dict[str, dict[str, str]] = {}
    for word, kind in decoy.arguments.items():
        properties[draw.argument([word], {clean_name(other) for other in properties})] = {"type": kind}
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(name=name, description=sentence(draw, decoy.says), parameters=parameters)
