"""CMake projects of C++ programs, built as a user builds them."""

import shutil
from pathlib import Path

import poptorch_core
import pytest
import zygote


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
    # The headers of torch take a minute to compile. ccache keys by contents, those of the installed
    # package among them.
    launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={path}"] if (path := shutil.which("ccache")) else []
    run("cmake", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}", *launcher)
    run("cmake", "--build", folder, "-j2")
