PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
WORKERS ?= 2

export OMP_NUM_THREADS ?= 1

.PHONY: demo test lint examples clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	touch $@

$(VENV)/.tools: $(VENV)/.installed
	$(PIP) --editable '.[test,lint]'
	touch $@

demo: export OMP_NUM_THREADS = 2
demo: $(VENV)/.installed  ## Set up from nothing, and evaluate the three built-in models at 20 strengths.
	$(BIN)/python examples/demo.py

test: $(VENV)/.tools  ## Set up from nothing, and pass all tests.
	$(BIN)/python -m pytest -n $(WORKERS)

lint: $(VENV)/.tools  ## Style, types, and which room may import which.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

examples: $(VENV)/.tools  ## Run every example.
	set -e; for example in examples/*.py; do echo "$$example"; $(BIN)/python "$$example"; done

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
