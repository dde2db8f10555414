"""Replaces attributes of torch's modules and classes during a trace.

Every compilation makes dozens of replacements, for which unittest.mock takes a noticeable time.
"""

import contextlib
from collections.abc import Iterable
from typing import Any


def replace(stack: contextlib.ExitStack, replacements: Iterable[tuple[Any, str, Any]]) -> None:
    """Gives attributes other values until the stack ends.

    An interrupt at any line leaves none replaced: a restoration is noted before the replacement is
    made, and the stack runs each by itself.

    Args:
        stack: Restores the former values.
        replacements: Module or class, name of an existing attribute, and value. Each is taken after
            those before it are in place.
    """
    for holder, name, value in replacements:
        former = _held(holder, name)
        if name in vars(holder):
            stack.callback(setattr, holder, name, former)
        else:  # a base class has it: from here on, so has the holder, until the stack ends
            setattr(holder, name, former)
            stack.callback(delattr, holder, name)
        setattr(holder, name, value)


def is_class_method(holder: Any, name: str) -> bool:
    """Returns whether an attribute of a module or class is a class method."""
    return isinstance(_held(holder, name), classmethod)


def _held(holder: Any, name: str) -> Any:
    """Returns the value as the module, the class or a base has it, without binding it."""
    for holds in holder.__mro__ if isinstance(holder, type) else (holder,):
        if name in vars(holds):
            return vars(holds)[name]
    return getattr(holder, name)  # a name that torch does not have raises AttributeError
