"""Native core without torch: libraries, headers, the module _core; and the module _torch.

Importing this package imports neither of the modules.
"""

from poptorch_core.errors import DependencyError, Error, RecoverableError, UnrecoverableError

__all__ = ["DependencyError", "Error", "RecoverableError", "UnrecoverableError"]
