# Everything is run from a virtual environment that `make setup` creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PACKAGE := $(VENV)/.package
TOOLS := $(VENV)/.tools

.PHONY: setup demo test-quick test test-long test-lowest coverage browser java broker test-kernels fuzz lint format docs reference pictures screenshots notebook bench bench-dask experiments experiments-full clean

setup: $(TOOLS)

# The package, as its users have it.
$(PACKAGE): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	touch $(PACKAGE)

# What developers need besides. Dependency groups of pyproject.toml need a recent pip.
$(TOOLS): $(PACKAGE)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group test --group lint --group bench --group docs
	touch $(TOOLS)

demo: $(PACKAGE)
	rm -rf demo
	$(BIN)/trajcloak demo -o demo

# What a change is tried with while it is made: no browser, no cluster, nothing slow, and fewer
# examples for each property.
test-quick: setup
	$(BIN)/python -m pytest -n auto --dist worksteal \
		-m "not (browser or cluster or slow or long)" --hypothesis-profile=quick

# Tests that need a browser, Java or a broker are skipped without it, which is an error in CI.
test: setup $(if $(filter true,$(CI)),browser java broker)
	$(BIN)/python -m pytest -n auto -m "not long"

# Many repeats, such as runs that are killed at random moments.
test-long: setup
	$(BIN)/python -m pytest -n auto -m long

# The same with the lowest versions of all dependencies that pyproject.toml allows, for which
# PYTHON has to be 3.11 or 3.12. That old packages use what new ones call deprecated is no error.
LOWEST := $(VENV)-lowest
test-lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
		--editable . --group test
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST)/bin/python --group lint
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/kernels $(LOWEST)/bin/python -m pytest -n auto \
		-m "not (browser or cluster or slow or long)" --hypothesis-profile=quick \
		-W ignore::DeprecationWarning

# Which lines the tests of the quick lane run. Kernels count only where they are plain Python.
coverage: setup
	$(BIN)/python -m pip install --quiet --group coverage
	$(BIN)/python -m pytest -n auto -m "not (browser or cluster or slow or long)" \
		--hypothesis-profile=quick --cov --cov-report=
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n auto -q tests/algorithms tests/kernels \
		tests/generator tests/trajectories tests/online/test_prediction.py tests/query \
		tests/log/test_clean.py tests/test_attackers.py tests/test_parts.py tests/test_cloaks.py \
		-m "not (browser or cluster or slow or long)" \
		--hypothesis-profile=quick -W "ignore:overflow encountered:RuntimeWarning" \
		--cov --cov-append

# Install the packages $(1) where that is allowed, print the line $(2) elsewhere.
define install
if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	export DEBIAN_FRONTEND=noninteractive; apt-get update -q && \
	apt-get install -q -y --no-install-recommends $(1); \
else echo "$(strip $(2))"; fi
endef

# A browser for the tests of the report.
browser:
	@command -v chromium >/dev/null || { $(call install,chromium fonts-dejavu-core,\
		Install chromium to run the tests of the report in a browser.); }

# Java for the tests of Spark.
java:
	@version=$$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p'); \
	[ "$${version:-0}" -ge 17 ] || { $(call install,openjdk-17-jre-headless,\
		Install Java 17 or later to run the tests of Spark.); }

# An MQTT broker for the test of live feeds.
broker:
	@command -v mosquitto >/dev/null && command -v mosquitto_sub >/dev/null || { \
		$(call install,mosquitto mosquitto-clients,\
		Install mosquitto and mosquitto-clients to run the test of live feeds.); }

# The pictures of docs/report.md.
screenshots: setup browser
	PYTHONPATH=tests $(BIN)/python -m report.screenshots docs/figures

# For CI: the kernels once more, as plain Python, and compiled with their array bounds checked.
test-kernels: setup
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n auto -q tests/algorithms tests/kernels \
		--hypothesis-profile=quick -W "ignore:overflow encountered:RuntimeWarning"
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)/boundscheck \
		$(BIN)/python -m pytest -n auto -q tests/algorithms tests/kernels --hypothesis-profile=quick

# A coverage-guided fuzzer on the readers: so many inputs for each of them. It is installed on its
# own, since not every platform has it.
FUZZ_RUNS ?= 1500
fuzz: setup
	$(BIN)/python -m pip install --quiet --group fuzz || echo "fuzz: atheris cannot be installed here"
	$(BIN)/python -m fuzz.run --runs $(FUZZ_RUNS)

# The site, from docs/ to build/site; a warning, such as of a broken link, is an error.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The reference of the commands, which a test compares with the commands.
reference: setup
	$(BIN)/python -m docs.tools.commands

# The pictures of the guarantee and the gallery, drawn from a generated city.
pictures: setup
	$(BIN)/python -m docs.tools.pictures

# The notebook once more, with its outputs stored in it.
notebook: setup
	$(BIN)/python -m docs.tools.notebook

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
	$(BIN)/python benchmarks/parts.py $(foreach path,$(NETWORKS),--network $(path))
	$(BIN)/python benchmarks/windows.py
	$(BIN)/python benchmarks/online.py
	$(BIN)/python benchmarks/cold.py

# The dask engine on processes of this machine, against the memory engine, and Spark against dask;
# with small pages, which the command line asks for, too.
bench-dask: export NUMPY_MADVISE_HUGEPAGE = 0
bench-dask: setup
	$(BIN)/python benchmarks/cluster.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/windows.py --engine dask
	$(BIN)/python benchmarks/windows.py --engine spark

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
	rm -rf $(VENV) $(LOWEST) .cache demo build dist benchmarks/results experiments/results
