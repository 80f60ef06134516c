"""A BFCL case as a harness, under its own surface or a held-out one, and from a call back to what it means.

The perturbed surface changes names of functions and parameters, the wording of descriptions, the order of both and,
in half of the variants, what stands beside them (decoys). What is right does not change, and nothing that a name said
is lost: words of a name that its description lacks are put in front of the description. Values (enumerations,
defaults), nested keys and the question stay: the exact match is to measure robustness, not paraphrase.

Names and decoys come from the held-out halves of the augmentation's vocabulary and banks, through its own operators.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.avatar.agent.parser import ParsedCall
from components.avatar.harness.augment import augment
from components.avatar.harness.names import name_words
from components.avatar.harness.schema import Binding, Capability, Harness, Limits, PromptBlock, Tool
from components.avatar.harness.words import word_bank
from components.evaluation.bfcl.checker import Verdict
from components.evaluation.bfcl.data import Case

OPERATORS = ("rename_tools", "rename_arguments", "reorder_tools")
DECOYS = "add_decoy_tools"
DECOY_SHARE = 0.5  # of the variants, as in T2

PROMPT = (
    PromptBlock(id="identity", kind="identity", text="You are an assistant with tools."),
    PromptBlock(
        id="rules",
        kind="rules",
        items=(
            "If a tool fits the request, call it with the values of the request.",
            "If no tool fits, say so and call none.",
        ),
    ),
)
LIMITS = Limits(reply_words=30, tool_calls=2, turns=1)

TYPES = {"dict": "object", "float": "number", "tuple": "array"}  # BFCL's -> JSON schema's; `any` has no type
KEPT = ("description", "enum", "default", "format", "minItems", "maxItems", "maximum")

# First words of descriptions and others that say the same, in the same form.
VERBS = {
    "calculate": ("compute", "work out"),
    "compute": ("calculate", "work out"),
    "retrieve": ("bring up", "obtain"),
    "fetch": ("bring up", "obtain"),
    "get": ("obtain", "bring up"),
    "find": ("locate", "seek out"),
    "locate": ("find", "seek out"),
    "convert": ("transform",),
    "generate": ("produce",),
    "create": ("make", "produce"),
    "predict": ("forecast",),
    "estimate": ("approximate", "gauge"),
    "determine": ("establish", "work out"),
    "analyze": ("examine",),
    "check": ("verify",),
    "calculates": ("computes", "works out"),
    "retrieves": ("brings up", "obtains"),
    "fetches": ("brings up", "obtains"),
    "returns": ("gives back", "yields"),
    "converts": ("transforms",),
    "finds": ("locates", "seeks out"),
    "provides": ("supplies",),
}
FRAMES = ("Purpose: {text}", "In short: {text}", "What it is for: {text}", "Use: {text}")
ARGUMENT_FRAMES = ("Meaning: {text}", "Holds: {text}", "Stands for: {text}")

# Words that do not say what a tool is for.
PLAIN_WORDS = frozenset(
    "a an the to of in on by for and or from with at is are its this that which what who few out "
    "fetch fetches get gets find finds tell tells read retrieve calculate compute search function".split()
)


@dataclass(frozen=True)
class Surface:
    """`tools`: name in the prompt -> BFCL's name. A tool's binding maps its arguments in the prompt to BFCL's."""

    harness: Harness
    tools: dict[str, str]

    def meaning(self, call: ParsedCall) -> tuple[str, dict[str, Any]] | Verdict:
        """Function and arguments under BFCL's names. A name that is not in the prompt is a failure, even if it is
        BFCL's own: the model did not read it here."""
        if self.harness.tool(call.name) is None:
            return Verdict.ABSENT_TOOL
        if call.name not in self.tools:  # a decoy
            return Verdict.WRONG_TOOL
        names = self.harness.bindings[call.name].arguments
        if any(name not in names for name in call.arguments):
            return Verdict.ABSENT_ARGUMENT
        return self.tools[call.name], {names[name]: value for name, value in call.arguments.items()}


def clean_surface(case: Case) -> Surface:
    """The case's functions as they come, in JSON schema's types."""
    tools = tuple(_tool(function) for function in case.functions)
    bindings = {
        tool.name: Binding(capability=Capability.RECORDED, arguments={name: name for name in tool.argument_names()})
        for tool in tools
    }
    harness = Harness(
        merchant="bfcl",
        prompt=PROMPT,
        limits=LIMITS,
        tools=tools,
        bindings=bindings,
        skills=(),
        hooks=(),
    )
    return Surface(harness, {tool.name: tool.name for tool in tools})


