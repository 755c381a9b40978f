# Two commands do all the set-up on a machine with Python 3.11 or newer and make: `make demo` and `make test`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Bytecode is kept, also where the shell says otherwise: without it each process compiles all tests again.
TESTED := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
# Each process takes half of the tests, in order, and later some of the other's: so the fixtures of a module are built once.
TWO := --numprocesses 2 --dist worksteal

.PHONY: env demo test quick slow coverage check site wheel bench audit mutants mutants-generic fuzz faults browser clean

env: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/gossamer demo

test: $(READY)
	$(TESTED) $(BIN)/python -m pytest $(TWO) -rs

quick: $(READY)
	$(TESTED) $(BIN)/python tools/quick.py

coverage: $(READY)
	$(TESTED) $(BIN)/python -m pytest $(TWO) --cov

slow: $(READY)
	$(TESTED) $(BIN)/python -m pytest -m 'slow and not gpu and not browser' $(TWO)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/structure.py
	$(BIN)/python tools/budget.py
	$(BIN)/python tools/prose.py
	$(BIN)/python -m pytest --doctest-modules src/gossamer --numprocesses 0
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir build/site

site: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheel: $(READY)
	rm -rf dist build/fresh
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv build/fresh
	build/fresh/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	sed -n '/^```python/,/^```/{/^```/!p}' README.md > build/fresh/readme.py
	cd build/fresh && bin/gossamer demo --out demo && bin/gossamer demo --table --out demo-table && bin/python readme.py
	build/fresh/bin/python tools/recipient.py build/fresh/demo/RELEASE build/fresh/demo-table/RELEASE
	build/fresh/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/*.tar.gz
	cd build/fresh && bin/gossamer verify demo-table/RELEASE

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
	$(BIN)/python tests/data/sources/pictures/fuzz.py

faults: $(READY)
	$(BIN)/python tests/run/training/faults.py

browser: $(READY)
	$(BIN)/python -m pytest -m browser

clean:
	rm -rf $(VENV) build dist site mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis
