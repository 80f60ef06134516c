"""`python -m components.avatar.harness lint|diff|show|render|import|export ...`, each with --help.

lint: what is wrong with the harness in DIR (exit 1 on an error). diff: changes from DIR to NEW. show: modules, digests,
meanings. render: the system message's text and the tools as the chat template takes them. import: a new folder from
tool lists and skills of other systems. export: the tools in the form of another system. Bad input exits with 2.
"""

import argparse
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.avatar.errors import InputError, file_fault
from components.avatar.harness.diff import diff
from components.avatar.harness.files import load_harness
from components.avatar.harness.importing import import_harness, report
from components.avatar.harness.lint import PROMPT_BUDGET, lint
from components.avatar.harness.render import show, system_prompt, tools_of
from components.avatar.harness.schema import Harness
from components.avatar.harness.strict import plain
from components.avatar.harness.tool_lists import mcp_list


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except InputError as error:
        print(*map(plain, str(error).split("\n")), sep="\n", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m components.avatar.harness", description="Look at a harness folder, or make one."
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        return added

    linting = command("lint", _lint, "List errors and warnings; exit 1 on an error.")
    linting.add_argument("dir", type=Path)
    linting.add_argument(
        "--tokenizer", type=Path, metavar="DIR", help="model folder whose tokens the prompt is counted in"
    )
    for name, run, text in (
        ("show", _show, "Modules, digests, meanings."),
        ("render", _render, "What the agent sees."),
    ):
        command(name, run, text).add_argument("dir", type=Path)
    comparison = command("diff", _diff, "Typed changes from one folder to another.")
    comparison.add_argument("dir", type=Path)
    comparison.add_argument("new", type=Path)
    importing = command("import", _import, "A new folder from tool lists and skills of other systems.")
    importing.add_argument(
        "sources",
        type=Path,
        nargs="+",
        metavar="SOURCE",
        help="MCP tools/list response (pages in order), OpenAI tools or functions, or a folder of SKILL.md files",
    )
    importing.add_argument("--merchant", required=True, metavar="NAME")
    importing.add_argument("--out", type=Path, required=True, metavar="DIR", help="the new folder; must not exist")
    importing.add_argument(
        "--recorded", action="store_true", help="bind every tool to `recorded` (fixture files) instead of none"
    )
    exporting = command("export", _export, "The tools in the form of another system.")
    exporting.add_argument("dir", type=Path)
    exporting.add_argument("--form", choices=("openai", "mcp"), default="openai")
    return parser


def _lint(options: argparse.Namespace) -> int:
    harness = load_harness(options.dir)
    count = None if options.tokenizer is None else _token_count(options.tokenizer, harness)
    findings = lint(harness, count)
    print("\n".join(plain(str(finding)) for finding in findings) or "no findings")
    budget = f"budget {PROMPT_BUDGET}"
    print(
        f"prompt: {count} tokens, {budget}" if count is not None else f"prompt: {budget} not checked (no --tokenizer)"
    )
    return int(any(finding.severity == "error" for finding in findings))


def _token_count(folder: Path, harness: Harness) -> int:
    """Tokens of the rendered system message, tools included, by the tokenizer of a model folder."""
    from transformers import PreTrainedTokenizerFast  # slow to import, and lint works without it

    from components.avatar.agent.chat import Chat

    if not (folder / "tokenizer.json").is_file():
        raise InputError([file_fault(folder, "no tokenizer.json", "the folder of a tokenizer or model", "--tokenizer")])
    chat = Chat(PreTrainedTokenizerFast.from_pretrained(folder))
    return len(chat.messages_ids([{"role": "system", "content": system_prompt(harness)}], tools_of(harness)))


def _show(options: argparse.Namespace) -> int:
    print(show(load_harness(options.dir)))
    return 0


def _render(options: argparse.Namespace) -> int:
    harness = load_harness(options.dir)
    print(system_prompt(harness))
    print(*map(_json, tools_of(harness)), sep="\n")
    return 0


def _diff(options: argparse.Namespace) -> int:
    print("\n".join(map(str, diff(load_harness(options.dir), load_harness(options.new)))) or "no changes")
    return 0


def _import(options: argparse.Namespace) -> int:
    imported = import_harness(options.sources, options.merchant, options.out, recorded=options.recorded)
    print(report(imported, options.out))
    return 0


def _export(options: argparse.Namespace) -> int:
    harness = load_harness(options.dir)
    print(_json(tools_of(harness) if options.form == "openai" else mcp_list(harness)))
    return 0


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `... | head` ends quietly
    sys.exit(main())
