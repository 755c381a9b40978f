# Two commands do all the set-up on a machine with Python 3.11 or newer and make: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: env demo test slow check site bench audit mutants mutants-generic fuzz faults browser clean

env: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/gossamer demo

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2

slow: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'slow and not gpu and not browser' --numprocesses 2

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/structure.py
	$(BIN)/python tools/prose.py
	$(BIN)/python -m pytest --doctest-modules src/gossamer --numprocesses 0
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site

site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(READY)
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/noise.py

audit: $(READY)
	$(BIN)/python -m pytest tests/attacks/test_audit.py tests/run/auditing/test_audit_loops.py tests/run/auditing/test_audit_planted.py -m "slow or not slow" --numprocesses 2
	$(BIN)/python benchmarks/published_claims.py
	$(BIN)/python benchmarks/audits.py --jobs 2

mutants: $(READY)
	$(BIN)/python tests/mutants.py

WHAT ?= gossamer.*
mutants-generic: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,mutation]'
	OMP_NUM_THREADS=1 $(BIN)/mutmut run --max-children 2 '$(WHAT)'
	$(BIN)/mutmut results

fuzz: $(READY)
	$(BIN)/python tests/data/readers/fuzz.py

faults: $(READY)
	$(BIN)/python tests/run/training/faults.py

browser: $(READY)
	$(BIN)/python -m pytest -m browser

clean:
	rm -rf $(VENV) build dist site mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis
