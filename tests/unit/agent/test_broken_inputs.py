"""The kinds of input that broke other agents, judged behind the parser: by session, chat, loop, lint, claims.

The numbers are those of test_parser.py's table; what a call means is the session's to say, not the parser's.
"""

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.parser import ParsedCall, call_text, parse
from components.avatar.agent.types import Generation
from components.avatar.harness.lint import lint
from components.avatar.harness.schema import Binding, Capability, Family, HookCheck, Tool
from components.avatar.simulator.claims import extract
from components.avatar.simulator.merchant import load_merchant
from components.avatar.simulator.scenario import Question, Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.surface import coerce
from components.avatar.simulator.types import StopReason
from tests.unit.agent.conftest import ROOT
from tests.unit.simulator.shop import make_harness

NESTED = {
    "type": "object",
    "properties": {
        "order": {
            "type": "object",
            "properties": {"gift": {"type": "object", "properties": {"wrap": {"enum": ["red", "gold"]}}}},
        },
        "lines": {"type": "array", "items": {"type": "object", "properties": {"size": {"enum": ["S", "M"]}}}},
    },
}
PARCEL = Tool(name="wrap_parcel", description="Wraps.", parameters=NESTED)


@pytest.fixture(scope="module")
def merchant():
    return load_merchant(ROOT / "infra" / "harnesses" / "lumi-beauty")


@pytest.fixture(scope="module")
def shop():
    """Every tool, no hook that corrects arguments: each problem is said as the tool's result."""
    harness = make_harness(merchant="lumi-beauty")
    hooks = tuple(hook for hook in harness.hooks if hook.check != HookCheck.TOOL_ARGUMENTS)
    bindings = harness.bindings | {PARCEL.name: Binding(capability=Capability.DECOY)}
    return make_harness(merchant="lumi-beauty", hooks=hooks, tools=(*harness.tools, PARCEL), bindings=bindings)


def session_of(harness, merchant):
    question = Question(id="q", text="how much is link 3", family=Family.PRICE, link_id=3)
    scenario = Scenario(id="s", seed=1, merchant="lumi-beauty", questions=(question,), on_air=3)
    session = Session(harness, merchant.catalogue, scenario)
    session.begin()
    return session


CALLS = [
    ("1 no parameters", "on_screen", '"{}\\"\\""', {"link_id": 3}),
    ("2 the empty string", "on_screen", '""', {"link_id": 3}),
    ("6 an array arrives as a string", "versus", '{"links": "[3, 4]"}', {"items": list}),
    ("8 integers of a list as strings", "versus", '{"links": ["3", 4]}', {"items": list}),
    ("5 a list in a list", "versus", '{"links": [[3, 4]]}', "invalid_argument: link_ids must be integers"),
    ("5 objects in a list", "versus", '{"links": [{"id": 3}]}', "invalid_argument: link_ids must be integers"),
    ("6 a string that is no array", "versus", '{"links": "3 and 4"}', "invalid_argument: links must be array"),
    ("6 a string of a number", "versus", '{"links": "3"}', "invalid_argument: links must be array"),
    ("6 a lone surrogate in it", "versus", r'{"links": "[\"\\ud83d\"]"}', "invalid_argument: links must be array"),
    ("6 a string of NaN", "versus", '{"links": "[NaN]"}', "invalid_argument: links must be array"),
    ("6 a string of an overflow", "versus", '{"links": "[1e999]"}', "invalid_argument: links must be array"),
    ("6 a string nested too deep", "versus", f'{{"links": "{"[" * 9_000}"}}', "invalid_argument: links must be array"),
    ("7 a nested enum", "wrap_parcel", '{"order": {"gift": {"wrap": "red"}}}', {"result": None}),
    (
        "7 an illegal value in a nested enum",
        "wrap_parcel",
        '{"order": {"gift": {"wrap": "blue"}}}',
        "invalid_argument: order.gift.wrap must be one of ['red', 'gold']",
    ),
    (
        "7 an illegal value in a list's enum",
        "wrap_parcel",
        '{"lines": [{"size": "S"}, {"size": "XL"}]}',
        "invalid_argument: lines[1].size must be one of ['S', 'M']",
    ),
    ("8 an integer as a string", "check_price", '{"link": "3"}', {"link_id": 3}),
    ("8 an integer as a whole float", "check_price", '{"link": 3.0}', {"link_id": 3}),
    ("8 a fraction is no integer", "check_price", '{"link": 3.5}', "invalid_argument: link must be integer"),
    ("8 a string with two signs", "check_price", '{"link": "--3"}', "invalid_argument: link must be integer"),
    ("8 a superscript", "check_price", '{"link": "³"}', "invalid_argument: link must be integer"),
    ("8 true is no integer", "check_price", '{"link": true}', "invalid_argument: link must be integer"),
    ("8 a code stays a string", "order_state", '{"order": "1.000001"}', {"order_id": "1.000001"}),
    ("8 a code as a number is the number's text", "order_state", '{"order": 1.5}', {"order_id": "1.5"}),
    ("9 an argument of another spelling", "check_price", '{"链接": 3}', "unknown_argument: 链接"),
    ("10 a dotted name that no tool has", "shop.check_price", '{"link": 3}', "unknown_tool"),
    ("10 a long name is not cut to one that exists", "check_price" + "_" * 64, '{"link": 3}', "unknown_tool"),
    ("15 an emoji in an argument", "look_for", r'{"words": "\ud83d\ude00"}', {"results": list}),
    ("16 a price as the link", "check_price", '{"link": "¥1,299"}', "invalid_argument: link must be integer"),
    ("16 full-width digits", "check_price", '{"link": "３"}', {"link_id": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "expected"), [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
def test_a_call_has_its_result_or_its_fault(shop, merchant, name, arguments, expected):
    parsed = parse(f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>')
    assert isinstance(parsed, ParsedCall)
    observation = session_of(shop, merchant).call(parsed.name, parsed.arguments)
    assert observation.role == "tool"
    result = json.loads(observation.content)
    if isinstance(expected, str):
        assert result == {"error": expected}
    else:
        for key, value in expected.items():
            assert isinstance(result[key], value) if isinstance(value, type) else result[key] == value


odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
    | st.sampled_from(["--3", "-", "３", "²", "1e5", "[[", "[" * 3_000, "[NaN]", "1" * 30, "[1e999]", '["\\ud83d"]'])
    | st.sampled_from(["[[1]]", '[{"link": 1}]', "[null]", "{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_argument_breaks_the_session(shop, merchant, data):
    session = session_of(shop, merchant)
    for _ in range(data.draw(st.integers(1, 3))):
        tool = data.draw(st.sampled_from(shop.tools))
        arguments = {name: data.draw(odd_values) for name in tool.argument_names()}
        json.dumps(session.call(tool.name, arguments).content, ensure_ascii=False).encode()


@given(value=odd_values, kind=st.sampled_from(["integer", "number", "boolean", "string", "array", "object"]))
def test_a_coerced_value_has_the_type(value, kind):
    types = {"integer": int, "number": (int, float), "boolean": bool, "string": str, "array": list, "object": dict}
    failed, coerced = coerce(value, kind)
    assert failed or isinstance(coerced, types[kind])


class Says:
    """Writes the same text every turn."""

    max_new_tokens = 64

    def __init__(self, chat, text):
        self.chat, self.text = chat, text

    def act(self, states):
        return [Generation(tuple(self.chat.agent_ids(self.text)), self.text, "stop") for _ in states]


def play(chat, merchant, harness, text, **options):
    question = Question(id="q", text="open it", family=Family.CHIT_CHAT)
    scenario = Scenario(id="s", seed=1, merchant="lumi-beauty", questions=(question,))
    return run_episodes([Start(harness, scenario)], Says(chat, text), chat, merchant.catalogue, **options)[0]


@pytest.mark.parametrize(
    ("text", "calls", "stop", "parse"),
    [
        ("4 " + call_text("on_screen", {}) * 3, 5, StopReason.CALL_LIMIT, {"strict": 0, "repaired": 6, "failed": 0}),
        ("14 It is <tool_call>", 0, StopReason.RETRIES_SPENT, {"strict": 0, "repaired": 0, "failed": 2}),
    ],
)
def test_4_14_a_turn_is_one_call_and_a_quoted_marker_is_a_slip(chat, merchant, shop, text, calls, stop, parse):
    result = play(chat, merchant, shop, text)
    assert (result.stop, result.parse) == (stop, parse)
    assert len(result.calls) == (6 if calls else 0) and {call.name for call in result.calls} <= {"on_screen"}


def test_11_without_tools_every_call_is_unknown_and_the_prompt_lists_none(chat, merchant):
    bare = make_harness(merchant="lumi-beauty", tools=(), bindings={}, skills=(), hooks=())
    assert "<tool_call>" not in chat.tokenizer.decode(chat.prompt_ids(bare, "hi"))
    result = play(chat, merchant, bare, call_text("on_screen", {}))
    assert {call.known for call in result.calls} == {False}
    assert next(segment.text for segment in result.segments if segment.kind == "tool") == '{"error":"unknown_tool"}'


def test_12_an_output_longer_than_the_context_ends_the_episode(chat, merchant, shop):
    long = shop.skills[0].model_copy(update={"body": "word " * 3_000})
    harness = make_harness(merchant="lumi-beauty", skills=(long, *shop.skills[1:]))
    result = play(chat, merchant, harness, call_text("open_skill", {"title": long.name}), max_context=2_048)
    assert result.stop is StopReason.CONTEXT_FULL and [segment.kind for segment in result.segments] == ["call", "tool"]


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["my-param", "my_param"], "name-collision"),
        (["链接", "城市"], "name-collision"),
        (["a" * 65, "b"], "long-name"),
        (["a" * 70 + "1", "a" * 70 + "2"], "name-collision"),
        (["shop.price", "shop_price"], "name-collision"),
        (["same", "same"], "name-collision"),
        ([], "no-tools"),
    ],
)  # fmt: skip
def test_9_10_11_names_that_servers_would_merge_are_found_before_serving(names, code):
    tools = tuple(Tool(name=name, description=f"d{i}", parameters={"type": "object"}) for i, name in enumerate(names))
    harness = make_harness(tools=tools, bindings={name: Binding(capability=Capability.DECOY) for name in names})
    assert code in {finding.code for finding in lint(harness)}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("It costs ¥1,299 now.", ["1299"]),
        ("It costs ¥１,２９９ now.", ["1299"]),
        ("2 pairs from $349", ["2", "349"]),
        ("It is 3.350.", ["3.350"]),
        ("It is 129.00\r\nnow", ["129.00"]),
    ],
)
def test_16_17_prices_in_every_writing(merchant, text, values):
    claims = extract(text, Family.PRICE, merchant.catalogue, frozenset())
    assert [number.value for number in claims.numbers] == [Decimal(value) for value in values]
