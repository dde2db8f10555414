"""Numbers that report when a program's path depends on them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from poptorch._impl.inspection.source_lines import user_location

_ARITHMETIC = ("add", "sub", "mul", "floordiv", "mod", "pow", "neg", "abs", "radd", "rsub", "rmul",
               "rfloordiv", "rmod", "truediv", "rtruediv")  # fmt: skip
_DECISIONS = ("eq", "ne", "lt", "le", "gt", "ge", "bool", "index", "hash")


class Reads:
    """The lines where forward decides by a watched number."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._records = False

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Records reads in the body."""
        self._records = True
        try:
            yield
        finally:
            self._records = False

    def note(self) -> None:
        """Records a read by the user's current line."""
        if self._records:
            self.lines.append(user_location())

    def watch(self, value: Any) -> Any:
        """Returns a number with the same value that is watched; any other value unchanged."""
        kind = _WATCHED.get(type(value))
        if kind is None:
            return value
        watched = kind(value)
        watched.reads = self
        return watched


class _WatchedInt(int):
    reads: Reads


class _WatchedFloat(float):
    reads: Reads


def _computing(base: Any, name: str) -> Callable[..., Any]:
    plain = getattr(base, f"__{name}__")

    def compute(self: Any, *others: Any) -> Any:
        result = plain(self, *others)
        return self.reads.watch(result)

    return compute


def _deciding(base: Any, name: str) -> Callable[..., Any]:
    plain = getattr(base, f"__{name}__")

    def decide(self: Any, *others: Any) -> Any:
        self.reads.note()
        return plain(self, *others)

    return decide


_WATCHED: dict[type, Any] = {int: _WatchedInt, float: _WatchedFloat}

for _base, _kind in _WATCHED.items():
    for _name in _ARITHMETIC:
        setattr(_kind, f"__{_name}__", _computing(_base, _name))
    for _name in _DECISIONS:
        if hasattr(_base, f"__{_name}__"):
            setattr(_kind, f"__{_name}__", _deciding(_base, _name))
