# Odradek: every task of the project. `make` alone lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help serve test test-cluster setup check format fast unit slow lock docker-test
.PHONY: bench bench-quick bench-parts types clean pipeline spark-test sim test-spark test-suites

BIN := .venv/bin
PACKAGES := protocol client storage controller replication broker spark_jobs testing
PYTEST := $(BIN)/pytest -q
SIDE_BY_SIDE := -n 2 --dist loadgroup
REAL_SERVERS := tests/behaviours tests/clients tests/integration
# Looked for only until there is an environment; find-python explains itself when there is none.
FIND_PYTHON = if [ -x $(BIN)/python ] && [ -x $(BIN)/pip ]; then python=$(BIN)/python; \
	else python=$$(scripts/find-python) || exit 1; fi;

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: .runtime ## run a broker on port 9092; needs nothing but Python
	@exec $(BIN)/odradek serve $(ARGS)

test: setup check ## set up all that tests need, check, and run all tests
	@echo "unit tests"; ODRADEK_ALL_EXAMPLES=1 $(PYTEST) $(SIDE_BY_SIDE) tests/unit tests/tidy
	@echo "simulated clusters"; $(PYTEST) -n 2 tests/sim
	@echo "long tests"; $(PYTEST) -n 2 tests/long
	@echo "tests on real servers"; $(PYTEST) $(SIDE_BY_SIDE) $(REAL_SERVERS)
	@echo "clusters on ZooKeeper"; $(PYTEST) tests/cluster
	@echo "Spark"; $(PYTEST) $(SIDE_BY_SIDE) tests/spark
	@echo "other people's suites"; $(PYTEST) -n 4 --dist loadgroup tests/conformance

sim: .dev ## a thousand stories of a simulated cluster under faults (docs/simulation.md)
	@$(PYTEST) -n 2 tests/sim

test-spark: setup ## sources, sinks and jobs on a real Spark
	@$(PYTEST) $(SIDE_BY_SIDE) tests/spark

test-suites: setup ## other people's test suites, those that take minutes
	@$(PYTEST) -n 4 --dist loadgroup tests/conformance

docker-test: .dev ## build the images and show them at work, as root (docs/docker.md)
	@docker/verify $(ARGS)

test-cluster: setup ## kill, freeze and restart brokers of a cluster on ZooKeeper
	@$(PYTEST) tests/cluster

conformance: setup ## run other people's test suites; ARGS="--suite kgo --on kafka" for one
	@$(BIN)/python -m tests.conformance $(ARGS)

setup: .dev ## make the environment, find or install Java, Go, Node, kcat, fetch Kafka's jars
	@$(BIN)/python -m scripts.setup

check: .dev types ## lint, format check, strict types, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/mypy $(PACKAGES:%=-p odradek.%)
	@$(BIN)/mypy -p scripts -p tests.support -p tests.conformance -p benchmarks
	@$(BIN)/lint-imports --no-logo

format: .dev ## let ruff fix and format
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

pipeline: setup ## run the Spark pipeline on a broker of its own: log, events, counts
	@$(BIN)/python -m scripts.pipeline

spark-test: setup ## kill a Spark driver ten times in a million records, and all else of tests/spark
	@ODRADEK_SPARK_RECORDS=1000000 ODRADEK_SPARK_KILLS=10 $(PYTEST) --durations=20 tests/spark

fast: .dev ## unit tests and tidiness, in under a minute
	@$(PYTEST) $(SIDE_BY_SIDE) tests/unit tests/tidy

bench: setup ## Odradek beside its peers, 40 minutes; report in benchmarks/results
	@$(BIN)/python -m benchmarks.grid $(ARGS)

bench-quick: setup ## the same with small numbers, to see that it runs: build/bench/grid
	@$(BIN)/python -m benchmarks.grid --quick $(ARGS)

bench-parts: .dev ## the benchmarks of single parts, JSON into build/bench
	@$(BIN)/python -m benchmarks $(ARGS)

lock: .dev ## renew requirements/dev.lock from the ranges in pyproject.toml
	@$(BIN)/python -m scripts.lock

clean: ## remove everything that can be made again, except downloads in .cache
	@rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The folders as they will be imported, for the type checker: build/types/odradek/<folder>.
types:
	@mkdir -p build/types/odradek
	@for package in $(PACKAGES); do \
		ln -sfn ../../../$$package build/types/odradek/$$package; done

.PHONY: .runtime .dev
.runtime .dev:
	@$(FIND_PYTHON) $$python scripts/environment.py $(@:.%=%)
