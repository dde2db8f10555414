"""Adds the backend to torch.compile's list, without an import of torch._dynamo.

That import takes longer than all others together, so a finder waits until the program needs it.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint
from types import ModuleType

_REGISTRY = "torch._dynamo.backends.registry"
_ENTRY = EntryPoint(
    "poptorch", "poptorch._impl.torch_compile.backend:backend", "torch_dynamo_backends"
)


class _Finder(MetaPathFinder):
    """Finds torch's registry of backends, once."""

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        """Returns a spec whose loader also adds the backend. See importlib.abc."""
        if name != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        found = PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            found.loader = _Loader(found.loader)
        return found


class _Loader(Loader):
    """Loads the registry as `plain` does, then adds the backend."""

    def __init__(self, plain: Loader) -> None:
        self.plain = plain

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Creates the module. See importlib.abc."""
        return self.plain.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Executes the module. See importlib.abc."""
        self.plain.exec_module(module)
        _add(module)


def install() -> None:
    """Adds the backend now if torch._dynamo is imported, else at its import."""
    registry = sys.modules.get(_REGISTRY)
    if registry is not None:
        _add(registry)
    else:
        sys.meta_path.insert(0, _Finder())


def _add(registry: ModuleType) -> None:
    registry._BACKENDS.setdefault(_ENTRY.name, _ENTRY)
