"""The native core: libraries, headers, the module _core without torch, and the module _torch.

Importing this package imports neither of the modules.
"""

import os

from poptorch_core import versions
from poptorch_core.errors import DependencyError, Error, RecoverableError, UnrecoverableError

for _class in (DependencyError, Error, RecoverableError, UnrecoverableError):
    _class.__module__ = __name__  # tracebacks and pickles show this path

# C++ projects pass -DCMAKE_PREFIX_PATH=<this path>, and call find_package(poptorch).
cmake_prefix_path = os.path.dirname(os.path.abspath(__file__))

__version__ = versions.VERSION

__all__ = [
    "DependencyError",
    "Error",
    "RecoverableError",
    "UnrecoverableError",
    "cmake_prefix_path",
]
