"""find_package(poptorch) takes torch's headers and libraries from the package beside it, without
torch's own CMake files, and refuses another version.
"""

import shutil
import subprocess

import pytest
from load_tool import ROOT
from poptorch_core import _core

BUILT = ROOT / "build/poptorch_cpp"
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(application LANGUAGES NONE)
find_package(poptorch {components})
if(NOT poptorch_FOUND)
  message(FATAL_ERROR "${{poptorch_NOT_FOUND_MESSAGE}}")
endif()
if(TARGET poptorch::poptorch)
  get_target_property(linked poptorch::poptorch INTERFACE_LINK_LIBRARIES)
  get_target_property(folders ${{linked}} INTERFACE_INCLUDE_DIRECTORIES)
  get_target_property(libraries ${{linked}} INTERFACE_LINK_LIBRARIES)
  message(STATUS "torch: ${{folders}};${{libraries}};")
endif()
"""


def configured(folder, torch, components=""):
    """Configures a project with an installed package, beside a torch of a version or None."""
    site = folder / "site"
    files = site / "poptorch_core/share/cmake/poptorch"
    files.mkdir(parents=True)
    for name in ("poptorchConfig.cmake", "poptorchConfigVersion.cmake"):
        shutil.copy(BUILT / name, files)
    shutil.copy(ROOT / "cmake/TorchLibraries.cmake", files)
    if torch is not None:
        # A CUDA build's own files would ask for CUDA's compiler.
        cmake = site / "torch/share/cmake/Torch"
        cmake.mkdir(parents=True)
        (cmake / "TorchConfig.cmake").write_text('message(FATAL_ERROR "CUDA is not installed")\n')
        (site / "torch/version.py").write_text(f"__all__ = []\n__version__ = '{torch}'\n")
    (folder / "CMakeLists.txt").write_text(PROJECT.format(components=components))
    prefix = f"-DCMAKE_PREFIX_PATH={site / 'poptorch_core'}"
    command = ["cmake", "-S", folder, "-B", folder / "build", prefix]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done, site


@pytest.mark.parametrize("local", ["", "+cpu", "+cu130"])
def test_torch_is_that_of_the_package_beside_it(local, tmp_path):
    done, site = configured(tmp_path, _core.torch_version() + local)
    assert done.returncode == 0, done.stderr
    assert f"torch: {site}/torch/include;" in done.stdout
    assert f"{site}/torch/lib/libtorch_cpu.so;" in done.stdout


@pytest.mark.parametrize("torch", ["2.12.1+cpu", None])
def test_another_torch_is_refused_with_both_versions(torch, tmp_path):
    done, site = configured(tmp_path, torch)
    text = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert f"torch {_core.torch_version()} must be installed in {site}/torch" in text
    assert f"found there: {'2.12.1' if torch else 'none'}" in text


@pytest.mark.parametrize("component", ["custom_op", "runtime"])
def test_components_without_torch_need_none(component, tmp_path):
    done, _ = configured(tmp_path, None, f"COMPONENTS {component}")
    assert done.returncode == 0, done.stderr
