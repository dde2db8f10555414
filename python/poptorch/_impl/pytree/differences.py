"""Describes how a constant of a call differs from the one that the model was compiled for."""

import inspect
import re
from typing import Any

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+|\bobject at\b")


def difference(expected: Any, got: Any) -> str:
    """Returns "expected ... but got ..." without addresses, which do not tell values apart.

    For objects of one class it compares their attributes. Functions are named with their lines.
    """
    texts = shown(expected), shown(got)
    if texts[0] != texts[1]:
        return f"expected {texts[0]} but got {texts[1]}"
    changed = _changed_attributes(expected, got)
    if changed:
        return f"expected {texts[0]} but got one with other attributes: {changed}"
    return (
        f"expected the {texts[0]} of the first call but got another one, and they are not equal "
        "(==). Pass the same object, or define __eq__ in its class"
    )


def shown(value: Any) -> str:
    """Returns the text of a value; a type or a line instead of an address."""
    text = repr(value)
    if not _ADDRESS.search(text):
        return text
    code = getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None
    if code is not None:
        return f"{value.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _changed_attributes(expected: Any, got: Any) -> str:
    before, now = getattr(expected, "__dict__", {}), getattr(got, "__dict__", {})
    names = [n for n in [*before, *now] if _unequal(before.get(n), now.get(n))]
    texts = [(n, shown(before.get(n)), shown(now.get(n))) for n in dict.fromkeys(names)]
    return ", ".join(f"{n} was {old} and is {new}" for n, old, new in texts if old != new)


def _unequal(a: Any, b: Any) -> bool:
    """Returns whether two values differ; values that cannot be compared do."""
    try:
        return a is not b and bool(a != b)
    except Exception:
        return True
