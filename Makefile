# Everything is run from a virtual environment that `make setup` creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test test-kernels fuzz lint format bench bench-dask experiments \
	experiments-full clean

setup: $(STAMP)

# The dependency groups of pyproject.toml need a recent pip, so it is upgraded first.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group test --group lint --group bench
	touch $(STAMP)

demo: setup
	rm -rf demo
	$(BIN)/trajcloak demo -o demo

test: setup
	$(BIN)/python -m pytest -n auto

# The kernels once more, as plain Python, and compiled with their array bounds checked.
test-kernels: setup
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n auto -q tests/algorithms tests/kernels \
		-W "ignore:overflow encountered:RuntimeWarning"
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/boundscheck \
		$(BIN)/python -m pytest -n auto -q tests/algorithms tests/kernels

# A coverage-guided fuzzer on the readers: so many inputs for each of them, drawn in the same way
# each time. It is installed on its own, since not every platform has it.
FUZZ_RUNS ?= 1500
fuzz: setup
	$(BIN)/python -m pip install --quiet --group fuzz || echo "fuzz: atheris cannot be installed here"
	$(BIN)/python -m fuzz.run --runs $(FUZZ_RUNS)

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# NETWORKS: road networks to compare on besides the embedded city, as `trajcloak generate` takes them.
bench: setup
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/refined.py $(foreach path,$(NETWORKS),--network $(path))

# The dask engine on processes of this machine, against the local one.
bench-dask: setup
	$(BIN)/python benchmarks/cluster.py

# The paper's figures. What was measured before is not measured again.
experiments: setup
	$(BIN)/python -m experiments.run small
	$(BIN)/python -m experiments.plot experiments/results/small -o docs/figures

# The same at the paper's sizes: some hours. Its figures stay beside its results, since
# docs/experiments.md speaks of those above.
experiments-full: setup
	$(BIN)/python -m experiments.run full
	$(BIN)/python -m experiments.plot experiments/results/full -o experiments/results/full/figures

clean:
	rm -rf $(VENV) demo build dist benchmarks/results experiments/results
