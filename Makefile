# Looked up before .venv/bin comes first in PATH: an environment cannot remake itself.
PYTHON := $(or $(PYTHON),$(shell command -v python3))
# The tools, and Node where the system has none, are in the virtual environment.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: help setup tools lab test lint format bench reality build watch clean

help: ## print this list
	@awk -F '(:[^#]*## )' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make or refresh .venv, node_modules, the bundle and the test browser
	@$(PYTHON) scripts/bootstrap.py

# What everything but the browser tests needs.
tools:
	@$(PYTHON) scripts/bootstrap.py --no-browser

lab: tools ## open the first example in JupyterLab
	jupyter lab $(AS_ROOT) --ServerApp.ip=127.0.0.1 examples/01_quickstart.ipynb

test: setup lint ## run every check and every test
	npm test
	python -m pytest

lint: tools ## check style and types, change nothing
	ruff check
	ruff format --check
	mypy
	npm run --silent lint
	npm run --silent types

format: tools ## rewrite files into the common style
	ruff check --fix
	ruff format
	npm run --silent format

bench: tools ## measure sizes and times
	python tests/bench/run.py

reality: ## record PyTorch and DeepSpeed again and compare; takes TORCH=2.13.0 DEEPSPEED=newest
	@$(PYTHON) tests/reality/install.py $(TORCH:%=--torch=%) $(DEEPSPEED:%=--deepspeed=%)
	.venv-reality/bin/python tests/reality/check.py

build: tools ## make the wheel and the sdist in dist/
	python -m build

watch: tools ## rebuild the bundle at every change of js/
	npm run --silent watch

clean: ## remove what was built, keep .venv and node_modules
	rm -rf dist src/zerowidget/static .mypy_cache .ruff_cache .pytest_cache .hypothesis
