"""Builds CMake projects of C++ programs against the installed package."""

import fcntl
import os
import shutil
from pathlib import Path

import poptorch_core
import pytest
import zygote
from load_tool import ROOT

# Without it, no file that has a precompiled header is found in ccache.
SLOPPINESS = "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
# The nightly sets it: the default compiler then compiles each program separately, as a user's build
# does. Otherwise the programs share a precompiled header, and clang, if installed, compiles them in
# a third of the CPU time.
AS_USERS_DO = "POPTORCH_CPP_AS_USERS_DO"


def run(*command):
    """Returns the output of the command; if it fails, the test fails."""
    done = zygote.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def skip_unless_installed():
    """Returns the folder of the installed package's CMake files. Skips the test without them."""
    prefix = Path(poptorch_core.cmake_prefix_path)
    if not (prefix / "share/cmake/poptorch").exists():
        pytest.skip("the built tree is in use, not the installed package")
    return prefix


def build_against_installed_package(source, folder, *more):
    """Builds a project in a folder, with `more` as further arguments of CMake.

    Skips the test if the package is not installed.
    """
    prefix = skip_unless_installed()
    # ccache keys depend on contents, also on those of the installed package.
    ccache = shutil.which("ccache")
    options = {
        "PREFIX_PATH": prefix,
        "BUILD_TYPE": "None",
        **({"CXX_COMPILER_LAUNCHER": f"env;{SLOPPINESS};{ccache}"} if ccache else {}),
    }
    words = [f"-DCMAKE_{name}={value}" for name, value in options.items()]
    run("cmake", "-S", source, "-B", folder, *words, *more)
    run("cmake", "--build", folder, "-j2")


@pytest.fixture(scope="session")
def cpp_programs():
    """Builds the programs of tests/cpp in the folder `tests`, and those of examples/cpp in
    `examples`.

    Every run uses the same folder: the path of a precompiled header is part of its key in ccache.
    """
    folder = ROOT / "build" / ("cpp_as_users_do" if os.environ.get(AS_USERS_DO) else "cpp_programs")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # of pytest's other workers
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_against_installed_package(ROOT / "tests/cpp/with_examples", folder, *_compiler())
    return folder


def _compiler():
    """Returns the arguments of CMake that choose the compiler and whether headers are shared."""
    if os.environ.get(AS_USERS_DO):
        return ["-DSHARE_HEADERS=OFF"]
    clang = shutil.which("clang++-16")
    # ccache does not store a precompiled header of clang that contains a time stamp.
    stable = "-DCMAKE_CXX_FLAGS=-Xclang -fno-pch-timestamp"
    return [f"-DCMAKE_CXX_COMPILER={clang}", stable] if clang else []
