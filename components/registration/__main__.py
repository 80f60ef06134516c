from components.integrations.cli import step_main
from components.registration.run import run

if __name__ == "__main__":
    raise SystemExit(step_main("registration", run))
