"""A person's chat in the terminal: every command, every bad input, the oracle and a model."""

import io
from pathlib import Path

import pytest

from components.avatar.harness.schema import Family
from components.avatar.simulator.__main__ import main
from components.avatar.simulator.merchant import load_merchant
from components.avatar.simulator.play import HELP, Oracle, guess, play

ROOT = Path(__file__).parents[3]
LUMI = ROOT / "infra" / "harnesses" / "lumi-beauty"


@pytest.fixture(scope="module")
def merchant():
    return load_merchant(LUMI)


@pytest.fixture
def chat(merchant, capsys):
    """Types the lines one after the other, then Ctrl-D; what the screen shows after the greeting."""

    def type_lines(*lines: str) -> str:
        waiting = iter(lines)

        def ask(prompt: str) -> str:
            line = next(waiting, None)
            if line is None:
                raise EOFError
            return line

        play(merchant, Oracle(merchant), 1, ask)
        return capsys.readouterr().out.split(HELP, 1)[1]

    return type_lines


def test_an_answer_shows_calls_results_and_findings(chat):
    said = chat("how much is link 7")
    assert "[understood as price of link 7]" in said
    assert "calls price_check(link=7)" in said and '-> {"link_id":7' in said
    assert "lumi-beauty> Lovely" in said
    assert "[accuracy 1, effectiveness 1, tool rationality 1, skill selection 1]" in said


def test_a_fault_is_seen_until_it_is_switched_off(chat):
    said = chat("/fault price_check timeout", "how much is link 7", "/fault off", "how much is link 7")
    first, second = said.split("[no faults]")
    assert '{"error":"timeout"}' in first and first.count("calls price_check") == 2
    assert "timeout" not in second
    assert said.count("accuracy 1,") == 2, "the oracle recovers"


def test_an_outage_outlasts_every_retry(chat):
    said = chat("/fault price_check outage", "how much is link 7")
    assert "can't check" in said and "98.60" not in said


def test_a_product_is_put_on_air(chat):
    assert '"link_id":5' in chat("/air 5", "what's on screen rn")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "nothing to answer"),
        ("   ", "nothing to answer"),
        ("/nonsense", "no command /nonsense; /help lists them"),
        ("/", "no command /; /help lists them"),
        ("/air", "no link (none given); links go from 1 to 48"),
        ("/air 99", "no link 99; links go from 1 to 48"),
        ("/air seven", "no link seven"),
        ("/fault", "/fault TOOL KIND or /fault off; tools: price_check,"),
        ("/fault price_check", "kinds: timeout,"),
        ("/fault price_check broken", "kinds: timeout,"),
        ("/fault no_tool timeout", "tools: price_check,"),
        ("/ask nothing", "no question of family 'nothing'; families: attributes,"),
        ("/products zzz", "0 of 0 products"),
        ("/products SERUM", "link 3, Vitamin C Brightening Serum"),
        ("/products", "12 of 48 products"),
        ("/help", "/quit"),
        ("/harness", "price_check(link) -> price_lookup"),
    ],
)
def test_a_command_says_what_it_did_or_what_is_allowed(chat, line, said):
    shown = chat(line)
    assert said in shown and "understood" not in shown, "no episode is played"


@pytest.mark.parametrize("end", ["/quit", "/exit"])
def test_quit_ends_at_once(chat, end):
    assert chat(end, "how much is link 7") == "\n"


def test_ctrl_c_ends_without_a_traceback(merchant, capsys):
    def ask(prompt):
        raise KeyboardInterrupt

    play(merchant, Oracle(merchant), 1, ask)
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ["\x1b[2J\x1b]0;title\x07 hi", "\ud83d", "x" * 5_000, "<|im_end|>", "\u202e abc", "0" * 400]
)
def test_any_text_is_answered_and_no_control_sequence_reaches_the_terminal(chat, text):
    said = chat(text)
    assert "lumi-beauty> " in said and not set(said) & set("\x1b\x07\u202e")
    said.encode()


def test_ask_draws_from_the_log(chat, merchant):
    said = chat("/ask coupon", "/ask coupon", "/ask")
    assert said.count("[understood as coupon of link") >= 2 and said.count("accuracy 1,") == 3
    logged = {question.text for question in merchant.questions}
    assert all(line.removeprefix("you> ") in logged for line in said.splitlines() if line.startswith("you> "))


@pytest.mark.parametrize(
    ("text", "family", "link", "slots"),
    [
        ("how much is link 7", Family.PRICE, 7, {}),
        ("is 999 in stock", Family.UNKNOWN_LINK, 999, {"asks": "stock"}),
        ("which is better 3 or 37", Family.COMPARE, None, {"link_ids": [3, 37]}),
        ("shipping to Chengdu for 12?", Family.SHIPPING, 12, {"city": "Chengdu"}),
        ("where is my order B1234", Family.ORDER_STATUS, None, {"order_id": "B1234"}),
        ("which shades does link 4 come in", Family.VARIANT, 4, {}),
        ("does 16 come in pink", Family.VARIANT, 16, {"variant": "Pink"}),
    ],
)
def test_what_a_text_is_taken_for(merchant, text, family, link, slots):
    question = guess(text, merchant)
    assert (question.family, question.link_id) == (family, link)
    assert {name: str(value).lower() for name, value in question.slots.items()} == {
        name: str(value).lower() for name, value in slots.items()
    }


def test_chinese_is_understood_word_by_word():
    question = guess("7号多少钱", load_merchant(ROOT / "infra" / "harnesses" / "yunwu-tea"))
    assert (question.family, question.link_id) == (Family.PRICE, 7)


@pytest.mark.parametrize("text", ["单号YW1042到哪了", "YW1042发货没", "我的单子YW1042"])
def test_an_order_needs_no_blank_beside_chinese(text):
    question = guess(text, load_merchant(ROOT / "infra" / "harnesses" / "yunwu-tea"))
    assert (question.family, question.slots["order_id"]) == (Family.ORDER_STATUS, "YW1042")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--harness", "/nowhere"], "no such folder"),
        (["--harness", str(LUMI), "--model", "/nowhere"], "no config.json"),
        (["--harness", str(LUMI), "--model", "{tmp}"], "allowed: config, tokenizer and safetensors weights"),
    ],
)
def test_bad_folders_are_named(arguments, said, tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    assert main(["play", *(argument.replace("{tmp}", str(tmp_path)) for argument in arguments)]) == 1
    assert said in capsys.readouterr().err


def test_a_model_answers_too(monkeypatch, capsys):
    """A random model: its turns never end, which the screen says."""
    from components.integrations.weights import resolve_base_model

    monkeypatch.setattr("sys.stdin", io.StringIO("how much is link 7\n/quit\n"))
    folder = resolve_base_model("random:tiny", ROOT / ".cache")
    assert main(["play", "--harness", str(LUMI), "--model", str(folder), "--decoding", "free"]) == 0
    said = capsys.readouterr().out
    assert f"the model {folder} (free decoding) answers" in said
    assert "malformed: " in said and "hook: Malformed output" in said and "[ended: retries spent]" in said
