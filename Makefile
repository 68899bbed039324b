# SPDX-FileCopyrightText: 2026 gpufleet.bringup contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# `make` lists what there is. Everything that is written goes below .cache, .run and docs/reference.

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
export PATH := $(CURDIR)/.cache/venv/bin:$(PATH)
export PYTHONPATH := $(CURDIR)/.cache
# Nothing compiled lies beside the sources. What starts Python often keeps it elsewhere (`compiled`).
export PYTHONDONTWRITEBYTECODE := 1
# Progress is shown while it happens, in a pipe or a file of CI too.
export PYTHONUNBUFFERED := 1
# A shim of a version manager in the caller's environment must not reach the tools.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPYCACHEPREFIX

# The words that are paths of files (with or without ::name): tests given by path replace the default ones.
existing = $(wildcard $(foreach word,$(1),$(firstword $(subst ::, ,$(word)))))
extra = $(if $($(1)),-e '$(2)=$($(1))')
# A rehearsal starts some dozens of Python processes: without it each would compile the collection again.
compiled = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.cache/pycache
rehearsal_variables = $(strip \
  $(call extra,NODES,gpufleet_rehearsal_nodes) \
  $(call extra,SKU,gpufleet_rehearsal_sku) \
  $(call extra,FAULTS,gpufleet_rehearsal_faults) \
  $(call extra,WORLD,gpufleet_rehearsal_world) \
  $(call extra,PLAY,gpufleet_rehearsal_play) \
  $(call extra,KEEP,gpufleet_rehearsal_keep) \
  $(call extra,FULL,gpufleet_rehearsal_full) \
  $(call extra,GATES,gpufleet_gates) \
  $(call extra,FROM,gpufleet_from_gate))

# What each target reads. Make ignores every other variable in silence: `make rehearse NODE=4` would run 8 nodes.
reads.setup-full = ONLY
reads.rehearse = NODES SKU FAULTS WORLD PLAY KEEP FULL GATES FROM ARGS
reads.rehearse-faults = SET LIFT ARGS
reads.catalog-check = DIR
reads.chart-values = CHART ARGS
reads.real-charts = DIR ARGS
reads.worlds = REHEARSE ARGS
reads.lock = UPGRADE
$(foreach target,thinning rehearse-catalogue rehearse-stop test test-long molecule check unit sanity,$(eval reads.$(target) = ARGS))
# Of make itself, and variables of the environment that may be given here as well.
environment = SHELL MAKEFLAGS GOGC GPUFLEET_% ANSIBLE_% PYTEST_% KUBECONFIG K8S_%
known = PYTHON $(sort $(foreach target,$(or $(MAKECMDGOALS),help),$(reads.$(target))))
given = $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
# A make below this one inherits the variables of the one above.
ifeq ($(MAKELEVEL),0)
unread := $(firstword $(filter-out $(known) $(environment),$(given)))
nearest = $(shell python3 -c 'import difflib, sys; print(*difflib.get_close_matches(sys.argv[1].upper(), sys.argv[2:], 1))' '$(unread)' $(known))
$(if $(unread),$(error make $(or $(MAKECMDGOALS),help) reads no variable $(unread) ($(if $(nearest),did you mean $(nearest)?,it reads: $(strip $(known)))), so nothing was done))
endif

.DEFAULT_GOAL := help
.PHONY: help
help: ## This list
	@printf 'gpufleet.bringup: targets\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{printf "  make %-15s %s\n", $$1, $$2}'
	@printf '\nVariables of make rehearse: NODES=16 SKU=h100 FAULTS=<file or id,id, or list> WORLD=<id or list> PLAY=<verb or list> KEEP=1 FULL=1 GATES=facility,nodes FROM=fabric_validation ARGS="-v"\n'

.PHONY: setup
setup: ## Virtual environment with the locked tools (PYTHON=... to choose the interpreter)
	@tools/setup

.PHONY: setup-full
setup-full: setup ## What FULL=1 runs for real (PyTorch and more: 5 GB, once for a user, in ~/.cache/gpufleet/full; ONLY=training for one set)
	@tools/setup_full $(ONLY)

.PHONY: rehearse
rehearse: setup ## Start a rehearsal cluster, run site.yml (or PLAY=) against it, print the gates and the report's path
	$(compiled) python tools/attended.py $(if $(KEEP),--keep) ansible-playbook playbooks/$(if $(filter list,$(FAULTS)),rehearse_faults.yml,$(if $(filter list,$(WORLD)),rehearse_worlds.yml,$(if $(filter list,$(PLAY)),rehearse_plays.yml,rehearse.yml))) $(rehearsal_variables) $(ARGS)

.PHONY: worlds
worlds: setup ## Judge every healthy world of rehearsal/recipes/worlds/, one line each (ARGS="id id"; REHEARSE=1: whole rehearsals)
	@python -m tools.worlds $(if $(REHEARSE),--rehearse) $(ARGS)

.PHONY: thinning
thinning: setup ## Take a piece of every kind out of a healthy run; what still passes is printed (ARGS="--only 'evidence/hosts' --each 3")
	@python tests/support/thin_all.py $(ARGS)

