"""Reads environment variables of numbers or JSON that are not only in the core's table.

The error for a wrong value names the variable, its value and what to set.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from poptorch_core.errors import Error


def whole_number(environ: Mapping[str, str], name: str, otherwise: int, least: int) -> int:
    """Reads a whole number.

    Args:
        environ: The environment.
        name: The variable.
        otherwise: The result if the variable is not set.
        least: The smallest valid number.

    Raises:
        poptorch.Error: The value is not a whole number of `least` or more.
    """
    given = environ.get(name, "")
    if not given:
        return otherwise
    if not given.isdecimal() or int(given) < least:
        raise Error(
            f"[environment] {name} is {given!r}. Set it to a whole number of {least} or more, or "
            "unset it."
        )
    return int(given)


def json_object(
    name: str, example: Mapping[str, Any], environ: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Reads a JSON object.

    Args:
        name: The variable.
        example: A valid value, for the error's text.
        environ: The environment.

    Returns:
        The object's entries. They are empty if the variable is not set.

    Raises:
        poptorch.Error: The value is not a JSON object.
    """
    text = environ.get(name, "")
    try:
        given = json.loads(text or "{}")
        if not isinstance(given, dict):
            raise ValueError("it is not a JSON object")
    except (ValueError, RecursionError) as error:
        raise Error(
            f"[environment] {name}={text} is not understood: {error}. "
            f"Set it to {json.dumps(example, separators=(',', ':'))}, or unset it."
        ) from None
    return given
