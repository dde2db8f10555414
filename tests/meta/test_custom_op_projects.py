"""examples/custom_ops builds against the installed package, and its program trains with it."""

import sys

import pytest
from cpp_projects import build_against_installed_package, run
from load_tool import ROOT

EXAMPLE = ROOT / "examples/custom_ops"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("custom_ops")
    build_against_installed_package(EXAMPLE, folder)
    return folder


def check_training(folder):
    first, last = run(sys.executable, EXAMPLE / "train.py", folder).splitlines()[-2:]
    loss = float(first.split()[-3])
    assert loss < 0.01, first
    assert last == "the pipeline gives the same: True"


@pytest.mark.shared
def test_the_example_as_a_user_builds_it(libraries):
    linked = run("ldd", libraries / "libcustom_cube_op.so")
    assert (
        "libpoptorch_core.so" in linked and "libtorch" not in linked and "not found" not in linked
    )
    check_training(libraries)


@pytest.mark.shared
def test_the_example_s_program(custom_op_folder):
    check_training(custom_op_folder)


def test_its_project_is_a_dozen_lines():
    lines = (EXAMPLE / "CMakeLists.txt").read_text().splitlines()
    assert len([line for line in lines if line and line[0] != "#"]) <= 12
