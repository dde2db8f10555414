"""Builds the native libraries with CMake and puts them into the package poptorch_core.

POPTORCH_BUILD_DIR names a CMake build folder to use as it is configured (what is built there is not
compiled again); without it a folder of its own is configured, as pip's isolated build needs.
"""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))
import build_backend  # noqa: E402


class CMakeBuild(build_ext):
    """One CMake build that makes every library and module at once."""

    def run(self):
        prefix = Path(self.build_lib).resolve() / "poptorch_core"
        given = os.environ.get("POPTORCH_BUILD_DIR")
        build = Path(given) if given else Path(self.build_temp).resolve() / "cmake"
        if not given:
            self.configure(build)
        subprocess.run(["cmake", "--build", build], check=True)
        subprocess.run(
            ["cmake", "--install", build, "--component", "python", "--prefix", prefix, "--strip"],
            check=True,
        )

    def configure(self, build):
        # --fresh: paths of an earlier isolated environment no longer exist.
        subprocess.run(
            [
                *["cmake", "--fresh", "-G", "Ninja", "-S", ROOT, "-B", build],
                f"-DPython_EXECUTABLE={sys.executable}",
                "-DPOPTORCH_TESTS=OFF",
            ],
            check=True,
        )

    def get_outputs(self):
        return [str(p) for p in (Path(self.build_lib) / "poptorch_core").rglob("*") if p.is_file()]


setup(
    version=build_backend.VERSIONS["VERSION"],
    install_requires=[*build_backend.RUNTIME, "numpy", "safetensors", "tqdm"],
    ext_modules=[Extension("poptorch_core._core", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
)
