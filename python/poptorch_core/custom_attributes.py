"""Checks the attributes of custom ops, for both packages."""

from collections.abc import Mapping, Sequence
from typing import Any

Value = float | int | str | Sequence[float] | Sequence[int] | Sequence[str]


def check_ascii(text: str) -> None:
    """Raises ValueError, with PopTorch's text, if a text has non-ASCII characters."""
    if not text.isascii():
        raise ValueError(f"{text} contains non-ASCII characters.")


def checked(attributes: Mapping[str, Value]) -> dict[str, Any]:
    """Checks attributes.

    Args:
        attributes: The attributes by name.

    Returns:
        The attributes, with lists in place of tuples.

    Raises:
        ValueError: A name or value is invalid. The texts are those of PopTorch.
    """
    kept: dict[str, Any] = {}
    for key, value in attributes.items():
        if not isinstance(key, str):
            raise ValueError("All attribute keys must be strings.")
        check_ascii(key)
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(item, (float, int, str)) for item in items):
            raise ValueError(
                "Attribute values must be floats, ints, strings or a list/tuple of float, ints of "
                "strings."
            )
        if len({type(item) for item in items}) > 1:
            raise ValueError("The types in a list/tuple attribute must all be the same.")
        for item in items:
            if isinstance(item, str):
                check_ascii(item)
        kept[key] = items if isinstance(value, (list, tuple)) else value
    return kept
