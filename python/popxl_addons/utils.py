"""Utilities for programs of popxl_addons."""

import collections
import logging
import re
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import popxl
from popxl_addons import wandb_tools

Key = TypeVar("Key")
Value = TypeVar("Value")

_MINUTE = 60


class OrderedDict(collections.OrderedDict[Key, Value]):
    """A dict with access to values by index."""

    def idx(self, i: "int | slice") -> Any:
        """Returns the value at index `i`, or the values of a slice.

        Args:
            i: The index, or a slice.
        """
        return list(self.values())[i]

    def __repr__(self) -> str:
        lines = "".join(f"  {key!r}: {value!r},\n" for key, value in self.items())
        return f"{type(self).__name__}({{\n{lines}}})" if lines else f"{type(self).__name__}()"


class WeightsDict(MutableMapping):
    """{variable: array}; other dtypes or shapes than the variables' on the host raise ValueError.

    Args:
        *data: The first mappings.
    """

    def __init__(self, *data: "Mapping[Any, np.ndarray]") -> None:
        self._data: dict[Any, np.ndarray] = {}
        for more in data:
            self.update(more)

    def __getitem__(self, variable: Any) -> np.ndarray:
        return self._data[variable]

    def __setitem__(self, variable: Any, data: np.ndarray) -> None:
        shape, dtype = np.shape(data), np.asarray(data).dtype
        if dtype != variable.dtype.as_numpy():
            raise ValueError(
                f"The dtypes do not equal: {variable!r} takes {variable.dtype.as_numpy()} but the "
                f"data is {dtype}."
            )
        if shape != variable.shape_on_host:
            raise ValueError(
                f"The shapes do not equal: {variable!r} takes {variable.shape_on_host} on the host "
                f"but the data has {shape}."
            )
        self._data[variable] = data

    def __delitem__(self, variable: Any) -> None:
        del self._data[variable]

    def __iter__(self) -> "Iterator[Any]":
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data!r})"


def write_variables_pb(session: popxl.Session, weights: "Mapping[Any, Any]") -> None:
    """Writes variables one after the other with a progress bar (if tqdm is installed).

    See `Session.write_variables_data`.

    Args:
        session: The session.
        weights: The data of each variable.
    """
    items: Any = list(weights.items())
    try:
        from tqdm.auto import tqdm

        items = tqdm(items, desc="Writing variables")
    except ImportError:
        pass
    for variable, data in items:
        session.write_variable_data(variable, data)


@contextmanager
def timer(title: "str | None" = None, log_to_wandb: bool = True) -> Iterator[None]:
    """Logs the duration of the block, in minutes.

    Args:
        title: The title of the log line.
        log_to_wandb: Whether to log it also as `<title> (mins)` to wandb's current run, if any.
    """
    start = time.perf_counter()
    try:
        yield
    finally:
        minutes = (time.perf_counter() - start) / _MINUTE
        name = title or "Duration"
        logging.getLogger("popxl_addons").info("%s: %.2f mins", name, minutes)
        if log_to_wandb:
            wandb_tools.log({f"{name} (mins)": minutes})


@contextmanager
def null_context() -> Iterator[None]:
    """A context that does nothing."""
    yield


def plain_graph_name(name: str) -> str:
    """Returns the name without a graph's `_subgraph(N)`."""
    return re.sub(r"_subgraph\([0-9]+\)", "", name)


def suffix_graph_name(name: str, suffix: str) -> str:
    """Returns `<name>_<suffix>`, without a graph's `_subgraph(N)`.

    Args:
        name: The name of a graph.
        suffix: The suffix.
    """
    return f"{plain_graph_name(name)}_{suffix}"


def overrides(cls: Any, base: type, method: "str | Callable[..., Any]") -> bool:
    """Returns whether a class, or an object's class, overrides `method` of `base`.

    Args:
        base: The class or object.
        method: The method of the base class.
    """
    kind = cls if isinstance(cls, type) else type(cls)
    name = method if isinstance(method, str) else method.__name__
    return getattr(kind, name) is not getattr(base, name)


def duplicate_items(iterable: "Iterable[Hashable]") -> list[Any]:
    """Returns the items that occur more than once, each once.

    Args:
        iterable: The items.
    """
    return [item for item, count in collections.Counter(iterable).items() if count > 1]
