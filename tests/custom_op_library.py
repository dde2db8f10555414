"""Compiles libraries of custom ops once per session, and loads them as a user does."""

import ctypes
import shlex
import shutil
import subprocess
from pathlib import Path

import poptorch_core
import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    **{name: ROOT / f"examples/custom_ops/{name}.cpp" for name in ("cube", "leaky_relu")},
    "many_attribute": ROOT / "examples/custom_ops/many_attribute.cpp",
    "trial": ROOT / "tests/custom_ops/trial_ops.cpp",
}


def compile_library(source, target):
    """Starts the compiler, which needs only the header and libpoptorch_core."""
    package = Path(poptorch_core.cmake_prefix_path)
    header = package / "include" if (package / "include").exists() else None
    include = header or ROOT / "poptorch_cpp/include"
    ccache, object_file = shutil.which("ccache"), f"{target}.o"
    compiler = [*([ccache] if ccache else []), "c++"]
    compiles = [*compiler, "-std=c++20", "-fPIC", "-Wall", "-Wextra", f"-I{include}", "-c", source,
                "-o", object_file]  # fmt: skip
    links = ["c++", "-shared", object_file, "-o", target, f"-L{package}/lib", "-lpoptorch_core",
             f"-Wl,-rpath,{package}/lib"]  # fmt: skip
    both = " && ".join(shlex.join(map(str, words)) for words in (compiles, links))
    return subprocess.Popen(["sh", "-c", both], stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="session")
def custom_op_folder(tmp_path_factory):
    """Returns a folder with the libraries of examples/custom_ops and, in its folder `tests`, of
    tests/custom_ops."""
    folder = tmp_path_factory.mktemp("libraries") / "tests"
    folder.mkdir()
    compilers = [
        compile_library(source, folder / f"libcustom_{name}_op.so")
        for name, source in SOURCES.items()
    ]
    for compiler in compilers:
        errors = compiler.communicate()[1]
        assert compiler.returncode == 0 and not errors, errors
    return folder


@pytest.fixture(scope="session")
def custom_ops(custom_op_folder):
    """Returns the folder, with its libraries loaded into this process."""
    for name in SOURCES:
        ctypes.cdll.LoadLibrary(custom_op_folder / f"libcustom_{name}_op.so")
    return custom_op_folder
