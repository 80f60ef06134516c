"""`python -m components.avatar.harness lint|diff|show|render DIR [NEW]`.

lint: what is wrong with the harness in DIR (exit 1 on an error). diff: changes from DIR to NEW. show: modules, digests,
meanings. render: the system message's text and the tools as the chat template takes them. Bad input exits with 2.
"""

import argparse
import json
import signal
import sys
from pathlib import Path

from components.avatar.errors import InputError
from components.avatar.harness.diff import diff
from components.avatar.harness.files import load_harness
from components.avatar.harness.lint import lint
from components.avatar.harness.render import show, system_prompt, tools_of


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m components.avatar.harness", description="Look at a harness folder."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {"lint": "list errors and warnings", "show": "modules, digests, meanings", "render": "what the agent sees"}
    for name, text in helps.items():
        commands.add_parser(name, help=text).add_argument("dir", type=Path)
    comparison = commands.add_parser("diff", help="typed changes from one folder to another")
    comparison.add_argument("dir", type=Path)
    comparison.add_argument("new", type=Path)
    options = parser.parse_args(arguments)
    try:
        harness = load_harness(options.dir)
        new = load_harness(options.new) if options.command == "diff" else None
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    if options.command == "lint":
        findings = lint(harness)
        print("\n".join(map(str, findings)) or "no findings")
        return int(any(finding.severity == "error" for finding in findings))
    if new is not None:
        print("\n".join(map(str, diff(harness, new))) or "no changes")
    elif options.command == "show":
        print(show(harness))
    else:
        print(system_prompt(harness))
        print(*(json.dumps(tool, ensure_ascii=False) for tool in tools_of(harness)), sep="\n")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `... | head` ends quietly
    sys.exit(main())
