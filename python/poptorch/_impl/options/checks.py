"""Checks of options: each returns the value to store, or raises.

The annotations of a check are the types of the setter's argument and of the attribute.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

from poptorch_core import Error

Folder: TypeAlias = str | os.PathLike[str] | None
LARGEST = 2**31 - 1  # products of two such numbers fit into 64 bits


def _allowing(allowed: str, check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns the check, with the text that documents its values."""
    check.allowed = allowed  # type: ignore[attr-defined]
    return check


def whole(least: int, most: int = LARGEST) -> Callable[[int], int]:
    """Accepts whole numbers of a range."""

    def check(value: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise AssertionError(f"[options] expected an integer but got {value!r}.")
        if not least <= value <= most:
            raise ValueError(
                f"[options] expected a whole number from {least} to {most} but got {value}."
            )
        return value

    return _allowing(f"{least} to {most}", check)


def positive(most: int) -> Callable[[int], int]:
    """Accepts whole numbers from 1 on."""

    def check(value: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise Error(
                f"[options] expected a positive integer but got {value!r}. Pass 1 to {most}."
            )
        return value

    return _allowing(f"1 to {most}", check)


positive_int = positive(LARGEST)


def even(least: int, most: int, allowed: str) -> Callable[[int], int]:
    """Accepts even numbers of a range, which `allowed` describes for messages."""

    def check(value: int) -> int:
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or not (least <= value <= most) or value % 2 != 0:
            raise AssertionError(f"[options] expected {allowed} but got {value!r}.")
        return value

    return _allowing(allowed, check)


def one_of(words: Sequence[str]) -> Callable[[str], str]:
    """Accepts some texts; an empty one among them stands for "none of the others"."""
    *most, last = (repr(word) for word in words if word)
    named = f"{', '.join(most)} or {last}"

    def check(value: str) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"[options] expected {named} but got {value!r}.")
        return value

    return _allowing(f"{named}, or '' for the default" if "" in words else named, check)


def boolean(value: bool) -> bool:
    """Accepts True and False, but no numbers."""
    if not isinstance(value, bool):
        raise ValueError(f"[options] expected True or False but got {value!r}.")
    return value


def optional_boolean(value: bool | None) -> bool | None:
    """Accepts None as well."""
    return value if value is None else boolean(value)


def as_number(value: bool) -> int:
    """Accepts True and False; stores 1 and 0."""
    return int(boolean(value))


def as_optional_number(value: bool | None) -> int | None:
    """Accepts None as well."""
    return value if value is None else as_number(value)


# For an assignment of the number itself.
as_number.of_stored = as_optional_number.of_stored = whole(0, 1)  # type: ignore[attr-defined]


def truth(value: object) -> bool:
    """Accepts any value; stores its truth value."""
    return bool(value)


def strings(value: Iterable[str]) -> list[str]:
    """Accepts several strings, but not one, which would be split into letters."""
    is_list = isinstance(value, Iterable) and not isinstance(value, str)
    if not is_list or not all(isinstance(item, str) for item in value):
        raise AssertionError(f"[options] expected a list of strings but got {value!r}.")
    return list(value)


def string(value: str) -> str:
    """Accepts text."""
    if not isinstance(value, str):
        raise AssertionError(f"[options] expected a string but got {value!r}.")
    return value


def file_name(value: str) -> str:
    """Accepts a text that can be part of a file name."""
    string(value)
    bad = [c for c in value if c in "/\\" or not c.isprintable()]
    if bad or value in (".", "..") or len(value.encode()) > 200:
        raise ValueError(
            f"[options] expected a name of up to 200 bytes without / and \\, as files are named "
            f"after it, but got {value!r}."
        )
    return value


def folder(value: Folder) -> Folder:
    """Accepts a path, or None."""
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise AssertionError(f"[options] expected a folder or None but got {value!r}.")
    return value


def member(enum: type[IntEnum]) -> Callable[[IntEnum], int]:
    """Accepts members of one enumeration; stores their number."""

    def check(value: IntEnum) -> int:
        if not isinstance(value, enum):
            raise AssertionError(
                f"[options] expected a member of {enum.__name__} but got {value!r}."
            )
        return int(value)

    check.__annotations__["value"] = enum
    check.of_stored = lambda value: number_in(enum, value)  # type: ignore[attr-defined]
    return check


def number_in(enum: type[IntEnum], value: Any) -> int:
    """Returns the number of a member, given as the member or its number."""
    if isinstance(value, bool) or value not in list(enum):
        names = ", ".join(f"{enum.__name__}.{name}" for name in enum.__members__)
        raise ValueError(f"[options] expected one of {names} but got {value!r}.")
    return int(value)
