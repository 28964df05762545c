# The two commands of the README: `make quickstart` and `make test`.
PYTHON ?= python3
VENV ?= .venv
PIP_FLAGS ?=
BIN := $(VENV)/bin
EXTRAS := worker,local,flower,reports,diagnose,problems,hub,sandbox,dev
# Most tests wait for processes and servers: three files at a time take half as long on two cores.
TEST_FLAGS ?= -n 3 --dist loadfile --no-loadscope-reorder
KILLS ?= 200
SEED ?= 1

.DEFAULT_GOAL := help
.PHONY: help environment quickstart test lint format bench chaos clean

help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

environment: $(VENV)/.ready  ## the environment, pinned, in .venv

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@

quickstart: $(VENV)/.ready  ## train a coordinator end to end: services, campaign, comparison, report
	$(BIN)/python manage.py quickstart

test: $(VENV)/.ready lint  ## every test that CI runs
	$(BIN)/python -m pytest $(TEST_FLAGS)

lint: $(VENV)/.ready  ## ruff, mypy, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

chaos: $(VENV)/.ready  ## kill processes at random, KILLS=200 SEED=1, and compare with an undisturbed run
	$(BIN)/python -m tests.chaos --kills $(KILLS) --seed $(SEED)

format: $(VENV)/.ready  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## forget the environment; data under var/ stays
	rm -rf $(VENV) build *.egg-info
