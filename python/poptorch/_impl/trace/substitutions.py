"""Replacements that packages make during a trace, such as those of a graph-network package."""

import contextlib
from collections.abc import Iterator
from typing import Protocol


class Substitution(Protocol):
    """Replaces functions of a package that cannot be traced."""

    def replace(self) -> None:
        """Puts the replacements in place."""

    def restore(self) -> None:
        """Restores the original functions."""


_types: list[type[Substitution]] = []


def register(kind: type[Substitution]) -> None:
    """Makes every trace call `kind().replace()` at its begin and `restore()` at its end.

    Args:
        kind: A class with these two methods, whose constructor takes no arguments.
    """
    if kind not in _types:
        _types.append(kind)


@contextlib.contextmanager
def in_place() -> Iterator[None]:
    """Encloses a trace."""
    with contextlib.ExitStack() as stack:
        for kind in _types:
            made = kind()
            stack.callback(made.restore)
            made.replace()
        yield
