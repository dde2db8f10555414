"""Environment variables that hold numbers or JSON, and are not of the core's table alone.

What cannot be read is an error that names the variable, what it holds and what to set.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from poptorch_core.errors import Error


def whole_number(environ: Mapping[str, str], name: str, otherwise: int, least: int) -> int:
    """A whole number of `least` or more; `otherwise` where the variable is not set.

    Raises poptorch.Error for anything else.
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
    """The options in a JSON object; none where the variable is not set.

    example: what it may be, for the error. Raises poptorch.Error for anything but an object.
    """
    text = environ.get(name, "")
    try:
        given = json.loads(text or "{}")
        if not isinstance(given, dict):
            raise ValueError("it is no object")
    except (ValueError, RecursionError) as error:
        raise Error(
            f"[environment] {name}={text} is not understood: {error}. "
            f"Set it to {json.dumps(example, separators=(',', ':'))}, or unset it."
        ) from None
    return given
