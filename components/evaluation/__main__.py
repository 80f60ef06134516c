import sys

from components.evaluation import own_harness
from components.evaluation.run import run
from components.integrations.cli import step_main

if __name__ == "__main__":
    # With --harness it is a person's question about one harness, else the step of the pipeline.
    asked = any(argument.split("=")[0] == "--harness" for argument in sys.argv[1:])
    raise SystemExit(own_harness.main() if asked else step_main("evaluation", run))
