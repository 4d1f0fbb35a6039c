# The one door. `make` alone lists the targets.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.headrace-installed

# The first interpreter that runs and is new enough; `make PYTHON=/path/to/python ...` overrides.
# A name on PATH is not enough: version managers leave names there that only print an error.
CANDIDATES := python3.11 python3.12 python3.13 python3
PYTHON ?= $(shell for name in $(CANDIDATES); do \
	$$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
	>/dev/null 2>&1 && { echo $$name; break; }; done)

LOCK_PYTHON := 3.11
# Each has a Spark of its own, which waits often: more than there are cores.
TEST_PROCESSES := 4
# A group is run by one process, in the order of tests/packing.py: long ones first.
SIDE_BY_SIDE := -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder
# Tests start hundreds of processes: they load what was compiled once.
unexport PYTHONDONTWRITEBYTECODE
# What `make coverage` runs.
TESTS := tests

.PHONY: bench-kafka chaos-kafka help setup demo test test-slow check lint types table coverage examples docs bench bench-streaming bench-workloads lab lab-example soak chaos \
	simulate chaos-night verify beam-suites lock clean

help: ## list the targets
	@echo "make TARGET, where TARGET is one of:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(STAMP) ## make .venv from requirements.lock and see that Java is there
	@scripts/ensure_java.sh

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "headrace needs Python 3.11, 3.12 or 3.13; none of \
	$(CANDIDATES) is one. Install one, or run: make PYTHON=/path/to/python setup" >&2; exit 1; }
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	scripts/install_lock.sh $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $(STAMP)

demo: setup ## run the demo on a local Spark
	$(BIN)/python examples/demo.py

test: setup ## run all tests
	@scripts/ensure_redis.sh || echo "The tests that need a Redis server are left out." >&2
	@scripts/ensure_chromium.sh || echo "The tests that open pages in a browser are left out." >&2
	@scripts/ensure_kafka.sh >/dev/null || echo "The tests that need a Kafka broker are left out." >&2
	@$(BIN)/headrace prepare || echo "Spark starts more slowly; nothing else depends on it." >&2
	$(BIN)/python -m pytest tests $(SIDE_BY_SIDE)

test-slow: setup ## all tests, in both places, with every master, width and peer; about two hours
	HEADRACE_SLOW=1 $(BIN)/python -m pytest tests $(SIDE_BY_SIDE) -o faulthandler_timeout=7200

check: lint types table examples ## lint, types, the import table, the examples in the docs

lint: $(STAMP) ## ruff alone
	$(BIN)/ruff check .

types: $(STAMP) ## mypy alone
	$(BIN)/mypy --num-workers 2

table: $(STAMP) ## the import table of docs/architecture.md alone
	$(BIN)/python -m pytest tests/architecture

coverage: setup ## which lines and branches the tests without Spark leave out; TESTS=... for some
	mkdir -p build/coverage
	rm -f build/coverage/data*
	$(BIN)/coverage run -m pytest $(TESTS) -m "not spark" $(SIDE_BY_SIDE) || \
	echo "Tests failed; what follows counts what they ran." >&2
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report
	@echo "Line by line: build/coverage/html/index.html"

examples: setup ## the code blocks of README and docs alone
	$(BIN)/python -m pytest tests/docs

docs: $(STAMP) ## build the site of the docs in build/docs; needs no network
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going \
	--doctree-dir build/docs-cache docs build/docs
	@echo "The site is in build/docs; open build/docs/index.html"

bench: setup ## batch pipelines beside Beam's own runner; see docs/benchmarks.md
	$(BIN)/headrace lab run micro

bench-streaming: setup ## measure streaming; see docs/benchmarks-streaming.md
	$(BIN)/headrace lab run streaming

bench-workloads: setup ## every workload on three systems, their rates side by side
	$(BIN)/headrace lab run table

lab: setup ## measure headrace and its peers from outside; see docs/guide/lab.md
	@$(BIN)/headrace lab install pyflink || echo "PyFlink is shown as absent." >&2
	$(BIN)/headrace lab run examples/lab.toml --results build/lab || test $$? -eq 2
	$(BIN)/headrace lab report $$(ls -d build/lab/*/ | tail -1)

lab-example: setup ## take a run as the example of the docs: make lab-example RUN=build/lab/TIME-compared
	test -f "$(RUN)/summary.json"
	rm -rf results/lab-example && cp -R "$(RUN)" results/lab-example && rm -f results/lab-example/report.html
	$(BIN)/headrace lab report results/lab-example
	$(BIN)/headrace lab fill results/lab-example docs/guide/choosing.md

soak: setup ## run a streaming pipeline for 20 minutes and see what grows
	$(BIN)/headrace lab run soak

chaos: setup ## 150 faults at streaming runs, about 20 minutes; see docs/chaos.md
	HEADRACE_SLOW=1 $(BIN)/python -m pytest tests/lab/experiments/faults -o faulthandler_timeout=7200
	$(BIN)/headrace lab run copies
	$(BIN)/headrace lab run faults campaign --faults 150

simulate: $(STAMP) ## 100,000 faults by schedule, without Spark; a failure is shrunk and shown
	$(BIN)/headrace lab run simulation --faults 100000 --processes 2 --save results/simulation.json

chaos-night: setup ## 1,000 faults; goes on where it was cut off; see docs/chaos.md
	$(BIN)/headrace lab run faults campaign --faults 1000 --keep-going results/chaos-campaign.jsonl \
	--save results/chaos-campaign.json --page docs/chaos.md

verify: setup ## every workload in every condition against its oracle; see docs/verification.md
	$(BIN)/headrace lab run verify

beam-suites: setup ## run Beam's own pipeline tests on headrace; see docs/beam-suites.md
	$(BIN)/headrace lab run beam-suites

chaos-kafka: setup ## Kafka to Kafka, 50 kills of driver, worker and broker; each result once
	$(BIN)/headrace lab run faults kafka --kills 50

bench-kafka: setup ## messages a second from Kafka to Kafka, beside native Spark
	$(BIN)/headrace lab run kafka

lock: $(STAMP) ## remake requirements.lock within the ranges of pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version $(LOCK_PYTHON) \
	--extra connect --extra kafka --extra lineage --extra otel --extra sql --extra stores --extra test --extra lab --extra docs --extra dev --no-emit-index-url --no-header --generate-hashes \
	--output-file requirements.lock pyproject.toml

clean: ## remove everything make and the tools have made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log artifacts
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
