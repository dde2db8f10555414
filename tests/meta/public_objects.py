"""Lists the public objects of the packages by name: modules, their contents, members of classes."""

import importlib
import inspect
import pkgutil
from functools import cache

PACKAGES = ("poptorch", "popxl", "popxl_addons", "popart")
BESIDE = "poptorch.integrations"  # not PopTorch's interface; it imports other libraries


def modules():
    for package in PACKAGES:
        top = importlib.import_module(package)
        yield top
        for found in pkgutil.walk_packages(top.__path__, package + "."):
            if not found.name.endswith("__main__") and not found.name.startswith(BESIDE):
                yield importlib.import_module(found.name)


@cache
def objects():
    """Returns for each last part of a name the paths that end with it and their objects."""
    found = {}

    def add(path, value):
        found.setdefault(path.rsplit(".", 1)[-1], {})[path] = value

    for module in modules():
        add(module.__name__, module)
        for name, value in vars(module).items():
            add(f"{module.__name__}.{name}", value)
            if inspect.isclass(value):
                for member in dir(value):
                    add(f"{module.__name__}.{name}.{member}", getattr(value, member, None))
    return found


def is_ours(value):
    home = getattr(value, "__module__", None) or "poptorch"
    return home.startswith((*PACKAGES, "poptorch_core"))


def called(name):
    """Yields functions and classes of these packages at `name`, a whole path or the end of one."""
    return (value for value in present(name) if is_ours(value) and callable(value))


def present(name):
    """Yields the objects at `name`."""
    for path, value in objects().get(name.rsplit(".", 1)[-1], {}).items():
        if f".{path}".endswith(f".{name}"):
            yield value
