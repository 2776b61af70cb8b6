# Every target sets up what it needs first; a fresh machine needs only Python 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP := $(VENV)/.installed
SECONDS_EACH ?= 60
SEED ?= 1
SEEDS ?= 1000
FIRST ?= 0
KILLS ?= 1000
REQUESTS ?= 200000
JOBS ?= 2
ORDER ?= 0
TIMES ?= 20

# Where Python is told to write no bytecode, each process of pytest would compile its plugins anew,
# of which this package is one: five seconds. As in tests/conftest.py, which comes too late for them.
ifneq ($(PYTHONDONTWRITEBYTECODE),)
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX ?= $(CURDIR)/.pytest_cache/bytecode
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo start test test-again test-kube test-operators operators test-pack test-names test-pythons test-rules mutants lint format docs dist bench bench-e2e kube-assets figures kube-suites test-conformance oracle fuzz dst attack kept clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { line = sprintf("%-17s", $$1); n = split($$2, word, " "); \
		for (i = 1; i <= n; i++) { if (length(line) + length(word[i]) > 78) { print line; \
		line = sprintf("%-17s", "") } line = line " " word[i] } print line }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with bayplan and all that tests need

# Only what running needs, so that the first minute is short: no pip of its own where the one of
# $(PYTHON) can install into it, nothing built, nothing compiled that is not used.
$(RUNTIME): pyproject.toml constraints.txt hack/install-runtime
	@$(PYTHON) hack/install-runtime $(VENV)
	@touch $@

$(STAMP): $(RUNTIME)
	@echo "installing the tools of tests and development, once: about a minute"
	$(BIN)/python -m ensurepip 2>/dev/null || $(PYTHON) -m pip --python $(BIN)/python install --quiet "pip>=25.1"
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --group dev
	touch $@

demo: $(RUNTIME) ## place a small workload and see why (sets up .venv first)
	$(BIN)/bayplan demo

start: $(RUNTIME) ## start the control plane and run the scenario of mini-kube-scheduler on it
	$(BIN)/python examples/minisched_scenario.py

test: $(STAMP) ## run the tests in a random order (ORDER=7 for one again, none for that of the files; under ten minutes)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(if $(filter-out none,$(ORDER)),--order-seed $(ORDER)) -m "not kube and not operators and not long" tests

test-again: $(STAMP) ## run the tests TIMES=20 times, every other time six at once, until one fails
	$(BIN)/python hack/test-again --times $(TIMES)

test-kube: $(STAMP) ## run tests on the real kube-apiserver, kube-scheduler and etcd, and those that take long
	KUBEBUILDER_ASSETS="$$(hack/kube-assets --where)" $(BIN)/python -m pytest -n 2 --dist loadfile -m "kube or long" tests

test-operators: $(STAMP) operators ## run programs of others (KWOK, ...) unmodified on our API server
	KUBEBUILDER_ASSETS="$$(hack/kube-assets --where)" $(BIN)/python -m pytest -m operators tests/kube

test-names: $(STAMP) ## collect the tests twice: their names must not change from run to run
	$(BIN)/python hack/check-test-names

mutants: $(STAMP) ## plant faults in a sample of the source; tests must notice as many as before (ARGS=engine)
	$(BIN)/python -m tests.mutation $(ARGS)

test-pack: $(STAMP) ## compare packing with trying everything (2,000 cases) and solve 500 hard gangs
	BAYPLAN_PACK_CASES=2000 BAYPLAN_PACK_HARD=500 BAYPLAN_PACK_SECONDS=1 \
	$(BIN)/python -m pytest -s --timeout 7200 tests/pack

test-pythons: $(STAMP) ## run the demo and quick tests under every Python 3.11 to 3.14 at hand (PYTHONS names more)
	$(BIN)/python hack/test-pythons $(ARGS)

test-rules: ## try the alert rules with Prometheus' promtool, which is built first
	cd deploy/monitoring && tool="$$(../../hack/promtool)" && "$$tool" check rules alerts.yaml && "$$tool" test rules alerts_test.yaml

kube-assets: ## build the real Kubernetes programs into a cache outside the checkout
	hack/kube-assets

operators: ## build programs of others that make test-operators runs; takes a while (ARGS=kwok for one)
	hack/operators $(ARGS)

kube-suites: ## build Kubernetes' own test suites (e2e.test, test/cmd) into the same cache
	hack/kube-suites

oracle: ## build the real scheduler that answers decision cases (KUBE_VERSION=1.37.1 for another)
	hack/build-oracle

fuzz: $(STAMP) ## compare random cases with the real scheduler for a while (SECONDS_EACH=60, SEED=1, KUBE_VERSION)
	$(BIN)/bayplan conformance fuzz --oracle "$$(hack/build-oracle)" --cases 1000000 --seconds $(SECONDS_EACH) --seed $(SEED)

dst: $(STAMP) ## run the whole system on virtual time while everything fails (SEEDS=1000, FIRST=0, JOBS=2, ARGS=--seconds=600)
	$(BIN)/bayplan-dst --seeds $(SEEDS) --first $(FIRST) --jobs $(JOBS) $(ARGS)

attack: $(STAMP) ## SIGKILLs, random requests, load in volume (KILLS=1000, REQUESTS=200000, SEED=1, ARGS="--only fuzz,load")
	KUBEBUILDER_ASSETS="$$(hack/kube-assets --where)" $(BIN)/python -m tests.attack --kills $(KILLS) --requests $(REQUESTS) --seed $(SEED) $(ARGS)

kept: $(STAMP) ## 20,000 random decisions of an engine that keeps answers, against one that keeps nothing (SEED=1)
	$(BIN)/bayplan conformance kept --decisions 20000 --seed $(SEED)

test-conformance: $(STAMP) ## run Kubernetes' own suites (make kube-suites) on bayplan up
	$(BIN)/python hack/test-conformance $(ARGS)

lint: $(STAMP) ## ruff, mypy strict, import contracts, types and style of the page (hack/lint-page --install)
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports
	hack/lint-page

format: $(STAMP) ## let ruff rewrite the sources
	$(BIN)/ruff check --fix src tests bench
	$(BIN)/ruff format src tests bench

docs: $(STAMP) ## build the documentation as a site into site/VERSION, without a warning
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir "site/$$($(BIN)/bayplan --version | sed 's/.* //')"
	$(BIN)/python hack/docs_versions.py site

dist: $(STAMP) ## build wheel, sdist and krew archive into dist/, check them, and run the wheel in an empty environment
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python hack/check-dist dist
	$(BIN)/python hack/krew dist

bench: $(STAMP) ## decide-only benchmark of the engine
	$(BIN)/python bench/decide.py

bench-e2e: $(STAMP) ## kube-scheduler and Bayplan on a real kube-apiserver with 5,000 nodes
	KUBEBUILDER_ASSETS="$$(hack/kube-assets --where)" $(BIN)/python bench/e2e.py $(ARGS)

figures: $(STAMP) ## measure packing and the page (a quarter of an hour on a quiet machine) and fill their tables in
	$(BIN)/python bench/pack.py --json docs/results/pack.json
	$(BIN)/python bench/page.py --json docs/results/page.json
	$(BIN)/python bench/figures.py docs/reference/packing.md docs/how-to/page.md

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
