"""Coverage-guided fuzzing of the parser with atheris (libFuzzer); `make fuzz` installs it and runs this.

    python -m tests.unit.agent.fuzz_parser CORPUS -max_total_time=60

Arguments are libFuzzer's. CORPUS is a folder that grows; a text that breaks a law is written to crash-<digest>.
"""

import sys
from pathlib import Path

import atheris  # pyright: ignore[reportMissingImports]

with atheris.instrument_imports(include=["components.avatar.agent.parser", "json"]):
    from tests.unit.agent.parser_laws import GOOD, PIECES, check_laws


def one_input(data: bytes) -> None:
    check_laws(data.decode("utf-8", "surrogateescape"))  # bytes that are no text become lone surrogates


def main() -> None:
    options = sys.argv
    folders = [option for option in options[1:] if not option.startswith("-")]
    if folders:
        corpus = Path(folders[0])
        corpus.mkdir(parents=True, exist_ok=True)
        for number, text in enumerate([*PIECES, f"<tool_call>{GOOD}</tool_call>", f"Well <tool_call>{GOOD}"]):
            (corpus / f"seed-{number}").write_text(text, encoding="utf-8")
    atheris.Setup(options, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
