# What a person does with the project. Needs make and Python 3.11 or newer, nothing else.
PYTHON ?= python3
VENV ?= .venv
export SEEDS ?=

BIN := $(VENV)/bin
# Older versions of pip print advice about themselves; here only what goes wrong is of interest.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install --constraint constraints.txt
BENCHMARKS := throughput
INPUTS := pyproject.toml setup.py constraints.txt

.PHONY: help crawl test lint bench clean
.DEFAULT_GOAL := help

help:
	@echo "make crawl                          crawl the built-in demo site"
	@echo "make crawl SEEDS=\"https://…\"        crawl a site of yours"
	@echo "make test [ARGS=\"-k name\"]          run the tests"
	@echo "make lint                           style, types and imports"
	@echo "make bench                          pages per second beside Scrapy and scrapy-redis (needs nginx)"
	@echo "make clean                          remove what these made; what was crawled stays"

crawl: $(VENV)/.for-crawl
ifeq ($(strip $(SEEDS)),)
	@$(BIN)/scrapy demo
else
	@$(BIN)/scrapy crawl site -a "seeds=$$SEEDS"
endif

# Several at a time, each process with servers of its own, and one more than there are processors: a test that runs
# a crawl waits for much of its time. ARGS="-n 0" runs them one by one.
test: $(VENV)/.for-test
	@$(BIN)/python -m pytest --numprocesses $$(($$($(PYTHON) -c 'import os; print(os.cpu_count())') + 1)) \
		--dist worksteal $(ARGS)

lint: $(VENV)/.for-test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(VENV)/.for-test
	@set -e; for each in $(BENCHMARKS); do $(BIN)/python -m "benchmarks.$$each"; done

clean:
	@rm -rf $(VENV) build dist *.egg-info .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp is newer than what was installed from; a second run finds it so and installs nothing.
$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is no Python 3.11 or newer; say which one is with: make PYTHON=python3.11 …" >&2; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.for-crawl: $(VENV)/.python $(INPUTS)
	@echo "installing what a crawl needs (once)"
	@$(PIP) setuptools wheel
	@$(PIP) --no-build-isolation --editable '.[embedded]'
	@touch $@

$(VENV)/.for-test: $(VENV)/.for-crawl
	@echo "installing what the tests need (once)"
	@$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@
