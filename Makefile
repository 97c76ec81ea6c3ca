.PHONY: setup check test bench clean
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

bench: setup  ## ratios against baselines timed in the same run
	.venv/bin/python -m benchmarks

clean:
	rm -rf .venv runs report.html
