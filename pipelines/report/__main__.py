"""Write RUN_DIR/report.html again from what the folder holds: the run's summary, the canary's validation, or both.

python -m pipelines.report RUN_DIR
"""

import argparse
import sys
from pathlib import Path

from components.avatar.errors import InputError
from pipelines.report.page import rewrite_report


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 written, 2 nothing to write a report from."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.report", description="Write report.html again.")
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR")
    try:
        print(f"report   {rewrite_report(parser.parse_args(argv).run_dir)}")
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
