# Everything a contributor does, by name. `make` alone prints the list.

PYTHON ?= python3
VENV ?= .venv
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check -qq
# Two workers more than cores: tests wait for processes, time limits and files that settle for a part of their time.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 2 )))
PYTEST_FLAGS ?= -n $(WORKERS) --dist loadgroup
DATA ?= ../shared/data/gpu_latency

# Where the environment sets this, each of the thousand processes of a test run would compile Skyline anew.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo test check fix validate train-predictors mutate screenshots page extension check-extension test-extension docs clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nSet PYTHON=python3.12 to choose the interpreter, VENV=path to choose the environment.\n'

demo: $(VENV)/.skyline-installed ## install into .venv and profile an example (a few minutes the first time)
	$(VENV)/bin/skyline profile examples/image_classifier.py

test: $(VENV)/.skyline-dev ## run the test suite
	$(VENV)/bin/python -m pytest $(PYTEST_FLAGS)

check: $(VENV)/.skyline-dev ## lint, formatting, types, import directions, prose
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(VENV)/bin/pyright --pythonpath $(VENV)/bin/python
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python docs/style/prose.py

fix: $(VENV)/.skyline-dev ## repair what lint and formatting can repair by themselves
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/python docs/style/prose.py --lower

validate: $(VENV)/.skyline-dev ## measure speed and accuracy on this machine (long; keep the machine quiet)
	$(VENV)/bin/python -m pytest -m long
	$(VENV)/bin/python benchmarks/gpu_smoke.py
	$(VENV)/bin/python benchmarks/simulated_gpu_corpus.py
	$(VENV)/bin/python benchmarks/iteration_time.py
	$(VENV)/bin/python benchmarks/drag_latency.py
	$(VENV)/bin/python benchmarks/prediction_accuracy.py
	$(VENV)/bin/python benchmarks/whatifs.py
	$(VENV)/bin/python benchmarks/whatif_latency.py
	$(VENV)/bin/python benchmarks/calibration.py
	$(VENV)/bin/python benchmarks/ground_truth.py --small --minutes 20 --out build/ground_truth
	$(VENV)/bin/python benchmarks/rewrite_variants.py
	$(VENV)/bin/python benchmarks/injected_cost.py
	$(VENV)/bin/python benchmarks/shape_memory.py
	$(VENV)/bin/python benchmarks/save_to_numbers.py
	$(VENV)/bin/python benchmarks/many_saves.py
	$(VENV)/bin/python benchmarks/faults.py
	$(VENV)/bin/python benchmarks/slow_clients.py
	$(VENV)/bin/python benchmarks/server_fuzzer.py
	$(VENV)/bin/python benchmarks/server_latency.py
	@if [ -n "$(TRACES)" ]; then $(VENV)/bin/python benchmarks/simulator.py --traces $(TRACES); \
	else echo "simulator.py: left out; name a folder of profiler traces: make validate TRACES=FOLDER"; fi

train-predictors: $(VENV)/.skyline-dev ## find all figures of the predictors anew from DATA=FOLDER of measured kernels, and score them
	@[ -d "$(DATA)" ] || { echo "make: there is no $(DATA); name the folder of measured kernels: make train-predictors DATA=FOLDER" >&2; exit 1; }
	$(PIP) install -c requirements/constraints.txt 'scikit-learn>=1.4'
	@date +%s > $(VENV)/.training-began
	$(VENV)/bin/python benchmarks/calibrate_roofline.py --data $(DATA)
	$(VENV)/bin/python -m skyline_predictors.learned.train $(DATA)
	@echo "all predictors trained in $$(( $$(date +%s) - $$(cat $(VENV)/.training-began) )) s"
	$(VENV)/bin/python -m skyline_predictors.evaluate $(DATA) --results benchmarks/results

SEED ?= 1

mutate: $(VENV)/.skyline-dev ## change the code in 180 places by SEED and count the changes that no test notices (long)
	$(PIP) install -c requirements/constraints.txt coverage mutmut
	$(VENV)/bin/python benchmarks/mutation.py --seed $(SEED)

# The platform that the extension is packaged for, as VS Code names it: linux-x64, linux-arm64, darwin-x64, darwin-arm64.
TARGET ?= $(shell node -p 'process.platform + "-" + process.arch')

page: ## build the script of the page of `skyline serve` again; needs Node 20
	cd extension && npm ci --ignore-scripts --no-audit --no-fund && npm run -s page

extension: $(VENV)/.skyline-dev ## build the VS Code extension, with the server inside: extension/skyline.vsix
	cd extension && npm ci --ignore-scripts --no-audit --no-fund && npm run -s build && npm run -s page
	$(VENV)/bin/python extension/bundle.py --target $(TARGET)
	cd extension && npm run -s package -- --target $(TARGET) --out skyline.vsix

check-extension: ## build, lint and type-check the VS Code extension, and run its unit tests
	extension/test.sh checks

test-extension: $(VENV)/.skyline-dev ## that, and the extension used in a real VS Code in a real browser
	E2E_FLAGS="--all $(E2E_FLAGS)" extension/test.sh e2e $(abspath $(VENV))/bin/python

screenshots: $(VENV)/.skyline-dev ## draw the pictures in docs/images from a fresh profile
	$(VENV)/bin/python docs/screenshots.py

docs: $(VENV)/.skyline-docs ## build the documentation site into build/site, without a network
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

clean: ## remove caches and build outputs; keeps .venv and saved profiles
	rm -rf build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +

# A marker file per layer: an environment is filled once, and again when what it is filled from changes.
$(VENV)/.skyline-installed: pyproject.toml requirements/constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: no $(PYTHON) here; name a Python 3.10 or newer: make demo PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "make: Skyline needs Python 3.10 or newer, $(PYTHON) is $$($(PYTHON) --version 2>&1); try: make demo PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "make: $(PYTHON) could not make a virtual environment (on Debian and Ubuntu: install python3-venv)" >&2; exit 1; }
	@echo "installing PyTorch into $(VENV) (a large download the first time)"
	@$(PIP) install -c requirements/constraints.txt torch numpy # PyTorch runs without NumPy, but warns at every start
	@echo "installing Skyline into $(VENV)"
	@$(PIP) install -c requirements/constraints.txt -e .
	@touch $@

$(VENV)/.skyline-dev: $(VENV)/.skyline-installed requirements/dev.txt
	@echo "installing the development tools into $(VENV)"
	@$(PIP) install -c requirements/constraints.txt -r requirements/dev.txt
	@touch $@

$(VENV)/.skyline-docs: $(VENV)/.skyline-dev requirements/docs.txt
	@echo "installing the documentation tools into $(VENV)"
	@$(PIP) install -c requirements/constraints.txt -r requirements/docs.txt
	@touch $@
