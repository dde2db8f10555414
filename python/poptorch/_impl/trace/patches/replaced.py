"""Replaces attributes of torch's modules and classes during a trace.

Every compilation makes dozens of replacements, for which unittest.mock takes a noticeable time.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

_INHERITED: Any = object()  # the holder itself had no such attribute


@contextlib.contextmanager
def replaced(replacements: Iterable[tuple[Any, str, Any]]) -> Iterator[None]:
    """Gives attributes other values in the body.

    Args:
        replacements: Module or class, name of an existing attribute, and value. Each is taken after
            those before it are in place.
    """
    former: list[tuple[Any, str, Any]] = []
    try:
        for holder, name, value in replacements:
            getattr(holder, name)  # a name that torch does not have raises AttributeError
            former.append((holder, name, vars(holder).get(name, _INHERITED)))
            setattr(holder, name, value)
        yield
    finally:
        for holder, name, value in reversed(former):
            if value is not _INHERITED:
                setattr(holder, name, value)
            elif name in vars(holder):
                delattr(holder, name)


def is_class_method(holder: Any, name: str) -> bool:
    """Returns whether an attribute of a module or class is a class method."""
    for holds in holder.__mro__ if isinstance(holder, type) else (holder,):
        if name in vars(holds):
            return isinstance(vars(holds)[name], classmethod)
    return False
