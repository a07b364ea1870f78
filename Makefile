PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
WORKERS ?= 2
LOWEST := .venv-lowest
ZOOS := .venv-zoos
CORE := .venv-core
EXAMPLES := $(wildcard examples/*.py)
LEANING := $(wildcard tests/test_outcomes_*.py) $(wildcard tests/test_bad_*.py) tests/test_datasets.py tests/test_defenses.py \
	tests/test_metrics_accuracies.py tests/test_metrics_cli.py tests/test_metrics_compare.py tests/test_models.py tests/test_noise.py \
	tests/test_report_figures.py tests/test_report_page.py
INTERPRETED := $(LEANING) $(wildcard tests/test_optimizer*.py) tests/test_board.py $(wildcard tests/test_classifier*.py) tests/test_cli.py \
	tests/test_display.py tests/test_draws.py tests/test_evaluation_linear.py tests/test_metrics_curves.py \
	tests/test_references.py tests/test_search_minimum.py tests/test_threats_lp.py

export OMP_NUM_THREADS ?= 1
# Tests start dozens of processes: what the first compiles, the others read.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all quick slowest test-gpu lowest core zoos lint examples $(EXAMPLES) board docs release clean

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

REST := slow or process or browser or device

# Each worker begins with a run of files, so that what they share is made once; who ends first takes over half the rest.
test: $(VENV)/.tools  ## Set up from nothing, and pass the tests, all but slow ones and those of processes, browsers and accelerators.
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not ($(REST))"

test-all: test  ## Pass all tests.
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "$(REST)"

quick: $(VENV)/.tools  ## Each room and each door once, in 90 seconds: while one works (tests/quick.toml says what).
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $$($(BIN)/python tests/quick.py)

slowest: $(VENV)/.tools  ## Pass all tests, and name the fifty that take longest.
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=50 --durations-min=0.5

test-gpu: export ROBUSTATLAS_TEST_GPU = 1
test-gpu: $(VENV)/.tools  ## Set up from nothing, and pass the tests of a GPU.
	$(BIN)/python -m pytest -n $(WORKERS) tests/test_gpu.py tests/test_threats_everywhere.py

$(LOWEST)/.tools: pyproject.toml constraints.txt constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --constraint constraints.txt --constraint constraints-lowest.txt \
		--editable . pytest pytest-xdist hypothesis scikit-learn
	touch $@

lowest: $(LOWEST)/.tools  ## Pass the tests that lean on other packages most, with the lowest declared versions of them.
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) $(LEANING)

$(CORE)/.tools: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/python -m pip install --quiet --constraint constraints.txt --editable . pytest pytest-xdist hypothesis \
		scikit-learn moocore foolbox==3.3.4 pyautoattack==0.2.0
	touch $@

core: $(CORE)/.tools  ## Pass the tests of everything that is computed, with another Python (PYTHON=python3.13).
	$(CORE)/bin/python -m pytest -n $(WORKERS) $(INTERPRETED)

$(ZOOS)/.tools: pyproject.toml constraints.txt constraints-zoos.txt
	$(PYTHON) -m venv $(ZOOS)
	$(ZOOS)/bin/python -m pip install --quiet --constraint constraints.txt --constraint constraints-zoos.txt \
		--editable '.[jax,onnx,transformers,train,lightning]' onnxscript tensorflow-cpu pytest pytest-xdist hypothesis foolbox==3.3.4 $(MORE)
	touch $@

# The lowest transformers fails beside Keras 3 where it finds TensorFlow.
zoos: export USE_TF = 0
zoos: $(ZOOS)/.tools  ## Pass the tests of models of other zoos and frameworks (MORE='timm torchvision open_clip_torch': where torchvision fits the torch; elsewhere it breaks transformers too).
	$(ZOOS)/bin/python -m pytest -n $(WORKERS) tests/test_frameworks.py tests/test_sources.py tests/test_preprocessing.py tests/test_sources_onnx.py \
		tests/test_zero_shot.py tests/test_callbacks.py tests/test_docs.py -k 'not guide_on_runs and not takes_the_command'

lint: $(VENV)/.tools  ## Style, types, which room may import which, and whether pages say what the code says.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy examples
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n $(WORKERS) tests/style

examples: $(EXAMPLES)  ## Run every example.

$(EXAMPLES): $(VENV)/.tools
	$(BIN)/python $@

board: $(VENV)/.installed  ## Train, refer, evaluate and rank a board of our own (hours), and ship its tables.
	$(BIN)/python scripts/make_board.py --out build/board --workers $(WORKERS) --ship docs/board

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) --editable '.[docs]'
	touch $@

docs: $(VENV)/.docs  ## Build the documentation into docs/_build/html: every example runs, every link inside is followed.
	$(BIN)/python docs/_tools/examples.py
	$(BIN)/python -m sphinx --builder html --fail-on-warning --keep-going --quiet docs docs/_build/html
	$(BIN)/python docs/_tools/check_site.py docs/_build/html

release: $(VENV)/.installed  ## Build sdist and wheel into dist/, check both, and run the README's tour with the wheel in a fresh environment.
	$(PIP) build hatchling twine
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	PYTHON=$(PYTHON) TWINE=$(BIN)/twine scripts/check_release.sh dist

clean:
	rm -rf $(VENV) $(LOWEST) $(CORE) $(ZOOS) docs/_build dist .mypy_cache .pytest_cache .ruff_cache
