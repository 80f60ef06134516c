"""Laws of the parser, shared by the property tests and the coverage-guided fuzzer."""

import json

from components.avatar.agent.parser import (
    CALL_END,
    CALL_START,
    Parsed,
    ParsedCall,
    ParsedMalformed,
    ParsedReply,
    call_text,
    parse,
)

GOOD = '{"name": "price_check", "arguments": {"link": 3}}'
PIECES = [
    CALL_START, CALL_END, "<|im_start|>", "<|im_end|>", "system\n", GOOD, '"name"', '"arguments"', '""', "{", "}", "[",
    "]", '"', ":", ",", "\\", "\\ud83d", "\\u0000", "NaN", "-Infinity", "1e999", "null", "name", " ", "\r\n", "\u202e",
    "９",
]  # fmt: skip
LONGEST_REASON = 120


def check_laws(text: str) -> Parsed:
    """Raises AssertionError when `parse(text)` breaks a law; returns what it said."""
    parsed = parse(text)
    stripped = text.strip()
    match parsed:
        case ParsedReply(said):
            assert said == stripped and said and CALL_START not in said and CALL_END not in said
            said.encode()
        case ParsedMalformed(reason):
            assert reason.isprintable() and 0 < len(reason) <= LONGEST_REASON, "a correction is one short line"
        case ParsedCall(name, arguments, repaired):
            assert isinstance(name, str) and name and isinstance(arguments, dict)
            assert parse(call_text(name, arguments)) == ParsedCall(name, arguments), "every call has a strict form"
            assert CALL_START in stripped or (stripped.startswith("{") and repaired), "nothing else becomes a call"
            if "\\" not in text:
                assert name in text and all(key in text for key in arguments), "nothing is invented"
            if not repaired:
                body = stripped.removeprefix(CALL_START).removesuffix(CALL_END)
                assert len(body) == len(stripped) - len(CALL_START + CALL_END)
                assert json.loads(body) == {"name": name, "arguments": arguments}
    assert parse(f"\n {text}\r\n") == parsed, "white space around a turn means nothing"
    assert type(parse(text.replace("\r\n", "\n"))) is type(parsed), "CRLF or LF makes no difference"
    return parsed
