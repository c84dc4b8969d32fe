# Every target sets up what it needs. The set-up is stamped, so it runs again only when its inputs change.

PYTHON ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
SEEDS ?= 200
# What is not the same for root and others: processes and what they may see of each other, users, folders, servers.
USER_TESTS ?= tests/work/keeper tests/work/functions tests/work/executors/test_command.py tests/servers tests/artifacts \
    tests/cli/test_up.py tests/node/test_commands.py tests/node/test_hostile_commands.py tests/node/test_processes.py tests/node/test_secrets.py
CHAOS_ARGS ?=

BIN := .venv/bin
CODE := $(wildcard src tests bench examples scripts)
# Asking for another PYTHON= asks for another stamp, and so for a new environment.
READY := .venv/.ready$(if $(PYTHON),-$(subst /,_,$(PYTHON)))

# The tests start thousands of processes; without the byte code on disk each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
TARGETS := help up test test-slow test-user check demo bench sim chaos fmt clean
# Other words after `bench` name what is measured: `make bench search`. As targets they need nothing but that.
MEASURED := $(if $(filter bench,$(firstword $(MAKECMDGOALS))),$(filter-out $(TARGETS),$(MAKECMDGOALS)))
.PHONY: $(TARGETS) $(MEASURED)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  Variables: PYTHON=python3.12  PYTEST_ARGS="-k retry -n 0"  BENCH_ARGS=...  SEEDS=1000  CHAOS_ARGS=--all'

up: $(READY) ## start rota with the example tasks (stop with Ctrl-C)
	@echo 'rota starts. In a second terminal, try:'
	@echo '  $(BIN)/rota run -- echo hello'
	@echo "  $(BIN)/rota submit hello '{\"name\": \"you\"}'"
	@echo "  $(BIN)/rota schedule add tick 'every 10s' -- date"
	@echo '  $(BIN)/rota job list'
	@echo 'Stop with Ctrl-C.'
	@$(BIN)/rota up --app examples.hello:app

test: $(READY) ## run the tests, in a process more than there are cores: many of them wait (PYTEST_ARGS=...)
	$(BIN)/pytest -n $$(($$(nproc) + 1)) --dist worksteal $(PYTEST_ARGS)

test-slow: $(READY) ## run the tests that take long: simulation, large tables, many processes
	$(BIN)/pytest -n $$(($$(nproc) + 1)) --dist worksteal -m "slow and not chaos" $(PYTEST_ARGS)

test-user: $(READY) ## if we are root: run the tests that differ as an ordinary user too
	@scripts/test-user -m "not chaos" $(USER_TESTS) $(PYTEST_ARGS)

check: $(READY) ## lint, formatting, types, import layers, hygiene
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/hygiene.py

demo: $(READY) ## watch the life of a few jobs
	@$(BIN)/python examples/demo.py

bench: $(READY) ## measure the speed (BENCH_ARGS=..., or `make bench search`)
	@$(BIN)/python -m bench $(MEASURED) $(BENCH_ARGS)

$(MEASURED): bench
	@:

sim: $(READY) ## run the whole system in simulated time, and hunt the mutants that need long (SEEDS=...)
	@$(BIN)/python -m tests.sim --seeds $(SEEDS)
	@$(BIN)/pytest -n auto -m chaos -o faulthandler_timeout=900 tests/sim

chaos: $(READY) ## kill, stop and cut off real nodes and a real PostgreSQL under load (CHAOS_ARGS=...)
	@$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

fmt: $(READY) ## sort imports, apply safe fixes, format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean: ## remove the environment, caches and builds
	rm -rf .venv .venv-peers .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A candidate must run, not just exist: shims of version managers stand on PATH and fail when called.
PROBE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))

# --clear takes the old stamps away first and the new ones are set last, so an interrupted set-up starts anew.
# -qq still shows errors. Byte code is left to the first import: that saves a third of the time.
$(READY): pyproject.toml constraints.txt
	@found=; for name in $(or $(PYTHON),python3.13 python3.12 python3.11 python3); do \
	    IFS=:; for folder in $$PATH; do \
	        case $$name in */*) python=$$name ;; *) python=$$folder/$$name ;; esac; \
	        if [ -x "$$python" ] && "$$python" -c '$(PROBE)' 2>/dev/null; then found=$$python; break 2; fi; \
	    done; \
	done; \
	if [ -z "$$found" ]; then \
	    echo 'rota needs Python 3.11 or newer with venv; $(or $(PYTHON),PATH) offers none. Try: make PYTHON=/path/to/python3' >&2; \
	    exit 1; \
	fi; \
	echo "Setting up .venv with $$("$$found" --version), once; this takes some twenty seconds." && \
	"$$found" -m venv --clear .venv && \
	PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq --no-compile -c constraints.txt -e '.[dev]' && \
	touch .venv/.ready $@