def perturbed_surface(case: Case, variant: int, seed: int) -> Surface:
    """Held-out surface number `variant`: the same for every model, another one for every case, variant and seed."""
    rng = random.Random(f"bfcl:{seed}:{case.id}:{variant}")
    clean = clean_surface(case).harness
    tools = tuple(_reworded(tool, rng) for tool in clean.tools)
    operators = (*OPERATORS, DECOYS) if rng.random() < DECOY_SHARE else OPERATORS
    spoken = _words(case.question).union(*(_tool_words(tool) for tool in clean.tools))
    changed = augment(
        clean.model_copy(update={"tools": tools}),
        rng,
        bank=word_bank("heldout"),
        strength=1.0,
        operators=operators,
        exclude=frozenset(spoken),  # a word of the question as the name of another thing would mislead
    )
    harness = _without_tempting_decoys(changed.harness, spoken)
    own = {new: old for old, new in changed.renamed.items() if clean.tool(old) is not None}
    return Surface(harness, {tool.name: own[tool.name] for tool in harness.tools if tool.name in own})


def _tool(function: dict[str, Any]) -> Tool:
    return Tool(
        name=function["name"], description=function["description"], parameters=json_schema(function["parameters"])
    )


def json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """BFCL's schema as JSON schema: other names of types; keys that only BFCL knows are left out."""
    plain: dict[str, Any] = {}
    if schema.get("type") not in (None, "any"):
        plain["type"] = TYPES.get(schema["type"], schema["type"])
    plain |= {key: schema[key] for key in KEPT if key in schema}
    if "items" in schema:
        plain["items"] = json_schema(schema["items"])
    if "properties" in schema:
        plain["properties"] = {name: json_schema(inner) for name, inner in schema["properties"].items()}
        plain["required"] = list(schema.get("required", ()))
    return plain


def _reworded(tool: Tool, rng: random.Random) -> Tool:
    """`tool` with other descriptions and another order of parameters; names as they are."""
    properties = [
        (name, schema | {"description": _reword(name_words(name), schema.get("description", ""), ARGUMENT_FRAMES, rng)})
        for name, schema in tool.parameters["properties"].items()
    ]
    parameters = tool.parameters | {"properties": dict(rng.sample(properties, len(properties)))}
    words = [word for word in name_words(tool.name) if word not in PLAIN_WORDS]
    description = _reword(words, tool.description, FRAMES, rng)
    return tool.model_copy(update={"description": description, "parameters": parameters})


def _reword(words: Sequence[str], description: str, frames: Sequence[str], rng: random.Random) -> str:
    """`words`: those of the name, to be said by the description from now on."""
    known = _words(description)
    unsaid = [word for word in words if _stem(word) not in known]
    first, _, rest = description.partition(" ")
    if first.lower() in VERBS:
        verb = rng.choice(VERBS[first.lower()])
        description = f"{verb[0].upper()}{verb[1:]} {rest}"
    if unsaid:
        description = f"{' '.join(unsaid)}: {description}"
    return rng.choice(frames).replace("{text}", description)


def _without_tempting_decoys(harness: Harness, spoken: set[str]) -> Harness:
    """Drops decoys that share a word with the case: a dice tool is no decoy where dice are to be rolled."""
    kept = {
        tool.name
        for tool in harness.tools
        if harness.bindings[tool.name].capability != Capability.DECOY or not _tool_words(tool) & spoken - PLAIN_WORDS
    }
    return harness.keeping(tools=kept)


def _tool_words(tool: Tool) -> set[str]:
    texts = [tool.name, tool.description]
    for name, schema in tool.parameters["properties"].items():
        texts += [name, schema.get("description", "")]
    return set().union(*map(_words, texts))


def _words(text: str) -> set[str]:
    """The lower-case words of three letters and more in a text or a name, with and without a plural's s."""
    found = {word for part in re.findall(r"\w+", text) for word in name_words(part) if len(word) > 2}
    return found | {_stem(word) for word in found}


def _stem(word: str) -> str:
    return word.removesuffix("s") if len(word) > 3 else word
