# Two commands do everything on a fresh machine: `make run` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ONLY ?=

.PHONY: help run test lint check bench bloat soak clean lock

help: ## Show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(READY): pyproject.toml requirements/dev.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

run: $(READY) ## Start the engine with the example application
	@$(BIN)/mainspring dev examples.tour:app

test: $(READY) ## Run all tests
	@tests/get-packages.sh pgbouncer pgbouncer
	@tests/get-packages.sh containers runc busybox-static
	@tests/get-packages.sh podman podman conmon netavark
	@$(BIN)/python -m pytest -n 3 --dist worksteal

lint: $(READY) ## Format, lint, types, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@if command -v node >/dev/null; then for script in src/mainspring/api/browser/*.mjs; do node --check $$script || exit 1; done; fi

check: lint test ## Everything CI does

bench: $(READY) ## Measure against the peers (installs them; about 25 minutes); ONLY=postgres for a family, http, types, or names
	@$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements/bench.txt
	@if command -v npm >/dev/null; then npm ci --silent --no-audit --no-fund --prefix bench/peers/graphile; fi
	@tests/get-packages.sh containers runc busybox-static
	@$(BIN)/python -m bench.compare --out bench/results/latest.json --only '$(ONLY)'

bloat: $(READY) ## Old snapshots, ten minutes of full speed and killed nodes on PostgreSQL (about 15 minutes)
	@$(BIN)/python -m bench.bloat --out bench/results/bloat.json

soak: $(READY) ## Faults at random for ten minutes on each store, from a printed seed (SOAK_SECONDS, SOAK_SEED)
	@$(BIN)/python -m pytest tests/faults/test_soak.py --soak

lock: ## Pin the dependencies again
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --group dev pyproject.toml -o requirements/dev.txt
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --extra bench pyproject.toml -o requirements/bench.txt

clean: ## Remove what the commands above made
	@rm -rf $(VENV) .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis bench/results bench/peers/graphile/node_modules mainspring.db*
