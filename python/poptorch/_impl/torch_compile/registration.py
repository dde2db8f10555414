"""Adds the backend to torch.compile's list, without an import of torch._dynamo.

That import takes longer than all others together.
"""

from importlib.metadata import EntryPoint
from types import ModuleType

from poptorch._impl import after_import

_ENTRY = EntryPoint(
    "poptorch", "poptorch._impl.torch_compile.backend:backend", "torch_dynamo_backends"
)


def install() -> None:
    """Adds the backend now if torch._dynamo is imported, else at its import."""
    after_import.call("torch._dynamo.backends.registry", _add)


def _add(registry: ModuleType) -> None:
    registry._BACKENDS.setdefault(_ENTRY.name, _ENTRY)
