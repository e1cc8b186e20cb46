# Two commands do everything on a fresh machine: make run, make test.

# A deployed function runs on the Python that packages it, so prefer the newest that Lambda has.
PYTHON ?= $(shell python3.13 -c 'print("python3.13")' 2>/dev/null || echo python3)
VENV   := .venv
# The local run needs few packages; tests, lint, types, bench and histories need more. Each set has a stamp.
LOCAL  := $(VENV)/.ready-local
STAMP  := $(VENV)/.ready
ARGS   ?=
# Bytecode is kept, or each of the tests' many processes would compile the project again.
unexport PYTHONDONTWRITEBYTECODE
# Three test files at a time, in the order of tests/conftest.py.
PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder

# A measurement signs tokens that nobody reads.
MEASURE := HUBBUB_SECRET=0123456789abcdef0123456789abcdef $(VENV)/bin/python -m

# $(call install,FILE): make the environment unless it exists, and install a requirements file and the engine
# into it, so that everything works without a network afterwards.
define install
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
  { echo "Hubbub needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.13 $(MAKECMDGOALS)" >&2; exit 1; }
@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
  { echo "$(PYTHON) has no venv module. On Debian: apt-get install python3-venv" >&2; exit 1; }
@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
@echo "installing $(1) into $(VENV) (once, up to a minute)" >&2
@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $(1)
@$(VENV)/bin/python -m local.engines.dynoxide
@printf '#!/bin/sh\nexec "%s/$(VENV)/bin/python" "%s/ops/__main__.py" "$$@"\n' "$$PWD" "$$PWD" > $(VENV)/bin/hubbub
@chmod +x $(VENV)/bin/hubbub
endef

.PHONY: help setup setup-local run test test-all security lint types generate client units dearest format vendor lists bench histories soak \
  stage provision deploy destroy package rehearse clean

help:  ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 13

setup: $(STAMP)  ## Install everything for development into .venv (quick when nothing changed)

setup-local: $(LOCAL)  ## Install only what make run needs into .venv

# The development packages include the local ones, so both stamps are set.
$(STAMP): requirements.txt requirements-dev.txt requirements.lock $(wildcard local/*.txt ops/aws/*.txt ops/aws/*.lock)
	$(call install,requirements-dev.txt)
	@$(VENV)/bin/python -m ops.aws.lock
	@$(VENV)/bin/python -m ops.aws.page_bundle
	@touch $(LOCAL) $(STAMP)

$(LOCAL): requirements.txt local/requirements.txt $(wildcard ops/aws/*.txt)
	$(call install,local/requirements.txt)
	@touch $(LOCAL)

run: setup-local  ## Run the whole product on this machine; options: make run ARGS="--port 9000"
	@exec $(VENV)/bin/python -m local $(ARGS)

lint: setup  ## Check style
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check --quiet .

types: setup  ## Check types, strictly
	@$(VENV)/bin/mypy

# The types are checked beside the tests, because mypy uses only one core.
test: setup lint  ## Check style and types, and run all tests but the long ones
	@$(VENV)/bin/mypy & types=$$!; $(VENV)/bin/python -m pytest $(PARALLEL) $(ARGS); tests=$$?; \
	  wait $$types && exit $$tests

test-all: setup lint types  ## Check style and types, and run all tests, the long ones too
	@$(VENV)/bin/python -m pytest -m 'not alone' $(PARALLEL) $(ARGS)
	@$(VENV)/bin/python -m pytest -m alone $(ARGS)

security: setup  ## Run the tests of attacks, and send 500 random requests to each call (20 minutes)
	@$(VENV)/bin/python -m pytest -m security $(ARGS)

vendor:  ## Build the page's libraries in web/vendor from npm packages (needs Node)
	@cd web/vendor && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent build

LISTS = matomo-org/searchengine-and-social-list matomo-org/referrer-spam-list eggert/tz \
  mpchadwick/tracking-query-params-registry
lists: setup  ## Renew the lists of sources, spam, tracking parameters and countries (needs git and GitHub)
	@folder=$$(mktemp -d); for name in $(LISTS); do \
	  git clone -q --depth 1 https://github.com/$$name $$folder/$$name || exit 1; done; \
	  $(VENV)/bin/python -m ops.lists $$folder && rm -rf $$folder

bench: setup  ## Measure costs and times beside the published designs, and write bench/RESULTS.md (15 minutes)
	@$(VENV)/bin/python -m bench $(ARGS)

generate: client units dearest format  ## Write what is generated from the code

client: setup  ## Write the calls and types of the client from the routes
	@$(VENV)/bin/python -m ops client

dearest: setup  ## Measure the dearest request of each public call, and write the table of docs/security.md
	@$(MEASURE) tests.support.dearest

format: setup  ## Record what the stories store for the first time, in tests/data/format.json
	@HUBBUB_QUEUE=on $(MEASURE) tests.support.format

units: setup  ## Measure the units of each operation for `ops cost`, and write ops/units.json
	@$(MEASURE) tests.support.units

histories: setup  ## Run histories with faults and check every invariant; make histories ARGS="--histories 2000"
	@$(VENV)/bin/python -m tests.histories $(ARGS)

soak: setup  ## Kill the product's processes under load for ten minutes, and check every write; make soak ARGS="--minutes 60"
	@$(VENV)/bin/python -m tests.soak $(ARGS)

stage:
	@test -n "$(STAGE)" || { echo "STAGE is missing. Example: make $(firstword $(MAKECMDGOALS)) STAGE=dev" >&2; exit 2; }

provision: setup stage  ## Create or update a stage's table and queues on AWS: make provision STAGE=dev
	@$(VENV)/bin/python -m ops provision --stage $(STAGE) $(ARGS)

deploy: setup stage  ## Provision, deploy and check a stage: make deploy STAGE=dev
	@$(VENV)/bin/python -m ops deploy --stage $(STAGE) $(ARGS)

destroy: setup stage  ## Delete a stage; its data is kept unless ARGS=--delete-data
	@$(VENV)/bin/python -m ops destroy --stage $(STAGE) $(ARGS)

package: setup stage  ## Write a stage as one CloudFormation stack to out/, for a pipeline
	@$(VENV)/bin/python -m ops package --stage $(STAGE) $(ARGS)

rehearse: setup  ## Deploy to an engine on this machine with Chalice's own CLI, test the deployment, and delete it
	@$(VENV)/bin/python -m local.rehearsal $(ARGS)

clean:  ## Remove the environment and all local data
	@rm -rf $(VENV) .local
