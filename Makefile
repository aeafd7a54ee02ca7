# make help lists the targets. Everything is installed into .venv, once for each list of packages.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test mutants lint bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## a Spark job with windows larger than its memory; needs Java 17, and no server
	@mkdir -p out
	@$(BIN)/mta demo --picture out/demo.png

# three at a time, many of which wait for servers, unless they share one that somebody else gave
AT_ONCE = $(if $(REDIS_URL)$(COUCHBASE_URL),0,3)
# which ones: words for pytest, such as TESTS="-m redis"
TESTS =
# for tests/mutants.py, such as MUTANTS="--seed 2 --count 200 mta/window.py"
MUTANTS =

test: $(VENV)/.test  ## run all tests; needs Java 17. What a machine cannot run is skipped, with CI=true it fails
	@PYTHON=$(BIN)/python sh .ci/couchbase_mock.sh >/dev/null || echo "tests of Couchbase will have no server" >&2
	@$(BIN)/python -m pytest -q -n $(AT_ONCE) $(TESTS)

mutants: $(VENV)/.test  ## break the engine in 40 places, one after the other, and list what no test notices
	@$(BIN)/python tests/mutants.py $(MUTANTS)

lint: $(VENV)/.test  ## check style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(VENV)/.bench  ## measure the engine against others; writes out/engine.json
	@mkdir -p out
	@$(BIN)/mta bench engine --json out/engine.json

clean:  ## remove .venv and what the tools leave behind
	rm -rf $(VENV) build out *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "there is no $(PYTHON): make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("needs Python 3.11 or newer, but $(PYTHON) is %d.%d: make PYTHON=python3.12" % sys.version_info[:2])'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: on Debian, apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@command -v "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" >/dev/null || { echo "the demo runs on Spark, which needs Java 17 or newer, and there is none: apt-get install openjdk-17-jre-headless, brew install openjdk@17, or set JAVA_HOME" >&2; exit 1; }
	@echo "installing Spark and what else the demo needs into $(VENV)"
	@$(PIP) install --editable '.[demo]'
	@touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	@echo "installing what the benchmarks need into $(VENV)"
	@$(PIP) install --editable '.[experiments]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "installing what the tests need into $(VENV)"
	@$(PIP) install --editable '.[test]'
	@touch $@
