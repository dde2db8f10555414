"""Current names of modules that pickles of version 3.4 refer to.

Python's own unpickler imports a module by its old name, so `install` adds a finder for these names.
"""

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

_HERE = __name__.rpartition(".")[0]
MODULES = {
    f"{_HERE}.{old}": f"{_HERE}.{new}"
    for old, new in {
        "blocks": "placement.blocks",
        "explaining": "inspection.explain",
        "option_group": "options.group_class",
        "option_groups": "options.definitions",
        "option_rows": "options.rows",
        "option_state": "options.stored_values",
        "phased_strategies": "placement.phased_strategies",
        "planning": "placement.planner",
        "safe_pickle": "files.safe_pickle",
        "strategies": "placement.strategies",
        "structures": "pytree.structures",
    }.items()
}


def current_name(module: str) -> str:
    """Returns the current name of a module that a pickle names."""
    return MODULES.get(module, module)


class _Finder:
    """Finds a module by its old name, and loads the current module instead."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Returns a spec for the names of MODULES. See importlib.abc.MetaPathFinder."""
        return importlib.util.spec_from_loader(name, _Finder) if name in MODULES else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(_spec: ModuleSpec) -> None:
        """Lets Python create the module, which exec_module replaces."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Registers the current module under the old name."""
        sys.modules[module.__name__] = importlib.import_module(MODULES[module.__name__])


def install() -> None:
    """Makes old names importable."""
    sys.meta_path.append(_Finder)
