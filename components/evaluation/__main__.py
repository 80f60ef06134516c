from components.evaluation.run import run
from components.integrations.cli import step_main

if __name__ == "__main__":
    raise SystemExit(step_main("evaluation", run))
