# Two commands set up everything on a fresh machine: `make compare` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: compare test test-all lint docs bench fuzz kills clean

.venv/base: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) --editable '.[data]'
	@touch $@

.venv/dev: .venv/base
	$(INSTALL) --editable '.[dev]'
	@touch $@

compare: .venv/base  ## train a single network and a deep ensemble on digits, print the table, write the page
	$(BIN)/credax compare --data digits --methods single,deep-ensemble --seeds 3

# Few tests compare bits with programs compiled elsewhere, or take thousands of steps: they run with
# the compiler's optimisation.
OPTIMISED := tests/adapters/test_adapters_mlp.py tests/methods/test_hamiltonian.py tests/cli/test_old_runs.py \
	tests/functions/test_functional_gap.py

test: .venv/dev  ## everything but the slow tests
	CREDAX_TEST_OPTIMISED=1 $(BIN)/python -m pytest --quiet -m 'optimised and not slow' $(OPTIMISED)
	$(BIN)/python -m pytest --numprocesses 2 --quiet

# Work stealing keeps both workers busy to the end; a package above its budget of processor time fails.
test-all: .venv/dev  ## every test, and the processor time per package against tests/budget.toml
	CREDAX_TEST_OPTIMISED=1 $(BIN)/python -m pytest --numprocesses 2 -m optimised $(OPTIMISED)
	CREDAX_TEST_BUDGET=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m 'slow or not slow'

lint: .venv/dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

docs: .venv/dev  ## the pages, examples executed
	$(INSTALL) --editable '.[docs]'
	$(BIN)/sphinx-build --fail-on-warning --quiet docs docs/_build/html

bench: .venv/dev  ## side by side with PyTorch, ratios in one run
	$(INSTALL) --editable '.[bench]'
	$(BIN)/python benchmarks/ensemble_step.py

COUNT ?= 10000
SEED ?= 0
fuzz: .venv/dev  ## damaged files of every format through their readers; fails on any traceback
	$(BIN)/python tests/fuzz/fuzz.py --count $(COUNT) --seed $(SEED)

kills: .venv/dev  ## runs stopped by SIGKILL, SIGTERM and SIGINT at random must end with the same bytes
	$(BIN)/python tests/fuzz/kills.py --count 100 --seed $(SEED)
	$(BIN)/python tests/fuzz/process_kills.py --count 20 --seed $(SEED)
	$(BIN)/python tests/fuzz/cluster_kills.py --kills 6 --seed $(SEED)

clean:
	rm -rf .venv .jax_cache docs/_build
