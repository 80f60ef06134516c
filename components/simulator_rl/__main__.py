from components.integrations.cli import step_main
from components.simulator_rl.run import run

if __name__ == "__main__":
    raise SystemExit(step_main("simulator_rl", run))
