# The front door. `make demo` and `make test` set up what they need on a fresh Debian 12; both are
# cheap to run again. Everything lands in .venv/ and build/.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= $(firstword $(foreach name,python3.11 python3,$(shell command -v $(name))) python3)
JOBS ?= $(shell nproc)
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
# Set to an index of CPU builds of PyTorch where the configured one has none.
TORCH_INDEX ?=
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
WERROR := $(if $(CI),ON,OFF)
CPP_FILES = $(shell git ls-files -co --exclude-standard '*.cpp' '*.hpp')
UNIT_TESTS := tests/unit/poptorch_unit_tests

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

$(VENV)/.runtime: requirements.txt
	@tools/install_system_packages.sh $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "[set-up] Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "[set-up] Python packages for the build and the demo, into $(VENV)"
	@# torch first and by itself: whatever depends on torch would otherwise pull its CUDA build.
	@$(PIP) install torch==2.13.0 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@$(PIP) install -r requirements.txt
	@touch $@

$(VENV)/.development: requirements-dev.txt $(VENV)/.runtime
	@tools/install_system_packages.sh $(PYTHON) development
	@echo "[set-up] Python packages for tests, lint and docs, into $(VENV)"
	@$(PIP) install -r requirements-dev.txt
	@touch $@

$(VENV)/.fuzzing: requirements-fuzz.txt $(VENV)/.development
	@tools/install_system_packages.sh $(PYTHON) fuzz
	@$(PIP) install -r requirements-fuzz.txt
	@touch $@

# A stale precompiled header would be part of its successor's key in ccache, which then has no file.
build/.configured-$(WERROR): $(VENV)/.runtime
	@mkdir -p build && find build -name '*.gch' -delete
	cmake -G Ninja -B build -DPython_EXECUTABLE=$(BIN)/python -DPOPTORCH_WERROR=$(WERROR)
	@rm -f build/.configured-* && touch $@

native: build/.configured-$(WERROR) ## compile what changed
	ninja -C build -j $(JOBS)

# The wheel is made from the built tree: nothing is compiled twice, and nothing is done when neither
# the libraries nor the Python sources changed.
install: native ## install the package into .venv
	@if [ ! -e $(VENV)/.installed ] || [ -n "$$(find python setup.py pyproject.toml \
	    poptorch_cpp/include build/python -newer $(VENV)/.installed -type f -not -name '*.pyc' -print -quit)" ]; then \
	  echo "[install] poptorch into $(VENV)"; rm -rf build/pip; \
	  POPTORCH_BUILD_DIR=$(CURDIR)/build $(PIP) install --no-build-isolation --no-deps . && \
	  touch $(VENV)/.installed; fi

demo: install ## build, install and train the example network
	$(BIN)/python examples/python/mnist.py

test: install $(VENV)/.development ## set up, build, install and run every test
	ctest --test-dir build --output-on-failure -j $(JOBS)
	$(BIN)/python -m pytest -n 2 tests
	$(BIN)/python -m pytest -n 2 --config third tests/behaviour

test-fast: native ## the core's unit and golden tests
	build/$(UNIT_TESTS) --gtest_brief=1

# Every sample of PyTorch's own tables; writes docs/torch-ops.md and docs/refused-ops.md.
test-ops: native $(VENV)/.development ## OpInfo and ModuleInfo whole, against eager torch
	PYTHONPATH=build/python $(BIN)/python tests/survey/run.py --jobs $(JOBS)

# SHARE of the counts of a whole night.
SHARE ?= 1
nightly: native $(VENV)/.fuzzing ## what takes hours: a table with the figures of the run
	$(BIN)/python tests/nightly/run.py --share $(SHARE)

golden: native ## rewrite the expectations of tests/ir
	POPTORCH_REWRITE_GOLDEN=1 build/$(UNIT_TESTS) --gtest_brief=1

stubs: native $(VENV)/.development ## rewrite the type stubs of the native modules and of the options
	PYTHONPATH=build/python $(BIN)/python tools/write_stubs.py
	PYTHONPATH=build/python $(BIN)/python tools/write_option_types.py

