"""Runs functions after imports of modules that take too long to import without a need."""

import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

Action = Callable[[ModuleType], object]


def call(name: str, action: Action) -> None:
    """Calls a function with a module: now if it is imported, else at the end of its import."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
    else:
        sys.meta_path.insert(0, _Finder(name, action))


class _Finder(MetaPathFinder):
    """Finds one module, once."""

    def __init__(self, name: str, action: Action) -> None:
        self.name, self.action = name, action

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        """Returns a spec whose loader also calls the function. See importlib.abc."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        found = PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            found.loader = _Loader(found.loader, self.action)
        return found


class _Loader(Loader):
    """Loads a module as `plain` does, then calls a function."""

    def __init__(self, plain: Loader, action: Action) -> None:
        self.plain, self.action = plain, action

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Creates the module. See importlib.abc."""
        return self.plain.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Executes the module. See importlib.abc."""
        self.plain.exec_module(module)
        self.action(module)
