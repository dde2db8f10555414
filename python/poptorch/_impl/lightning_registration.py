"""Makes accelerator="ipu" known to PyTorch Lightning once a program imports it."""

import importlib
from types import ModuleType

from poptorch._impl import after_import

_CONNECTOR = "trainer.connectors.accelerator_connector"  # imported after all that we need


def install() -> None:
    """Registers the accelerator now if Lightning is imported, else at its import."""
    for root in ("lightning.pytorch", "pytorch_lightning"):
        after_import.call(f"{root}.{_CONNECTOR}", _register)


def _register(_connector: ModuleType) -> None:
    importlib.import_module("poptorch.integrations.lightning")
