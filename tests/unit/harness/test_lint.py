"""Every rule of the linter has a failing sample and its exact message; a sound harness has no finding."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from components.avatar.harness import lint as lint_module
from components.avatar.harness.__main__ import main
from components.avatar.harness.files import load_harness
from components.avatar.harness.lint import lint
from components.avatar.harness.schema import (
    Binding,
    Capability,
    Family,
    Harness,
    Hook,
    HookCheck,
    HookPoint,
    Limits,
    PromptBlock,
    Skill,
    Tool,
)

ROOT = Path(__file__).parents[3]
LUMI = ROOT / "infra/harnesses/lumi-beauty"
Edit = Callable[[Harness], Harness]


def test_a_sound_harness_has_no_findings(harness: Harness) -> None:
    assert lint(harness) == []
    assert lint(load_harness(LUMI)) == []


def with_tool(**update: object) -> Edit:
    """The first tool changed; its binding follows a new name."""

    def edit(harness: Harness) -> Harness:
        old = harness.tools[0]
        tool = old.model_copy(update=update)
        bindings = {tool.name if name == old.name else name: b for name, b in harness.bindings.items()}
        return harness.model_copy(update={"tools": (tool, *harness.tools[1:]), "bindings": bindings})

    return edit


def with_parameters(name: str, schema: dict, required: tuple[str, ...] = ()) -> Edit:
    """The first tool with one parameter more."""
    properties = {"link": {"type": "integer"}, name: schema}
    return with_tool(parameters={"type": "object", "properties": properties, "required": ["link", *required]})


def with_binding(tool: str = "price_check", **update: object) -> Edit:
    def edit(harness: Harness) -> Harness:
        binding = harness.bindings[tool].model_copy(update=update)
        return harness.model_copy(update={"bindings": harness.bindings | {tool: binding}})

    return edit


def with_hook(number: int, **update: object) -> Edit:
    def edit(harness: Harness) -> Harness:
        hooks = list(harness.hooks)
        hooks[number] = hooks[number].model_copy(update=update)
        return harness.model_copy(update={"hooks": tuple(hooks)})

    return edit


def with_skill(number: int, **update: object) -> Edit:
    def edit(harness: Harness) -> Harness:
        skills = list(harness.skills)
        skills[number] = skills[number].model_copy(update=update)
        return harness.model_copy(update={"skills": tuple(skills)})

    return edit


def with_rule(rule: str) -> Edit:
    def edit(harness: Harness) -> Harness:
        block = harness.prompt[2]
        return harness.model_copy(
            update={"prompt": (*harness.prompt[:2], block.model_copy(update={"items": (*block.items, rule)}))}
        )

    return edit


def with_prompt(*blocks: PromptBlock) -> Edit:
    return lambda harness: harness.model_copy(update={"prompt": (*blocks, *harness.prompt[2:])})


def with_listed_skills(*names: str) -> Edit:
    def edit(harness: Harness) -> Harness:
        schema = {"type": "object", "properties": {"name": {"enum": list(names)}}, "required": ["name"]}
        tools = [t.model_copy(update={"parameters": schema}) if t.name == "load_skill" else t for t in harness.tools]
        return harness.model_copy(update={"tools": tuple(tools)})

    return edit


def and_tool(name: str, capability: Capability, description: str = "More.", **arguments: str) -> Edit:
    """One tool more, bound with the given parameter -> canonical argument."""

    def edit(harness: Harness) -> Harness:
        schema = {"type": "object", "properties": {key: {} for key in arguments}, "required": list(arguments)}
        tool = Tool(name=name, description=description, parameters=schema)
        binding = Binding(capability=capability, arguments=arguments)
        return harness.model_copy(
            update={"tools": (*harness.tools, tool), "bindings": harness.bindings | {name: binding}}
        )

    return edit


def and_hook(**arguments: str) -> Edit:
    hook = Hook(id="end", point=HookPoint.BEFORE_REPLY, check=HookCheck.REPLY_FORMAT, message="x", arguments=arguments)
    return lambda harness: harness.model_copy(update={"hooks": (*harness.hooks, hook)})


def and_skill(name: str, *handles: Family) -> Edit:
    skill = Skill(name=name, description=f"About {name}.", body="Be brief.", handles=handles)
    return lambda harness: with_listed_skills("deals", "facts", "talk", "upsell", name)(
        harness.model_copy(update={"skills": (*harness.skills, skill)})
    )


def without_binding(harness: Harness) -> Harness:
    return harness.model_copy(update={"bindings": {k: v for k, v in harness.bindings.items() if k != "now"}})


def dangling(harness: Harness) -> Harness:
    return harness.model_copy(update={"bindings": harness.bindings | {"gone": harness.bindings["now"]}})


def without_reply_skills(harness: Harness) -> Harness:
    return with_listed_skills("upsell")(harness.model_copy(update={"skills": harness.skills[3:]}))


def with_few_calls(harness: Harness) -> Harness:
    return harness.model_copy(update={"limits": Limits(reply_words=30, tool_calls=2, turns=6)})


def without_tools(harness: Harness) -> Harness:
    return harness.model_copy(update={"tools": (), "bindings": {}})


CASES: list[tuple[Edit, str]] = [
    (
        with_tool(name="stockcount"),
        "error [name-collision] tools.json: name: found ['stockcount', 'stockCount'] all become 'stockcount'"
        "; allowed: names that differ when cleaned",
    ),
    (
        with_tool(name="x" * 65),
        "error [long-name] tools.json: name: found 65 characters in 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'..."
        "; allowed: at most 64",
    ),
    (
        with_tool(name="preis prüfen"),
        "warning [odd-name] tools.json: name: found 'preis prüfen'"
        "; allowed: letters, digits, _ - . (servers replace other signs)",
    ),
    (with_tool(name=""), "error [empty-name] tools.json: name: found ''; allowed: a name"),
    (
        with_tool(name="deals"),
        "warning [name-collision] skills/deals/SKILL.md: name: found 'deals' is also a tool"
        "; allowed: a name of its own",
    ),
    (
        with_tool(description=" "),
        "error [empty-description] tools.json: price_check.description: found nothing; allowed: what the tool does",
    ),
    (
        with_tool(description="Link shown now."),
        "warning [same-description] tools.json: now.description: found the description of price_check"
        "; allowed: a description of its own",
    ),
    (
        with_tool(parameters={"type": "object", "properties": {"link": {"type": "string"}}}),
        "warning [argument-type] tools.json: price_check.parameters.link: found type 'string'; allowed: 'integer'",
    ),
    (
        with_tool(parameters={"type": "object", "properties": {}}),
        "error [unknown-argument] harness.yaml: bindings.price_check.arguments.link: found no such parameter"
        "; allowed: one of []",
    ),
    (
        with_parameters("x", {}, required=("x",)),
        "error [argument-unbound] harness.yaml: bindings.price_check.arguments.x: found nothing"
        "; allowed: one of ['link_id']",
    ),
    (
        with_parameters("shade", {"type": "string"}),
        "warning [argument-unbound] harness.yaml: bindings.price_check.arguments.shade: found nothing"
        "; allowed: a meaning, or no such parameter",
    ),
    (
        with_parameters("Link", {"type": "string"}),
        "error [name-collision] tools.json: price_check.parameters: found ['link', 'Link'] all become 'link'"
        "; allowed: names that differ when cleaned",
    ),
    (
        with_parameters("shade", {"anyOf": [{"$ref": "#/$defs/Shade"}]}),
        "warning [schema-reference] tools.json: price_check.parameters.shade"
        ": found {'$ref': '#/$defs/Shade'}, of which the prompt shows no more"
        "; allowed: the schema itself",
    ),
    (
        with_binding(arguments={}),
        "error [argument-missing] harness.yaml: bindings.price_check.arguments: found nothing"
        "; allowed: a parameter that means link_id",
    ),
    (
        with_binding(arguments={"link": "price"}),
        "error [unknown-meaning] harness.yaml: bindings.price_check.arguments.link: found 'price'"
        "; allowed: one of ['link_id']",
    ),
    (
        with_binding("delivery", arguments={"city": "city", "link": "city"}),
        "error [argument-bound-twice] harness.yaml: bindings.delivery.arguments: found two parameters mean city"
        "; allowed: one",
    ),
    (
        with_binding(capability=Capability.COMPARE_LOOKUP),
        "error [argument-missing] harness.yaml: bindings.price_check.arguments: found nothing"
        "; allowed: a parameter that means link_ids",
    ),
    (
        with_binding("club_points", arguments={"gone": "member"}),
        "error [unknown-argument] harness.yaml: bindings.club_points.arguments.gone: found no such parameter"
        "; allowed: one of ['member']",
    ),
    (
        with_binding("club_points", arguments={}),
        "warning [argument-unbound] harness.yaml: bindings.club_points.arguments.member: found nothing"
        "; allowed: its name in the fixtures",
    ),
    (
        and_tool("../points", Capability.RECORDED),
        "error [fixture-name] harness.yaml: bindings.../points: found '../points'"
        "; allowed: a name that a file can have",
    ),
    (
        without_binding,
        "error [unbound-tool] harness.yaml: bindings.now: found nothing"
        "; allowed: a capability: price_lookup, stock_lookup, coupon_lookup, variant_lookup, "
        "shipping_lookup, attribute_lookup, compare_lookup, return_policy_lookup, flash_sale_lookup, "
        "order_status_lookup, on_air_lookup, product_search, load_skill, recorded, decoy",
    ),
    (
        dangling,
        "error [dangling-binding] harness.yaml: bindings.gone: found no such tool"
        "; allowed: one of ['club_points', 'coupon.find', 'delivery', 'load_skill', 'now', 'price_check', "
        "'stockCount']",
    ),
    (
        without_tools,
        "error [no-load-skill] harness.yaml: bindings: found no tool is bound to load_skill"
        "; allowed: one: else no skill can be loaded",
    ),
    (
        and_tool("order_state", Capability.ORDER_STATUS_LOOKUP, number="order_id"),
        "warning [tool-never-needed] harness.yaml: bindings.order_state"
        ": found order_status_lookup, which no question of a handled family needs"
        "; allowed: a reply skill that handles order_status, or no such tool",
    ),
    (
        and_tool("price_again", Capability.PRICE_LOOKUP, link="link_id"),
        "warning [tool-never-needed] harness.yaml: bindings.price_again"
        ": found price_lookup, which price_check is bound to already"
        "; allowed: one tool a capability: the first is called",
    ),
    (
        with_skill(0, description=""),
        "error [empty-description] skills/deals/SKILL.md: description: found nothing"
        "; allowed: when the skill is to be loaded",
    ),
    (
        with_skill(0, body=""),
        "warning [empty-body] skills/deals/SKILL.md: body: found nothing; allowed: what to do once the skill is loaded",
    ),
    (
        with_skill(0, handles=()),
        "warning [idle-skill] skills/deals/SKILL.md: handles: found no family"
        "; allowed: at least one family: else loading it is never right",
    ),
    (
        with_skill(0, handles=(Family.PRICE,)),
        "warning [family-handled-twice] skills/facts/SKILL.md: handles: found price, as does deals"
        "; allowed: each family in one reply skill",
    ),
    (
        with_skill(2, name="Facts"),
        "error [name-collision] skills: name: found ['facts', 'Facts'] all become 'facts'"
        "; allowed: names that differ when cleaned",
    ),
    (
        with_skill(2, name="talk to me"),
        "warning [odd-name] skills: name: found 'talk to me'"
        "; allowed: letters, digits, _ - . (servers replace other signs)",
    ),
    (
        with_skill(0, body="Call `coupon_finder`."),
        "error [dead-reference] skills/deals/SKILL.md: body: found `coupon_finder`; allowed: a tool, skill or argument",
    ),
    (
        with_skill(0, body="Call coupon_finder."),
        "warning [dead-reference] skills/deals/SKILL.md: body: found coupon_finder; allowed: a tool, skill or argument",
    ),
    (
        with_skill(0, body="Run `make coupons`."),
        "warning [dead-reference] skills/deals/SKILL.md: body: found `make coupons`"
        "; allowed: a tool, skill or argument",
    ),
    (
        with_skill(0, body="See [the rules](references/rules.md)."),
        "warning [dead-reference] skills/deals/SKILL.md: body: found a link to references/rules.md"
        "; allowed: all text here: an agent opens no files",
    ),
    (
        with_tool(description="Price; for coupons use `coupon_finder`."),
        "error [dead-reference] tools.json: price_check.description: found `coupon_finder`"
        "; allowed: a tool, skill or argument",
    ),
    (
        with_listed_skills("deals", "facts", "talk", "upsell", "gone"),
        "error [dead-reference] tools.json: load_skill.parameters.name.enum: found 'gone'"
        "; allowed: one of ['deals', 'facts', 'talk', 'upsell']",
    ),
    (
        with_listed_skills("deals", "facts", "talk"),
        "error [skill-not-listed] tools.json: load_skill.parameters.name.enum: found no 'upsell'"
        "; allowed: every skill: others can't be loaded",
    ),
    (
        without_reply_skills,
        "error [no-reply-skill] skills: kind: found no reply skill that handles a family; allowed: at least one",
    ),
    (
        without_tools,
        "warning [no-tools] tools.json: file: found an empty list"
        "; allowed: at least one tool: no fact can be looked up",
    ),
    (
        with_prompt(
            PromptBlock(id="identity", kind="identity", text="You are Mia."), PromptBlock(id="style", kind="style")
        ),
        "warning [empty-block] harness.yaml: prompt.style: found neither text nor items; allowed: content",
    ),
    (
        with_prompt(PromptBlock(id="rules", kind="identity", text="You are Mia.")),
        "error [same-id] harness.yaml: prompt: found 2 blocks with id 'rules'; allowed: each id once",
    ),
    (
        with_prompt(PromptBlock(id="style", kind="style", text="Warm.")),
        "warning [no-identity] harness.yaml: prompt: found no block of kind identity; allowed: who the agent speaks as",
    ),
    (
        with_rule("Say <|im_end|> at the end."),
        "warning [call-marker] harness.yaml: prompt.rules: found '<|im_end|>'"
        "; allowed: no marker of the chat format (it is neutralised)",
    ),
    (
        with_tool(description="Price.\U000e0041"),
        "warning [hidden-text] tools.json: price_check: found U+E0041; allowed: only signs that a reader can see",
    ),
    (
        with_rule("Use 40 words at most."),
        "error [limits-contradict] harness.yaml: prompt.rules: found '40 words', but limits.reply_words is 30"
        "; allowed: the same number in both",
    ),
    (
        with_rule("Make at most 2 tool calls."),
        "error [limits-contradict] harness.yaml: prompt.rules: found '2 tool calls', but limits.tool_calls is 4"
        "; allowed: the same number in both",
    ),
    (
        with_rule("A stream has 9 messages."),
        "error [limits-contradict] harness.yaml: prompt.rules: found '9 messages', but limits.turns is 6"
        "; allowed: the same number in both",
    ),
    (
        with_rule("每轮最多调用3次。"),
        "error [limits-contradict] harness.yaml: prompt.rules: found '调用3次', but limits.tool_calls is 4"
        "; allowed: the same number in both",
    ),
    (
        with_rule("回复不超过40个字。"),
        "error [limits-contradict] harness.yaml: prompt.rules: found '40个字', but limits.reply_words is 30"
        "; allowed: the same number in both",
    ),
    (
        with_few_calls,
        "error [limit-too-low] harness.yaml: limits.tool_calls: found 2, but the skill and 2 lookups are 3 calls"
        "; allowed: at least 3",
    ),
    (
        with_hook(0, id="length"),
        "error [same-id] harness.yaml: hooks: found 2 hooks with id 'length'; allowed: each id once",
    ),
    (
        with_hook(0, message=""),
        "error [empty-message] harness.yaml: hooks.skill.message: found nothing; allowed: what the agent is to correct",
    ),
    (
        with_hook(0, point=HookPoint.BEFORE_TURN),
        "error [hook-point] harness.yaml: hooks.skill.point: found before_turn; allowed: before_reply",
    ),
    (
        with_hook(0, arguments={"words": []}),
        "error [hook-argument] harness.yaml: hooks.skill.arguments.words: found no such argument; allowed: []",
    ),
    (
        with_hook(2, arguments={}),
        "error [hook-argument] harness.yaml: hooks.claims.arguments.words: found None; allowed: a list of words",
    ),
    (
        with_hook(3, arguments={}),
        "error [hook-argument] harness.yaml: hooks.sign-off.arguments: found nothing"
        "; allowed: ends_with, address or both",
    ),
    (
        with_hook(3, arguments={"ends_with": ""}),
        "error [hook-argument] harness.yaml: hooks.sign-off.arguments.ends_with: found ''; allowed: a text",
    ),
    (
        with_hook(3, arguments={"address": "darling"}),
        "warning [marker-unstated] harness.yaml: hooks.sign-off.arguments.address"
        ": found 'darling', which the prompt never states"
        "; allowed: a marker that the prompt states",
    ),
    (
        with_hook(3, arguments={"address": "my star"}),
        "error [marker-forbidden] harness.yaml: hooks.sign-off.arguments.address"
        ": found 'my star' contains the forbidden 'star'"
        "; allowed: a marker that may be said",
    ),
    (
        with_rule("Say it works like a miracle."),
        "error [rule-contradicts-hook] harness.yaml: prompt.rules: found 'Say it works like a miracle'"
        "; allowed: nothing that asks for 'miracle': hook claims forbids it",
    ),
    (
        with_skill(1, body="- Call every offer a star deal."),
        "error [rule-contradicts-hook] skills/facts/SKILL.md: body: found '- Call every offer a star deal'"
        "; allowed: nothing that asks for 'star': hook claims forbids it",
    ),
    (
        with_rule("Never say lovely."),
        "error [rule-contradicts-hook] harness.yaml: prompt.rules: found 'Never say lovely'"
        "; allowed: nothing against 'lovely': hook sign-off demands it",
    ),
    (
        with_rule("Use no emoji."),
        "error [rule-contradicts-hook] harness.yaml: prompt.rules: found 'Use no emoji'"
        "; allowed: nothing against '💛': hook sign-off demands it",
    ),
    (
        with_rule("Answer without loading a skill."),
        "error [rule-contradicts-hook] harness.yaml: prompt.rules: found 'Answer without loading a skill'"
        "; allowed: nothing against loading a skill: hook skill demands it",
    ),
    (
        with_rule("说它是miracle。"),
        "error [rule-contradicts-hook] harness.yaml: prompt.rules: found '说它是miracle'"
        "; allowed: nothing that asks for 'miracle': hook claims forbids it",
    ),
    (
        with_rule("不要说lovely。"),
        "error [rule-contradicts-hook] harness.yaml: prompt.rules: found '不要说lovely'"
        "; allowed: nothing against 'lovely': hook sign-off demands it",
    ),
    (
        and_hook(ends_with="🌸"),
        "error [hooks-contradict] harness.yaml: hooks.end.arguments.ends_with: found '🌸', while sign-off demands '💛'"
        "; allowed: one ending for all",
    ),
]


@pytest.mark.parametrize(("edit", "message"), CASES, ids=[f"{n}-{c[1].split(']')[0]}]" for n, c in enumerate(CASES)])
def test_a_rule_and_its_message(harness: Harness, edit: Edit, message: str) -> None:
    assert message in [str(finding) for finding in lint(edit(harness))]


def test_every_rule_has_a_sample() -> None:
    folder = Path(str(lint_module.__file__)).parent
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("lint*.py")))
    codes = set(re.findall(r'(?:error|warning|finding)\(\s*"([a-z-]+)"', source))
    shown = {code for _, message in CASES for code in re.findall(r"\[([a-z-]+)\]", message)[:1]}
    assert codes - shown == {"prompt-too-long"}  # it needs a count: the test below


def test_a_prompt_over_the_budget_is_reported_with_its_count(harness: Harness) -> None:
    message = "warning [prompt-too-long] harness.yaml: prompt: found 451 tokens; allowed: at most 450"
    assert [str(finding) for finding in lint(harness, 451)] == [message]
    assert lint(harness, 450) == []
    assert [finding.fault.allowed for finding in lint(harness, 60, budget=50)] == ["at most 50"]


@pytest.mark.parametrize(
    "edit",
    [
        with_rule("Never say miracle, star or sure."),
        with_rule("A viewer who asks about a miracle gets facts."),
        with_rule("Never forget to say lovely."),
        with_rule("Do not rush, and call the viewer lovely."),
        with_rule("Don't end a reply without 💛"),
        with_rule("回复不超过30个字。"),
        with_rule("Load a skill, not two."),
        with_skill(0, body="See [the shop](https://example.com/x) and [above](#top)."),
        with_parameters("shade", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        and_tool("member_card", Capability.RECORDED, member="member"),
        and_tool("gift_wrap", Capability.DECOY, ribbon="colour"),
    ],
)
def test_what_only_looks_like_a_fault_is_left_alone(harness: Harness, edit: Edit) -> None:
    assert {finding.code for finding in lint(edit(harness))} <= {"argument-unbound"}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["](", "9", "9 words ", "`a_", "never ", "never say ", "没", "a.b", "\u202e"])
def test_a_long_hostile_text_costs_no_more_than_its_length(harness: Harness, text: str) -> None:
    """No pattern backtracks over the whole text, no number is too long for an integer."""
    lint(with_skill(0, body=text * (60_000 // len(text)))(harness))


def test_errors_come_first(harness: Harness) -> None:
    findings = lint(with_skill(0, body="")(without_binding(harness)))
    assert [finding.severity for finding in findings] == ["error", "warning"]


def test_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(folder)]) == 0
    assert capsys.readouterr().out == "no findings\nprompt: budget 450 not checked (no --tokenizer)\n"
    assert main(["diff", str(folder), str(folder)]) == 0
    assert "no changes" in capsys.readouterr().out
    assert main(["show", str(folder)]) == 0
    assert "coupon.find(link) -> coupon_lookup" in capsys.readouterr().out
    assert main(["render", str(folder)]) == 0
    assert '- Coupons and final price. -> "deals"' in capsys.readouterr().out
    tools = json.loads((folder / "tools.json").read_text())
    tools[0]["function"]["name"] = "unbound"
    (folder / "tools.json").write_text(json.dumps(tools))
    assert main(["lint", str(folder)]) == 1
    assert "unbound-tool" in capsys.readouterr().out
    (folder / "tools.json").unlink()
    assert main(["lint", str(folder)]) == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["lint", str(LUMI), "--tokenizer", str(folder)]) == 2
    assert "--tokenizer: found no tokenizer.json" in capsys.readouterr().err


def test_the_budget_is_checked_with_a_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes as tokens: the count is that of the text as the template renders it."""
    byte_tokenizer(tmp_path)
    assert main(["lint", str(LUMI), "--tokenizer", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    count = int(re.findall(r"prompt: (\d+) tokens, budget 450", out)[0])
    assert f"warning [prompt-too-long] harness.yaml: prompt: found {count} tokens; allowed: at most 450" in out
    harness = load_harness(LUMI)
    shown = sum(len(tool.name) + len(tool.description) for tool in harness.tools)
    assert count > shown + sum(len(text) for block in harness.prompt for text in (block.text, *block.items))


def byte_tokenizer(folder: Path) -> None:
    """A ChatML tokenizer with one token a byte, saved to `folder`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {sign: index for index, sign in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>")
    fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    fast.save_pretrained(folder)
