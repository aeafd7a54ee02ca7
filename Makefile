# make help lists the targets. Everything is installed into .venv, once for each list of packages.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-long test-all test-timing fuzz mutants lint bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## a Spark job with windows larger than its memory; needs Java 17 or newer, and no server
	@mkdir -p out
	@$(BIN)/mta demo --picture out/demo.png

# four at a time, many of which wait for servers, unless they share one that somebody else gave
AT_ONCE = $(if $(REDIS_URL)$(COUCHBASE_URL),0,4)
# which ones: words for pytest, such as TESTS="-m redis"
TESTS =
# for tests/mutants.py, such as MUTANTS="--seed 2 --count 200 mta/window.py"
MUTANTS =

# the order of sets of strings is the same in each run, as all else that chance decides in tests
PYTEST = PYTHONHASHSEED=0 $(BIN)/python -m pytest -q -n $(AT_ONCE)

test: servers  ## run the tests, in some ten minutes; needs Java 17 or newer. CI=true: none may be skipped for want of a server
	@$(PYTEST) -m "not long" $(TESTS)

test-long: servers  ## run the tests that take long and say little more
	@$(PYTEST) -m long $(TESTS)

test-all: test-long test  ## run both

# how many runs, how many of them share the machine, and how many processes are busy beside them
RUNS = 20
SHARING = 4
BUSY = 0

test-timing: servers  ## run the tests of servers, threads, leases and kills RUNS times on a busy machine
	@$(BIN)/python tests/under_load.py --runs $(RUNS) --at-once $(SHARING) --busy $(BUSY) -n $(AT_ONCE) $(TESTS)

# for tests/fuzz.py: how long, what (words for pytest), and, to see a failure again, the seed that was printed
SECONDS = 600
SEED =
TIMES = 10

fuzz: servers  ## run the tests that make examples with examples of new seeds, for SECONDS
	@$(BIN)/python tests/fuzz.py --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) --times $(TIMES) -n $(AT_ONCE) $(TESTS)

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
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)  # it was left half made
	@$(PIP) install --editable '.[demo]' >$(VENV)/pip.log 2>&1 || { \
	  echo "pip could not install what the demo needs (Spark, pandas, pyarrow, matplotlib, psutil):$$(sed -n 's/.*ERROR://p' $(VENV)/pip.log | head -n 1)" >&2; \
	  echo "It fetches some 500 MB from a package index. Connect and try again, or name an index by PIP_INDEX_URL or a directory of wheels by PIP_FIND_LINKS. Its own words are in $(VENV)/pip.log" >&2; \
	  exit 1; }
	@touch $@

$(VENV)/.bench: pyproject.toml | $(BIN)/python
	@echo "installing what the benchmarks need into $(VENV)"
	@$(PIP) install --editable '.[experiments]'
	@touch $@

# always looked at, and quick where it is there
.PHONY: servers
servers: $(VENV)/.test
	@PYTHON=$(BIN)/python sh .ci/couchbase_mock.sh >/dev/null || echo "tests of Couchbase will have no server" >&2

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "installing what the tests need into $(VENV)"
	@$(PIP) install --editable '.[test]'
	@touch $@
