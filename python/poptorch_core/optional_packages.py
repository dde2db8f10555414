"""Imports packages that only some functions need, and that no installation has to have."""

import importlib
from typing import Any

from poptorch_core.errors import DependencyError

# Distributions whose name is not that of the package that a program imports.
_DISTRIBUTIONS = {"lightning": "pytorch-lightning", "pytorch_lightning": "pytorch-lightning"}


def load(module: str, purpose: str) -> Any:
    """Imports a module of an optional package.

    Args:
        module: The full name of the module.
        purpose: What needs the package, for the message.

    Returns:
        The module.

    Raises:
        poptorch.DependencyError: The package is not installed. It is also an ImportError.
    """
    package = module.partition(".")[0]
    try:
        importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise  # the package is there, and misses another one
        raise DependencyError(
            f"[package] {purpose} needs {package}, which is not installed. "
            f"Run: pip install {_DISTRIBUTIONS.get(package, package)}"
        ) from error
    return importlib.import_module(module)
