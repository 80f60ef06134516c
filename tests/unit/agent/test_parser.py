"""The table of inputs that broke other agents, and laws that every text obeys.

What the parser lets pass and the session, the chat or the lint judges stands in test_broken_inputs.py.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.avatar.agent.parser import ParsedCall, ParsedMalformed, ParsedReply, call_text, parse
from tests.unit.agent.parser_laws import GOOD, PIECES, check_laws


def call(body: str) -> str:
    return f"<tool_call>{body}</tool_call>"


PRICE = ParsedCall("price_check", {"link": 3})
REPAIRED = ParsedCall("price_check", {"link": 3}, repaired=True)

# The numbers are those of the list of inputs that broke other agents; what is not the parser's to judge passes.
CASES = [
    (
        '1 no parameters, arguments {}""',
        call('{"name": "now_showing", "arguments": "{}\\"\\""}'),
        ParsedCall("now_showing", {}, True),
    ),
    (
        "2 arguments are the empty string",
        call('{"name": "now_showing", "arguments": ""}'),
        ParsedCall("now_showing", {}, True),
    ),
    ("3 two calls' objects glued together", call(GOOD + GOOD), REPAIRED),
    ("4 the same call three times in one turn", call(GOOD) * 3, REPAIRED),
    ("5 arguments are a list", call('{"name": "a", "arguments": [3]}'), ParsedMalformed("arguments must be an object")),
    ("5 arguments are a number", call('{"name": "a", "arguments": 3}'), ParsedMalformed("arguments must be an object")),
    (
        "5 arguments are a string of a list",
        call('{"name": "a", "arguments": "[3]"}'),
        ParsedMalformed("arguments must be an object"),
    ),
    (
        "6 an argument is JSON in a string: kept",
        call('{"name": "a", "arguments": {"x": "[{}]"}}'),
        ParsedCall("a", {"x": "[{}]"}),
    ),
    (
        "7 a nested value passes",
        call('{"name": "a", "arguments": {"x": {"y": "z"}}}'),
        ParsedCall("a", {"x": {"y": "z"}}),
    ),
    (
        "8 an integer as a string keeps its type",
        call('{"name": "a", "arguments": {"x": "3"}}'),
        ParsedCall("a", {"x": "3"}),
    ),
    (
        "8 a string code stays a string",
        call('{"name": "a", "arguments": {"x": "1.000001"}}'),
        ParsedCall("a", {"x": "1.000001"}),
    ),
    (
        "8 an integer keeps its type, a float too",
        call('{"name": "a", "arguments": {"x": 3, "y": 3.0}}'),
        ParsedCall("a", {"x": 3, "y": 3.0}),
    ),
    (
        "9 two non-ASCII argument names",
        call('{"name": "a", "arguments": {"链接": 1, "城市": 2}}'),
        ParsedCall("a", {"链接": 1, "城市": 2}),
    ),
    (
        "9 names that cleaning would merge",
        call('{"name": "a", "arguments": {"my-p": 1, "my_p": 2}}'),
        ParsedCall("a", {"my-p": 1, "my_p": 2}),
    ),
    ("10 a dotted name", call('{"name": "shop.price", "arguments": {}}'), ParsedCall("shop.price", {})),
    ("10 a name over 64 characters", call(f'{{"name": "{"a" * 80}", "arguments": {{}}}}'), ParsedCall("a" * 80, {})),
    ("11 a reply when there is no tool", "Hello lovely", ParsedReply("Hello lovely")),
    ("12 a very long turn", "word " * 20_000, ParsedReply(("word " * 20_000).strip())),
    (
        "13 marker text inside an argument",
        call('{"name": "a", "arguments": {"x": "</tool_call>"}}'),
        ParsedCall("a", {"x": "</tool_call>"}),
    ),
    ("14 a reply that quotes the marker", "It is <tool_call> here", ParsedMalformed("the call is not valid JSON")),
    ("14 a reply that quotes the end marker", "It is </tool_call>", ParsedMalformed("end of a call without its start")),
    (
        "15 an emoji as an escaped surrogate pair",
        call('{"name": "a", "arguments": {"x": "\\ud83d\\ude00"}}'),
        ParsedCall("a", {"x": "😀"}),
    ),
    (
        "15 a lone surrogate",
        call('{"name": "a", "arguments": {"x": "\\ud83d"}}'),
        ParsedMalformed("lone surrogate in the call"),
    ),
    (
        "15 a lone surrogate in a key",
        call('{"name": "a", "arguments": {"\\ude00": 1}}'),
        ParsedMalformed("lone surrogate in the call"),
    ),
    ("15 a lone surrogate in a reply", "Hi \ud83d", ParsedMalformed("lone surrogate in the reply")),
    ("15 hidden text in a reply", "Hi \u202e\U000e0041", ParsedReply("Hi \u202e\U000e0041")),
    ("16 prices in a reply", "2 pairs from $349, ¥1,299", ParsedReply("2 pairs from $349, ¥1,299")),
    ("17 CRLF inside a call", call('{\r\n"name": "price_check",\r\n"arguments": {"link": 3}}'), PRICE),
    ("16 full-width digits in a reply", "¥１,２９９ 就好", ParsedReply("¥１,２９９ 就好")),
    ("17 LF inside a call", call('{\n"name": "price_check",\n"arguments": {"link": 3}}'), PRICE),
    ("17 CRLF in a reply", "Yes,\r\nlovely\r\n", ParsedReply("Yes,\r\nlovely")),
    ("strict", call(GOOD), PRICE),
    ("space around the turn", f"  {call(GOOD)}\n", PRICE),
    ("text before the call", f"Let me look. {call(GOOD)}", REPAIRED),
    ("text after the call", f"{call(GOOD)} One moment!", REPAIRED),
    ("no end marker", f"<tool_call>{GOOD}", REPAIRED),
    ("missing brace", call(GOOD[:-1]), REPAIRED),
    ("two missing braces, no end marker", f"<tool_call>{GOOD[:-2]}", REPAIRED),
    ("arguments as an encoded object", call('{"name": "price_check", "arguments": "{\\"link\\": 3}"}'), REPAIRED),
    ("no arguments", call('{"name": "now_showing"}'), ParsedCall("now_showing", {}, True)),
    ("no markers", GOOD, REPAIRED),
    ("JSON that is no call", '{"price": 3}', ParsedReply('{"price": 3}')),
    (
        "duplicate key",
        call('{"name": "a", "arguments": {"x": 1, "x": 2}}'),
        ParsedMalformed("duplicate key in the call"),
    ),
    (
        "duplicate name",
        call('{"name": "a", "name": "b", "arguments": {}}'),
        ParsedMalformed("duplicate key in the call"),
    ),
    ("NaN", call('{"name": "a", "arguments": {"x": NaN}}'), ParsedMalformed("NaN is not JSON")),
    ("infinite", call('{"name": "a", "arguments": {"x": -Infinity}}'), ParsedMalformed("-Infinity is not JSON")),
    ("overflow", call('{"name": "a", "arguments": {"x": 1e999}}'), ParsedMalformed("number out of range in the call")),
    (
        "huge integer",
        call(f'{{"name": "a", "arguments": {{"x": {"9" * 5000}}}}}'),
        ParsedMalformed("the call is not valid JSON"),
    ),
    (
        "deep nesting",
        call('{"name": "a", "arguments": ' + "[" * 100_000),
        ParsedMalformed("the call is not valid JSON"),
    ),
    ("top-level list", call("[1]"), ParsedMalformed("a call is a JSON object with name and arguments")),
    ("unknown key", call('{"name": "a", "arguments": {}, "id": 1}'), ParsedMalformed("unknown key 'id' in the call")),
    (
        "an unknown key as long as a page",
        call(f'{{"name": "a", "{"k" * 5000}": 1}}'),
        ParsedMalformed(f"unknown key '{'k' * 40}' in the call"),
    ),
    ("no name", call('{"arguments": {}}'), ParsedMalformed("the call has no name")),
    ("empty", " \n", ParsedMalformed("empty turn")),
    ("cut", '<tool_call>{"name": "pri', ParsedMalformed("the call is not valid JSON")),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_input_has_its_outcome(text, expected):
    assert parse(text) == expected


anything = st.characters(codec=None, categories=None)  # lone surrogates too
fragments = st.lists(st.sampled_from(PIECES), max_size=12)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(min_size=1), st.dictionaries(st.text() | st.just("</tool_call>"), values, max_size=4))
def test_a_rendered_call_parses_strictly_to_itself(name, arguments):
    assert parse(call_text(name, arguments)) == ParsedCall(name, arguments)


@settings(max_examples=300, deadline=None)
@given(
    st.text(anything)
    | fragments.map("".join)
    | st.lists(fragments.map("".join) | st.text(anything), max_size=4).map("".join)
)
def test_every_text_obeys_the_laws(text):
    check_laws(text)


@pytest.mark.parametrize("text", [case[1] for case in CASES], ids=[case[0] for case in CASES])
def test_the_table_obeys_the_laws(text):
    check_laws(text)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([case[1] for case in CASES if len(case[1]) < 500]), st.data())
def test_a_known_input_with_a_few_signs_changed_obeys_the_laws(text, data):
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 4)))
        text = text[:start] + data.draw(st.sampled_from(["", *PIECES]) | st.text(anything, max_size=2)) + text[end:]
    check_laws(text)


def test_call_text_refuses_what_json_cannot_hold():
    with pytest.raises(ValueError):
        call_text("a", {"x": float("nan")})
