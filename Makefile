# Everything a person runs. Needs Python 3.11 or newer and make; the rest is set up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
# Without compiled modules, every process of the tests and every command would compile all of them again.
unexport PYTHONDONTWRITEBYTECODE
# Python compiles what is imported, less than half of what is installed. pip would compile all of it, in one process.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile
# Of a lock file, which names whatever its packages need, two processes of pip install half of the packages each.
HALF := $(PIP) --no-deps --require-hashes -r
export DAGSTER_HOME ?= $(CURDIR)/var/dagster

.PHONY: demo showcase explore test test-deep prove faults ui bench pictures docs docs-check lint lock clean

demo: $(READY)      ## publish the built-in 1940 Massachusetts release and show what came out
	@$(BIN)/python -m orchestration.demo

showcase: $(READY)  ## publish synthetic data by every method that swaps or adds noise, and open the explorer; some minutes
	@$(BIN)/python -W ignore -m orchestration.showcase

explore: $(READY)   ## a local page on budgets, plans, published tables and the audit, on http://localhost:8600
	@$(BIN)/stirred explore

ui: $(READY)        ## the Dagster UI, with schedules and sensors, on http://localhost:3000
	@$(BIN)/python -m orchestration.ui

# Files are begun in the order that tests/conftest.py gives them.
PYTEST := $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

test: $(READY)      ## small cases of most claims: four minutes on two cores
	@$(PYTEST) -m "not deep and not prove and not fault" $(TESTS)

test-deep: $(READY) ## what CI runs: those tests and more cases, kinds of release and walks in the browser
	@$(PYTEST) -m "not prove and not fault" --durations=30 --durations-min=4 $(TESTS)

prove: $(READY)     ## exhaustive grids, many draws, a hundred examples; of a mechanism: make prove TESTS=tests/mechanisms/phsafe
	@$(PYTEST) -m prove $(TESTS)

faults: $(READY)    ## kills, full disks, tampering, launches at once, at full size; many hours; needs strace
	@$(PYTEST) -m fault $(TESTS)
	@$(BIN)/python -W ignore -m tests.faults

bench: $(READY)     ## ratios against peers and limits, written to benchmarks/results.json
	@$(PIP) --require-hashes -r requirements-bench.lock
	@$(BIN)/python -m benchmarks

pictures: $(READY)  ## the pictures in docs/ that follow from imports and asset graph; a test finds stale ones
	@$(BIN)/python -W ignore -m docs.pictures

DOCS := $(VENV)/.docs

docs: $(READY) $(DOCS)          ## the documentation site, on http://localhost:8000
	@$(MKDOCS) serve

docs-check: $(INSTALLED) $(DOCS)    ## build the site into build/site; a broken link or an orphaned page stops it
	@$(MKDOCS) build --strict

# Without a warning about a version of MkDocs that the lock rules out. `--quiet` would also hide what makes a build fail.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -W ignore -m mkdocs

$(DOCS): $(INSTALLED) requirements-docs.lock
	@$(PIP) --require-hashes -r requirements-docs.lock
	@touch $@

lint: $(INSTALLED)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras --no-header \
	--no-annotate

lock:               ## re-resolve the lock files (needs uv); pip, a cluster's image, the benchmarks and the site have their own
	$(LOCK) pyproject.toml --extra dev -o requirements.lock
	echo pip | $(LOCK) - -o requirements-pip.lock
	{ echo 'setuptools>=77'; echo '.[cluster]'; } | $(LOCK) - -c requirements.lock --no-emit-package stirred -o requirements-cluster.lock
	{ echo opendp; echo ortools; } | $(LOCK) - -c requirements.lock -o requirements-bench.lock
	{ echo 'mkdocs-material<10'; echo latex2mathml; echo 'mkdocstrings[python]'; } | $(LOCK) - -c requirements.lock -o requirements-docs.lock

clean:              ## remove the environment, not the data under var/ and published/
	rm -rf $(VENV)

# The lock's hashes cover the build tool too, so nothing unpinned is fetched.
# Python's own pip may be years old and take three times as long.
$(INSTALLED): requirements-pip.lock requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Stirred needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) \
		|| { echo "$(PYTHON) cannot make a virtual environment (Debian keeps venv in the package python3-venv)"; exit 1; }
	@echo "Setting up $(VENV) ..."
	@$(PIP) --require-hashes -r requirements-pip.lock
	@awk '/^[^ ]/ { turn = !turn } { print > ("$(VENV)/" turn ".lock") }' requirements.lock
	@$(HALF) $(VENV)/0.lock & $(HALF) $(VENV)/1.lock; ended=$$?; wait $$! && exit $$ended
	@$(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/python -m pip check -q --disable-pip-version-check
	@umask go-w && mkdir -p -m 700 $(DAGSTER_HOME) && ln -sf $(CURDIR)/dagster.yaml $(DAGSTER_HOME)/dagster.yaml
	@touch $@

# Numba keeps compiled kernels, but does not notice that one calls a kernel of another file, and that one has changed.
$(READY): $(INSTALLED) mechanisms/compilation.py $(shell grep -rl --include="*.py" "^from numba" mechanisms)
	@echo "Compiling the kernels ..."
	@find mechanisms -name "*.nb[ci]" -delete
	@$(BIN)/python -m mechanisms.compilation
	@touch $@
