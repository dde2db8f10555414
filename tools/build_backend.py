"""The build backend of pyproject.toml: scikit-build-core's setuptools hooks, with torch and oneDNN.

torch and oneDNN are requirements of the build and of the installed package. Only
python/poptorch_core/versions.py states their versions. pyproject.toml cannot read that file, nor
the version of torch that is installed; this module does.
"""

import os
import platform
import runpy
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from scikit_build_core.setuptools import build_meta
from scikit_build_core.setuptools.build_meta import *  # noqa: F403  (the hooks that stay as they are)

_FILE = Path(__file__).resolve().parents[1] / "python/poptorch_core/versions.py"
VERSIONS = runpy.run_path(str(_FILE))
SUPPORTED = (VERSIONS["TORCH"], *VERSIONS["NEWER_TORCH"].split())
# oneDNN is published for x86-64 only; other processors use this project's convolutions.
_ONEDNN = f"=={VERSIONS['ONEDNN']}; platform_machine == 'x86_64'"

PLATFORMS = {"linux": ("x86_64", "aarch64")}  # sys.platform -> processors


def refuse_other_platforms():
    """Raises SystemExit unless the emulator can be built for this system and processor."""
    processor = platform.machine()
    if processor in PLATFORMS.get(sys.platform, ()):
        return
    name = {"win32": "Windows", "darwin": "macOS"}.get(sys.platform, sys.platform)
    raise SystemExit(
        f"[build] This is {name} on {processor}, but PopTorch {VERSIONS['VERSION']} needs Linux on "
        "x86-64 or aarch64. On Windows, install it inside WSL 2; on macOS, in a Linux container."
    )


def torch_version():
    """Returns the version of torch to build with, one of SUPPORTED.

    POPTORCH_TORCH_VERSION names it. Otherwise it is the version that the build or the environment
    has, if that is supported, and the oldest one if not.
    """
    asked = os.environ.get("POPTORCH_TORCH_VERSION")
    if asked and asked not in SUPPORTED:
        raise SystemExit(
            f"[build] POPTORCH_TORCH_VERSION={asked}, but PopTorch {VERSIONS['VERSION']} needs "
            f"torch {' or '.join(SUPPORTED)}. Set it to one of these."
        )
    # An isolated build does not have the packages of the environment on sys.path.
    environment = [sysconfig.get_path("platlib"), sysconfig.get_path("purelib")]
    found = [
        distribution.version.partition("+")[0]
        for path in (sys.path, environment)
        for distribution in metadata.distributions(name="torch", path=path)
    ]
    return asked or next((one for one in found if one in SUPPORTED), SUPPORTED[0])


def version():
    """Returns PopTorch's version; with POPTORCH_LOCAL_VERSION=1 that of torch is its local part."""
    if os.environ.get("POPTORCH_LOCAL_VERSION") != "1":
        return VERSIONS["VERSION"]
    return f"{VERSIONS['VERSION']}+torch{torch_version().rpartition('.')[0]}"


def requirements():
    """Returns what the installed package needs."""
    torch = f"torch=={torch_version()}"
    return [torch, f"onednn-cpu-gomp{_ONEDNN}", "numpy", "safetensors", "tqdm"]


def get_requires_for_build_wheel(config_settings=None):
    """Returns what a build needs: setuptools' requirements, torch and oneDNN. See PEP 517."""
    refuse_other_platforms()
    hooks = build_meta.get_requires_for_build_wheel(config_settings)
    return [*hooks, *requirements()[:2], f"onednn-devel-cpu-gomp{_ONEDNN}"]


def get_requires_for_build_editable(config_settings=None):
    """Returns what an editable build needs, which is the same. See PEP 660."""
    return get_requires_for_build_wheel(config_settings)
