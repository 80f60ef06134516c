from components.integrations.cli import step_main
from components.teacher_generation.run import run

if __name__ == "__main__":
    raise SystemExit(step_main("teacher_generation", run))
