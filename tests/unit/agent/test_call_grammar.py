import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.avatar.agent.call_grammar import CallNames, CallReader
from components.avatar.agent.constrained import TokenTable
from components.avatar.agent.parser import ParsedCall, call_text, parse

NAMES = CallNames(
    tools={b"price_check": (b"link",), b"price_peek": (b"link", b"city"), b"now": (), b"open": (b"name",)},
    skills=(b"deals", b"delivery"),
    skill_arguments={b"open": b"name"},
)
FREE = None
NAME = (b"price_check", b"price_peek", b"now", b"open")

# (text so far, what the open string may become)
PLACES = [
    ("", FREE),
    ("Hello", FREE),
    ("<tool_", FREE),
    ("<tool_call>", FREE),
    ('<tool_call>{"', FREE),
    ('<tool_call>{"name": "', NAME),
    ('\n<tool_call>{"name":"pri', NAME),
    ('<tool_call>{"name": "price_peek"', FREE),
    ('<tool_call>{"name": "price_peek", "arguments": {"', (b"link", b"city")),
    ('<tool_call>{"name": "price_peek", "arguments": {"link": 3, "', (b"city",)),
    ('<tool_call>{"name": "price_peek", "arguments": {"link": {"', FREE),
    ('<tool_call>{"name": "price_peek", "arguments": {"link": [1, {"a": "b"}], "', (b"city",)),
    ('<tool_call>{"name": "price_peek", "arguments": {"city": "', FREE),
    ('<tool_call>{"name": "price_peek", "arguments": {"city": "a\\"b", "', (b"link",)),
    ('<tool_call>{"name": "now", "arguments": {"', ()),
    ('<tool_call>{"name": "open", "arguments": {"name": "', (b"deals", b"delivery")),
    ('<tool_call>{"arguments": {"', None),  # tool unknown: see below
    ('<tool_call>{"name": "now", "arguments": {}}</tool_call> and "', FREE),
    ('<tool_call>{"name": nonsense "', FREE),
    ('Sure: <tool_call>{"name": "', FREE),
]


@pytest.mark.parametrize(("text", "choices"), [p for p in PLACES if p[0] != '<tool_call>{"arguments": {"'])
def test_where_the_harness_decides(text, choices):
    assert CallReader().read_all(text.encode()).choices(NAMES) == choices


def test_before_the_tool_is_known_any_of_its_keys_may_come():
    state = CallReader().read_all(b'<tool_call>{"arguments": {"')
    assert set(state.choices(NAMES) or ()) == {b"link", b"city", b"name"}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('<tool_call>{"name": "price_', True),
        ('<tool_call>{"name": "price_p', True),
        ('<tool_call>{"name": "ware_', False),
        ('<tool_call>{"name": "open", "arguments": {"name": "del', True),
        ('<tool_call>{"name": "open", "arguments": {"name": "small', False),
        ('<tool_call>{"name": "now", "arguments": {"', False),
        ('<tool_call>{"name": "now", "arguments": {', True),
    ],
)
def test_what_still_fits(text, fits):
    assert CallReader().read_all(text.encode()).fits(NAMES) is fits


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["link", "city"]), values))
def test_every_right_call_is_read_to_its_end(arguments):
    text = call_text("price_peek", arguments).encode()
    state = CallReader()
    for position, byte in enumerate(text):
        state = state.read(byte)
        assert state.fits(NAMES), text[: position + 1]
        assert position < 11 or state.place != "free" or not state.nesting
    assert state.place == "free" and state.tool == b"price_peek"


@pytest.fixture(scope="module")
def table(tokenizer):
    return TokenTable(tokenizer)


def test_the_token_table_knows_every_byte(table, tokenizer):
    text = '<tool_call>{"name": "é💛价格"}'
    ids = tokenizer(text)["input_ids"]
    assert b"".join(table.bytes[i] for i in ids).decode() == text
    assert not set(tokenizer.get_added_vocab().values()) & set(table.bytes)


@pytest.mark.parametrize("tool", ["price_check", "price_peek", "now", "open"])
def test_right_calls_are_allowed_in_any_tokenisation(table, tokenizer, tool):
    arguments = {"price_check": {"link": 3}, "price_peek": {"city": "Nice", "link": 2}, "open": {"name": "deals"}}.get(
        tool, {}
    )
    text = call_text(tool, arguments)
    whole = tokenizer(text)["input_ids"]
    by_letter = [tokenizer(letter)["input_ids"][0] for letter in text]
    for ids in (whole, by_letter):
        state = CallReader()
        for token in ids:
            allowed = table.allowed(state, NAMES)
            assert allowed is None or token in allowed
            assert token not in table.forbidden(state, NAMES)
            state = state.read_all(table.bytes[token])


@pytest.mark.parametrize("seed", range(20))
def test_a_random_walk_can_only_write_a_call_of_the_harness(table, seed):
    """Names and keys are drawn at random among what is allowed; the frame between them is given."""
    rng = random.Random(seed)
    text = b'<tool_call>{"name": "'

    def write_string(text: bytes) -> bytes:
        while (allowed := table.allowed(CallReader().read_all(text), NAMES)) is not None:
            text += table.bytes[rng.choice(allowed)]
            assert len(text) < 300
        return text

    text = write_string(text)
    name = text.split(b'"')[3]
    keys = NAMES.tools[name]  # a KeyError is the failure
    text = b'<tool_call>{"name": "' + name + b'", "arguments": {'
    if not keys:
        quote = next(i for i, token in table.bytes.items() if token == b'"')
        assert quote in table.forbidden(CallReader().read_all(text), NAMES)
        return
    after = write_string(text + b'"')
    assert after[len(text) :].split(b'"')[1] in keys


def test_the_walks_frame_is_what_the_parser_accepts():
    assert parse('<tool_call>{"name": "now", "arguments": {}}</tool_call>') == ParsedCall("now", {})


def test_names_come_from_the_harness(harness):
    names = CallNames.of(harness)
    assert set(names.tools) == {tool.name.encode() for tool in harness.tools}
    assert set(names.skills) == {skill.name.encode() for skill in harness.skills}
    assert names.skill_arguments == {b"load_skill": b"name"}
    assert CallNames.of(harness.model_copy()) is names
