"""CMake projects of C++ programs, built as a user builds them."""

import shutil
from pathlib import Path

import poptorch_core
import pytest
import zygote
from load_tool import ROOT

# Without it, no file that has a precompiled header is found in ccache.
SLOPPINESS = "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"


def run(*command):
    """What the command prints; its failure is the test's."""
    done = zygote.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_against_installed_package(source, folder):
    """Skips the test where there is none."""
    prefix = Path(poptorch_core.cmake_prefix_path)
    if not (prefix / "share/cmake/poptorch").exists():
        pytest.skip("the built tree is in use, not the installed package")
    # The headers of torch take half a minute to compile. ccache keys by contents, those of the
    # installed package among them.
    ccache = shutil.which("ccache")
    options = {
        "PREFIX_PATH": prefix,
        "BUILD_TYPE": "None",
        "PROJECT_poptorch_examples_INCLUDE": ROOT / "tests/cpp/one_parse.cmake",
        **({"CXX_COMPILER_LAUNCHER": f"env;{SLOPPINESS};{ccache}"} if ccache else {}),
    }
    words = [f"-DCMAKE_{name}={value}" for name, value in options.items()]
    run("cmake", "-S", source, "-B", folder, *words)
    run("cmake", "--build", folder, "-j2")