bench: install $(VENV)/.development ## measure against eager, torch.compile and (if installed) JAX
	$(BIN)/python -m benchmarks.run

wheel: native ## put a wheel into dist/
	@rm -rf build/pip
	POPTORCH_BUILD_DIR=$(CURDIR)/build $(PIP) wheel --no-build-isolation --no-deps -w dist .
	@ls dist

format: $(VENV)/.development ## format all sources
	@$(BIN)/clang-format -i $(CPP_FILES)
	@$(BIN)/ruff check --quiet --fix . && $(BIN)/ruff format --quiet .

lint: $(VENV)/.development ## formatting, Python lint and types, layers, lengths
	@$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)
	$(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/python tools/check_layers.py
	$(BIN)/python tools/check_sources.py

define sanitized
	cmake -G Ninja -B build-$(1) -DPython_EXECUTABLE=$(BIN)/python -DPOPTORCH_TORCH=OFF \
	  -DPOPTORCH_SANITIZE=$(2)
	ninja -C build-$(1) -j $(JOBS) poptorch_unit_tests
	build-$(1)/$(UNIT_TESTS) --gtest_brief=1
endef

asan: $(VENV)/.runtime ## unit tests under the address and undefined-behaviour sanitizers
	$(call sanitized,asan,address$(comma)undefined)

tsan: $(VENV)/.runtime ## unit tests under the thread sanitizer
	$(call sanitized,tsan,thread)

# libFuzzer with the address and undefined-behaviour sanitizers on the texts of IR and programs and on
# files of executables, and atheris on texts of options: RUNS executions each. What is found is left in the folder that it names.
FUZZ := build-fuzz
RUNS ?= 20000
fuzz: native $(VENV)/.fuzzing ## run the fuzzers of tests/fuzz, RUNS executions each
	cmake -G Ninja -B $(FUZZ) -DPython_EXECUTABLE=$(BIN)/python -DCMAKE_CXX_COMPILER=clang++-16 \
	  -DPOPTORCH_TORCH=OFF -DPOPTORCH_TESTS=OFF -DPOPTORCH_FUZZ=ON \
	  -DPOPTORCH_SANITIZE=address$(comma)undefined
	ninja -C $(FUZZ) -j $(JOBS) fuzz_ir fuzz_program fuzz_executable
	$(BIN)/python tools/fuzz_seeds.py $(FUZZ)/seeds
	for target in ir program executable; do mkdir -p $(FUZZ)/{found,seeds}/$$target && \
	  POPTORCH_LOG_LEVEL=OFF $(FUZZ)/tests/fuzz/fuzz_$$target -runs=$(RUNS) -entropic=0 \
	    -max_len=$$([ $$target = executable ] && echo 12288 || echo 6000) \
	    -timeout=60 -rss_limit_mb=4000 -print_final_stats=1 -close_fd_mask=2 \
	    -artifact_prefix=$(FUZZ)/found/$$target- $(FUZZ)/found/$$target \
	    $(FUZZ)/seeds/$$target tests/fuzz/corpus/$$target || exit 1; done
	PYTHONPATH=build/python $(BIN)/python tests/fuzz/fuzz_options.py --runs $(RUNS)

cov: $(VENV)/.development ## line coverage of the core by the unit tests
	cmake -G Ninja -B build-cov -DPython_EXECUTABLE=$(BIN)/python -DPOPTORCH_TORCH=OFF \
	  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="--coverage -fprofile-update=atomic"
	ninja -C build-cov -j $(JOBS) poptorch_unit_tests
	build-cov/$(UNIT_TESTS) --gtest_brief=1
	$(BIN)/gcovr --root . --filter poptorch_cpp/ build-cov --print-summary --html build-cov/index.html

docs: $(VENV)/.development ## the documentation as HTML, into build/docs
	$(BIN)/mkdocs build --strict --quiet --site-dir build/docs

clean: ## remove what was built, keep .venv
	rm -rf build build-* dist python/*.egg-info

comma := ,
.PHONY: help native install demo test test-fast test-ops nightly golden stubs bench wheel format lint asan tsan fuzz cov docs clean
