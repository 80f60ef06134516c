from components.data_validation.run import run
from components.integrations.cli import step_main

if __name__ == "__main__":
    raise SystemExit(step_main("data_validation", run))
