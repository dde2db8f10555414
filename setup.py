"""Describes the package as far as pyproject.toml cannot: its version, and torch and oneDNN.

scikit-build-core builds the native libraries with CMake and puts them into the package
poptorch_core. With `-C cmake.define.POPTORCH_BUILT=<folder>`, it takes them from a configured build
folder, in which what is built is not compiled again.
"""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))
import build_backend

setup(
    version=build_backend.version(),
    install_requires=build_backend.requirements(),
    cmake_install_dir="poptorch_core",
)
