"""Each fault of meaning has its code; a sound harness has none."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from components.avatar.harness.__main__ import main
from components.avatar.harness.files import load_harness
from components.avatar.harness.lint import lint
from components.avatar.harness.schema import Capability, Harness, HookPoint, Limits

LUMI = Path(__file__).parents[3] / "infra/harnesses/lumi-beauty"


def codes(harness: Harness) -> set[tuple[str, str]]:
    return {(finding.severity, finding.code) for finding in lint(harness)}


def test_a_sound_harness_has_no_findings(harness: Harness) -> None:
    assert lint(harness) == []
    assert lint(load_harness(LUMI)) == []


def with_tool(**update: object) -> Callable[[Harness], Harness]:
    """The first tool changed; its binding follows a new name."""

    def edit(harness: Harness) -> Harness:
        old = harness.tools[0]
        tool = old.model_copy(update=update)
        bindings = {tool.name if name == old.name else name: b for name, b in harness.bindings.items()}
        return harness.model_copy(update={"tools": (tool, *harness.tools[1:]), "bindings": bindings})

    return edit


def with_binding(**update: object) -> Callable[[Harness], Harness]:
    def edit(harness: Harness) -> Harness:
        binding = harness.bindings["price_check"].model_copy(update=update)
        return harness.model_copy(update={"bindings": harness.bindings | {"price_check": binding}})

    return edit


def with_hook(number: int, **update: object) -> Callable[[Harness], Harness]:
    def edit(harness: Harness) -> Harness:
        hooks = list(harness.hooks)
        hooks[number] = hooks[number].model_copy(update=update)
        return harness.model_copy(update={"hooks": tuple(hooks)})

    return edit


def with_skill(number: int, **update: object) -> Callable[[Harness], Harness]:
    def edit(harness: Harness) -> Harness:
        skills = list(harness.skills)
        skills[number] = skills[number].model_copy(update=update)
        return harness.model_copy(update={"skills": tuple(skills)})

    return edit


def with_rule(rule: str) -> Callable[[Harness], Harness]:
    def edit(harness: Harness) -> Harness:
        block = harness.prompt[2]
        return harness.model_copy(
            update={"prompt": (*harness.prompt[:2], block.model_copy(update={"items": (*block.items, rule)}))}
        )

    return edit


def without_binding(harness: Harness) -> Harness:
    return harness.model_copy(update={"bindings": {k: v for k, v in harness.bindings.items() if k != "now"}})


def dangling(harness: Harness) -> Harness:
    return harness.model_copy(update={"bindings": harness.bindings | {"gone": harness.bindings["now"]}})


def without_reply_skills(harness: Harness) -> Harness:
    return harness.model_copy(update={"skills": harness.skills[3:]})


CASES = [
    (with_tool(name="stockcount"), "error", "name-collision"),
    (with_tool(name="x" * 65), "error", "long-name"),
    (with_tool(name="preis prüfen"), "warning", "odd-name"),
    (with_tool(name="deals"), "warning", "name-collision"),
    (with_tool(description=" "), "error", "empty-description"),
    (with_tool(description="Link shown now."), "warning", "same-description"),
    (with_tool(parameters={"type": "object", "properties": {"link": {"type": "string"}}}), "warning", "argument-type"),
    (with_tool(parameters={"type": "object", "properties": {}}), "error", "unknown-argument"),
    (
        with_tool(
            parameters={"type": "object", "properties": {"link": {"type": "integer"}, "x": {}}, "required": ["x"]}
        ),
        "error",
        "argument-unbound",
    ),
    (with_binding(arguments={}), "error", "argument-missing"),
    (with_binding(arguments={"link": "price"}), "error", "unknown-meaning"),
    (without_binding, "error", "unbound-tool"),
    (dangling, "error", "dangling-binding"),
    (with_binding(capability=Capability.COMPARE_LOOKUP), "error", "argument-missing"),
    (with_skill(0, description=""), "error", "empty-description"),
    (with_skill(0, body="Call `coupon_finder`."), "error", "dead-reference"),
    (with_skill(0, body="Call coupon_finder."), "warning", "dead-reference"),
    (with_skill(0, body=""), "warning", "empty-body"),
    (with_skill(0, handles=()), "warning", "idle-skill"),
    (with_skill(2, name="Facts"), "error", "name-collision"),
    (without_reply_skills, "error", "no-reply-skill"),
    (with_rule("Use 40 words at most."), "error", "limits-contradict"),
    (with_rule("Make at most 2 tool calls."), "error", "limits-contradict"),
    (with_rule("Say <|im_end|> at the end."), "warning", "call-marker"),
    (with_hook(0, id="length"), "error", "same-id"),
    (with_hook(0, message=""), "error", "empty-message"),
    (with_hook(0, point=HookPoint.BEFORE_TURN), "error", "hook-point"),
    (with_hook(0, arguments={"words": []}), "error", "hook-argument"),
    (with_hook(2, arguments={}), "error", "hook-argument"),
    (with_hook(3, arguments={}), "error", "hook-argument"),
    (with_hook(3, arguments={"address": "darling"}), "warning", "marker-unstated"),
    (with_hook(3, arguments={"address": "my star"}), "error", "marker-forbidden"),
]


@pytest.mark.parametrize(("edit", "severity", "code"), CASES, ids=[f"{n}-{c[2]}" for n, c in enumerate(CASES)])
def test_finding(harness: Harness, edit: Callable[[Harness], Harness], severity: str, code: str) -> None:
    changed = edit(harness)
    assert (severity, code) in codes(changed)


def test_too_few_calls_for_two_lookups(harness: Harness) -> None:
    limits = Limits(reply_words=30, tool_calls=2, turns=6)
    assert ("error", "limit-too-low") in codes(harness.model_copy(update={"limits": limits}))


def test_skills_that_nothing_loads(harness: Harness) -> None:
    tools = tuple(tool for tool in harness.tools if tool.name != "load_skill")
    bindings = {name: binding for name, binding in harness.bindings.items() if name != "load_skill"}
    assert ("error", "no-load-skill") in codes(harness.model_copy(update={"tools": tools, "bindings": bindings}))


def test_budget_is_judged_only_with_a_counter(harness: Harness) -> None:
    assert [finding.code for finding in lint(harness, lambda _: 451)] == ["prompt-too-long"]
    assert lint(harness, lambda _: 450) == []


def test_errors_come_first(harness: Harness) -> None:
    findings = lint(with_skill(0, body="")(without_binding(harness)))
    assert [finding.severity for finding in findings] == ["error", "warning"]


def test_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", str(folder)]) == 0
    assert "no findings" in capsys.readouterr().out
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
