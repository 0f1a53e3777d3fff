PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# More than a small machine has cores, for the tests of real processes mostly wait.
WORKERS ?= 5
# How often each contender of the benchmarks is measured.
RUNS ?= 3

.PHONY: demo test test-quick test-volume chaos lint format types docs bench bench-quick lock clean

demo: $(READY)  ## The main job at work, on SQLite
	$(BIN)/python -m example_app.demo

test: $(READY)  ## All tests but those of large amounts
	$(BIN)/python -m pytest -n $(WORKERS) -m "not volume and not alone"
	$(BIN)/python -m pytest -m "alone and not volume"

test-quick: $(READY)
	$(BIN)/python -m pytest -n auto -m "not slow and not volume and not alone"

test-volume: $(READY)  ## Large amounts of data and of processes; takes long
	$(BIN)/python -m pytest -m volume --timeout 1200

chaos: $(READY)  ## Faults at random under load, on each store in turn; CHAOS_SECONDS each, CHAOS_SEED repeats one
	CHAOS_SECONDS=$${CHAOS_SECONDS:-120} $(BIN)/python -m tests.chaos

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/codespell

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY)
	$(BIN)/mypy

docs: $(READY)
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

bench: $(READY)  ## Beside its peers and a bare loop on each store, RUNS times; some 40 minutes, on a machine that does nothing else
	$(BIN)/python -m benchmarks.run --install --runs $(RUNS) --write benchmarks/RESULTS.md

bench-quick: $(READY)  ## Beside the bare loop only
	$(BIN)/python -m benchmarks.run --quick --runs 1 --only flask_jobs --only "bare loop"

$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(READY)

lock: $(READY)  ## Renew requirements-dev.lock
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header --extra dev --output-file requirements-dev.lock pyproject.toml

clean:
	rm -rf $(VENV) .venv-bench docs/_build .mypy_cache .pytest_cache .ruff_cache .hypothesis
