"""Native core without torch: libraries, headers, the module _core; and the module _torch.

Importing this package imports neither of the modules.
"""

import os

from poptorch_core.errors import DependencyError, Error, RecoverableError, UnrecoverableError

for _class in (DependencyError, Error, RecoverableError, UnrecoverableError):
    _class.__module__ = __name__  # as tracebacks and pickles show it

# For C++ projects: -DCMAKE_PREFIX_PATH=<this>, then find_package(poptorch).
cmake_prefix_path = os.path.dirname(os.path.abspath(__file__))

__all__ = [
    "DependencyError",
    "Error",
    "RecoverableError",
    "UnrecoverableError",
    "cmake_prefix_path",
]