.PHONY: rehearse-catalogue
rehearse-catalogue: setup ## Install every recipe of the catalogue in turn on one rehearsal cluster (ARGS="--draw 12", "--only service=gke")
	@python tests/support/catalogue_bench.py $(ARGS)

.PHONY: real-charts
real-charts: setup ## Install, upgrade, put back, remove recipes with real charts that you fetched (DIR=<directory> ARGS="--only service=gke --helm PATH")
	@PYTHONPATH=$$PYTHONPATH:$$PWD python tests/support/real_charts.py $(DIR) $(ARGS)

.PHONY: rehearse-faults
rehearse-faults: setup ## Break and mend a rehearsal that was kept (SET=gpu-missing@gpu03/gpu5 LIFT=all); without both: list the faults
	@ansible-playbook -i localhost, playbooks/rehearse_faults.yml $(strip $(call extra,SET,gpufleet_rehearsal_faults) $(call extra,LIFT,gpufleet_rehearsal_lift)) $(ARGS)

.PHONY: rehearse-stop
rehearse-stop: setup ## Stop a rehearsal cluster that was kept, and remove what it left
	ansible-playbook -i localhost, playbooks/rehearse_stop.yml $(ARGS)

.PHONY: test
# More workers than cores: rehearsals wait for their clusters most of the time (with three workers two cores are idle a
# third of it). Their API servers live for a minute each: they collect garbage less often than one that stays.
test: setup ## All tests: unit, integration, rehearsal (ARGS="-k name", or paths: only those)
	@[ -e .cache/pycache ] || $(compiled) tools/compile
	$(compiled) GOGC=$${GOGC:-400} pytest -n 4 --durations=40 $(ARGS)

.PHONY: test-long
test-long: setup ## What make test leaves to the night and to a release: chains of kills, outages drawn anew, whole rolls, the real AIPerf, and molecule
	$(compiled) GPUFLEET_TEST_LONG=1 GOGC=$${GOGC:-400} pytest -n 4 --timeout 3600 --durations=40 $(ARGS)
	@tools/molecule

.PHONY: molecule
molecule: setup ## Converge hosts with systemd in podman over repositories of dummy packages (needs root and podman runc mmdebstrap; ARGS="converge")
	@tools/molecule $(ARGS)

.PHONY: check
check: setup ## Everything that is checked before a commit, with the seconds of each step (ARGS="names", or "--but names")
	@python -m tools.check $(ARGS)

.PHONY: catalog-check
catalog-check: setup ## Prove the recipe catalogue: every layer resolves, nothing dangles, nothing is decided by chance (DIR=private data)
	@python -m tools.catalog_check $(DIR)

.PHONY: chart-values
chart-values: setup ## Render a real chart with our values: unknown keys, schema errors, changed objects (CHART=<directory or archive> ARGS="--accepted DIR")
	@python -m tools.chart_values --record recipes $(CHART) $(ARGS)

.PHONY: reference
reference: setup ## Write the pages of docs/reference/: settings, checks, faults, worlds, tools, catalogue
	@python -m tools.pages $@

.PHONY: aiperf-lock
aiperf-lock: setup ## Write recipes/workloads/aiperf.txt, the digests of what AIPerf's pod installs
	@python -m tools.pages $@

.PHONY: rbac-docs
rbac-docs: setup ## Write docs/rbac/roles.yaml, the roles that gates need on a cluster
	@python -m tools.pages $@

.PHONY: awx
awx: setup ## Write the job templates, surveys and playbooks of extensions/awx/
	@python -m tools.pages $@

.PHONY: format
format: setup ## Let ruff format and mend
	ruff check --fix-only .
	ruff format .

.PHONY: lint types imports unit sanity build
lint: setup ## ruff, yamllint, codespell, ansible-lint, changelog
	@python -m tools.check format ruff yamllint codespell changelog ansible-lint
types: setup ## mypy --strict
	@python -m tools.check mypy mypy-tools
imports: setup ## The layers of the core
	@python -m tools.check imports
unit: setup ## Unit tests (ARGS="-k name", or paths: only those)
	$(compiled) pytest -n 2 $(if $(call existing,$(ARGS)),,tests/unit) $(ARGS)
sanity: setup ## ansible-test sanity, on a real copy and without an ignore file (ARGS="--test validate-modules")
	@tools/sanity $(ARGS)
build: setup ## The collection's tarball with the pages of the reference, in .cache/build
	@python -m tools.check build

.PHONY: docs
docs: setup ## What ansible-doc shows of every plugin must be complete
	@python -m tools.check docs

.PHONY: docs-site
docs-site: setup ## The documentation as a site in .cache/docs-site/html, every link and code block checked
	@tools/docs_site

.PHONY: lock
lock: setup ## Resolve requirements/*.in again, for both Pythons (needs uv; UPGRADE=1 takes newer versions)
	@tools/lock $(if $(UPGRADE),--upgrade)

.PHONY: clean
clean: ## Remove the environment, caches, copies and pages of the reference (not .run; a kept rehearsal: make rehearse-stop first)
	rm -rf .cache docs/reference
