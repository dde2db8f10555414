"""The build backend of pyproject.toml: setuptools, with the versions that versions.py states.

torch and oneDNN are requirements of the build and of the installed package. Only
python/poptorch_core/versions.py states their versions. pyproject.toml cannot read that file; this
module does.
"""

import runpy
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  (the hooks that stay as they are)

_FILE = Path(__file__).resolve().parents[1] / "python/poptorch_core/versions.py"
VERSIONS = runpy.run_path(str(_FILE))
RUNTIME = [f"torch=={VERSIONS['TORCH']}", f"onednn-cpu-gomp=={VERSIONS['ONEDNN']}"]
BUILD = [*RUNTIME, f"onednn-devel-cpu-gomp=={VERSIONS['ONEDNN']}"]


def get_requires_for_build_wheel(config_settings=None):
    """Returns setuptools' requirements with torch and oneDNN. See PEP 517."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *BUILD]


def get_requires_for_build_editable(config_settings=None):
    """Returns what an editable build needs. See PEP 660."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *BUILD]
