# Two commands do everything on a fresh machine: make run, make test.

# What a deploy packages for is the Python that runs it: Lambda's newest that we know, where it is there.
PYTHON ?= $(shell python3.13 -c 'print("python3.13")' 2>/dev/null || echo python3)
VENV   := .venv
STAMP  := $(VENV)/.ready
ARGS   ?=

.PHONY: help setup run test test-all lint types openapi screenshots vendor bench proof soak bundle stage provision deploy \
  destroy package rehearse clean

help:  ## Say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(STAMP)  ## Make the environment in .venv (quick when nothing changed)

$(STAMP): requirements.txt requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Hubbub needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.13 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (about a minute, once)" >&2
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $(STAMP)

run: setup  ## Run the whole product on this machine; options: make run ARGS="--port 9000"
	@exec $(VENV)/bin/python -m local $(ARGS)

lint: setup  ## Check style
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check --quiet .

types: setup  ## Check types, strictly
	@$(VENV)/bin/mypy

test: setup lint types  ## Lint, types and every test but the long ones
	@$(VENV)/bin/python -m pytest -n 2 --dist loadfile $(ARGS)

test-all: setup lint types  ## The long ones too
	@$(VENV)/bin/python -m pytest -m '' $(ARGS)

openapi: setup  ## Write docs/openapi.json from the code
	@$(VENV)/bin/python -m ops openapi --output docs/openapi.json

screenshots: setup  ## Take the pictures of the page in docs
	@$(VENV)/bin/python -m local.screenshots $(ARGS)

vendor:  ## Make the page's libraries in web/vendor from their npm packages (needs Node)
	@cd web/vendor && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent build

bench: setup  ## Measure everything beside the published designs, and write bench/RESULTS.md (20 minutes)
	@$(VENV)/bin/python -m bench all $(ARGS)

proof: setup  ## Run faulty histories and check every invariant; make proof ARGS="--histories 2000"
	@$(VENV)/bin/python -m proof histories $(ARGS)

soak: setup  ## Run the product under load for ten minutes, kill it and its engine, then audit it; make soak ARGS="--minutes 60"
	@$(VENV)/bin/python -m bench soak $(ARGS)

bundle: setup  ## Make the package that the next deploy uploads, and list it; make bundle STAGE=dev
	@PYTHONDONTWRITEBYTECODE=1 $(VENV)/bin/python -m ops bundle --stage $(or $(STAGE),dev)

stage:
	@test -n "$(STAGE)" || { echo "which stage? as in: make $(firstword $(MAKECMDGOALS)) STAGE=dev" >&2; exit 2; }

provision: setup stage  ## Make a stage's table and queues on AWS: make provision STAGE=dev
	@$(VENV)/bin/python -m ops provision --stage $(STAGE) $(ARGS)

deploy: setup stage  ## Provision, deploy, tune and check a stage: make deploy STAGE=dev
	@$(VENV)/bin/python -m ops deploy --stage $(STAGE) $(ARGS)

destroy: setup stage  ## Take a stage away; its data only with ARGS=--delete-data
	@$(VENV)/bin/python -m ops destroy --stage $(STAGE) $(ARGS)

package: setup stage  ## Write a stage as one stack, for a pipeline, to out/
	@$(VENV)/bin/python -m ops package --stage $(STAGE) $(ARGS)

rehearse: setup  ## Deploy to an engine on this machine with Chalice's own CLI, use it, destroy it
	@$(VENV)/bin/python -m local.rehearsal $(ARGS)

clean:  ## Remove the environment and all local data
	@rm -rf $(VENV) .local
