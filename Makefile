# `make demo` and `make test` are all a fresh machine needs: Python 3.11 or later and make.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
READY := .venv/.ready

# Each process would compile all modules anew if the environment says to keep nothing compiled.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help install demo airflow distributed pictures preflight test soak mutants bench bench-large check docs package upgrade clean

help: ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(READY) ## make .venv with the versions pinned in constraints.txt

$(INSTALLED): constraints.txt pyproject.toml .ci/environment .ci/uv.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; name one with make PYTHON=…")'
	@.ci/environment .venv "$(PYTHON)" constraints.txt editable
	@touch $@

# Where this machine has a C compiler; runs give the same without what is compiled, more slowly.
$(READY): $(INSTALLED) sitemap_etl/kernels/kernels.c
	@$(BIN)/python -m sitemap_etl.kernels || true
	@touch $@

demo: $(READY) ## a catalogue, an embedded bucket and one run of the DAG through Airflow (DAY=2: a day later; FOLDER=…: where it keeps its files)
	@$(BIN)/python -m demo.run $(if $(DAY),--day $(DAY)) $(if $(FOLDER),--home "$(FOLDER)")

airflow: $(READY) ## Airflow with its UI over the demo; Ctrl-C stops it
	@$(BIN)/python -m demo.serve

distributed: $(READY) ## a site on Celery workers, of which one dies in render and one in publish (needs redis-server)
	@$(BIN)/python -m demo.distributed

pictures: $(READY) ## the pictures of reports and of Airflow in docs/images, taken in Chromium
	@$(BIN)/python -m demo.pictures

preflight: check ## in a minute: what a change breaks although nothing is wrong; run it before each commit
	$(BIN)/python -m pytest -q -n auto -m "not thorough" $(PREFLIGHT)

# Imports, generated pages, names and words of the documentation, marks of mutants, what a command loads, forms of the state.
PREFLIGHT := $(addprefix tests/test_, $(addsuffix .py, imports words docs config_reference mutants startup records supported \
	supported_python packages examples))

test: export ALL := $(ALL)
test: $(READY) ## the tests, in minutes (P=urls: of one package; ALL=1: also those marked thorough, and all of every matrix)
	files=$$($(if $(P),$(BIN)/python -m tests.support.packages $(P),:)) && $(BIN)/python -m tests.support.session $$files

MINUTES ?= 60
# Of these CI tries a sample.
SAMPLED := $(addprefix tests/test_, $(addsuffix .py, check_strict crash exports_fuzz flips storage_faults))
soak: $(READY) ## kills, faults, races and random nights for an hour (MINUTES=5, SEED=1, JOBS=1; TRIAL=kills:12 plays one)
	$(if $(TRIAL),,ALL=1 $(BIN)/python -m pytest -q -n auto --dist loadfile $(SAMPLED))
	$(BIN)/python -m tests.model --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(if $(TRIAL),--trial $(TRIAL))

N ?= 100
mutants: $(READY) ## N=100 random mistakes made in the code: which of them does no test notice (SEED=7: the same again)
	$(BIN)/python -m tests.mutants --number $(N) $(if $(SEED),--seed $(SEED))

bench: $(READY) ## what nights cost, as ratios to a floor and to a script (minutes; bench-large: up to 100 million rows)
	$(BIN)/python bench/nights.py 5000000 --markdown
	$(BIN)/python bench/nights.py 1000000 --urls slug,sorted,unicode,real --markdown
	$(BIN)/python bench/splits.py
	$(BIN)/python -m bench.publish
	$(BIN)/python -m bench.linear
	$(BIN)/python bench/airflow.py

bench-large: $(READY)
	$(BIN)/python bench/nights.py 10000000 --rounds 1 --markdown
	$(BIN)/python bench/nights.py 100000000 --rounds 1 --no-script --markdown

check: $(READY) ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

DOCS := build/env/docs
docs: $(READY) $(DOCS)/.ready ## the documentation as a site, in build/site; a warning is an error
	$(BIN)/python -m sitemap_etl.check docs/reference/check-codes.md build/check-codes.md
	$(BIN)/python -m sitemap_etl.check docs/reference/json.md build/json.md
	$(BIN)/python -m tests.support.tested_versions docs/reference/tested-versions.md build/tested-versions.md
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet
	@! grep -rlE '<(script|link|img|iframe|source)[^>]+(src|href)="?(https?:)?//' build/site --include=*.html || (echo 'these pages load something from elsewhere'; false)

$(DOCS)/.ready: docs/requirements.txt
	@.ci/environment $(DOCS) "$(PYTHON)" docs/requirements.txt
	@touch $@

PACKAGE := build/env/package
package: $(PACKAGE)/.ready ## the sdist and its wheels, in build/package/dist: built, checked and tried
	bash .ci/package

$(PACKAGE)/.ready: .ci/package.txt
	@.ci/environment $(PACKAGE) "$(PYTHON)" .ci/package.txt
	@touch $@

upgrade: export PATH := $(CURDIR)/$(BIN):$(PATH)
upgrade: $(READY) ## resolve all pinned versions anew, and show what changed
	bash .ci/upgrade
	git diff --stat -- '*.txt'

clean: ## remove what the targets made
	rm -rf .venv .demo build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
