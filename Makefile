PYTHON ?= python3

.PHONY: check format test slow first-install site coverage bench bench-stores

check:  ## what CI runs, in the environment that is active
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(PYTHON) -m tests.support.snippets
	$(PYTHON) -m tests.support.docs_site
	$(PYTHON) -m pytest -q -n auto --dist worksteal

format:
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

test:
	$(PYTHON) -m pytest -q -n auto --dist worksteal

slow:  ## the slow proofs, which .ci/run runs too
	$(PYTHON) -m pytest -q -n auto --dist worksteal -m "slow or hypothesis"

first-install:  ## the README's first command on a bare copy, then examples and docs in its environment
	$(PYTHON) -m tests.support.first_install

site:  ## the documentation as a site, in the folder site/
	$(PYTHON) -m tests.support.docs_site site

coverage:  ## branch coverage of all tests, a quarter of an hour
	$(PYTHON) -m pytest -q -n auto --dist worksteal -m "slow or not slow" --cov --cov-report=term:skip-covered

bench:  ## memory systems beside each other; needs DATA=folder, see docs/how-to/bench.md
	$(PYTHON) -m benchmarks memory run --data $(DATA)
	$(PYTHON) -m benchmarks memory page --data $(DATA)

bench-stores:  ## needs the extra `bench` and DATA=folder; half an hour on an idle machine
	$(PYTHON) -m benchmarks stores --data $(DATA) --json benchmarks/results/stores.json
	$(PYTHON) -m benchmarks stores-report
