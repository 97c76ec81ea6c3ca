.PHONY: setup check test test-full bench fuzz site verdicts clean
export OMP_NUM_THREADS ?= 1

setup:
	@bash scripts/setup.sh

check: setup  ## the whole ledger at tier fast: verdict table and report.html
	.venv/bin/foretrain check --tier fast --jobs 2 --report report.html

test: setup  ## lint, types, tests
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/python -m pytest -n 2 --dist worksteal

test-full: test  ## and the longest claims, and every durability test with its whole number of tries; about 20 minutes more
	.venv/bin/python -m pytest -m full

bench: setup  ## ratios against baselines timed in the same run
	.venv/bin/python -m benchmarks

fuzz: setup  ## 110 000 broken and hostile inputs for all readers together; about 15 minutes
	nice .venv/bin/python -m fuzzing

site: setup  ## the documentation as web pages: open site/index.html
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --quiet

verdicts: setup  ## the whole ledger at tier fast, then the verdicts and figures that the documentation shows
	.venv/bin/foretrain check --tier fast --jobs 2
	.venv/bin/python -m scripts.verdicts

clean:
	rm -rf .venv runs report.html site
