"""Small things that programs of popxl_addons use."""

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
    """A dict whose values can be had by their place as well."""

    def idx(self, i: "int | slice") -> Any:
        """The value at place `i`, or the values of a slice."""
        return list(self.values())[i]

    def __repr__(self) -> str:
        lines = "".join(f"  {key!r}: {value!r},\n" for key, value in self.items())
        return f"{type(self).__name__}({{\n{lines}}})" if lines else f"{type(self).__name__}()"


class WeightsDict(MutableMapping):
    """{variable: array} of the variables' dtypes and shapes on the host (ValueError).

    data: mappings to begin with.
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
    """`session.write_variables_data(weights)`, one after the other under a progress bar.

    Without tqdm there is no bar.
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
    """Logs how long the block took, in minutes.

    log_to_wandb: also as `<title> (mins)` of wandb's current run, if there is one.
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
    """The name without the `_subgraph(N)` that a graph's name has."""
    return re.sub(r"_subgraph\([0-9]+\)", "", name)


def suffix_graph_name(name: str, suffix: str) -> str:
    """`<name>_<suffix>`, without the `_subgraph(N)` that a graph's name has."""
    return f"{plain_graph_name(name)}_{suffix}"


def overrides(cls: Any, base: type, method: "str | Callable[..., Any]") -> bool:
    """Whether a class, or an object's class, defines `method` anew below `base`."""
    kind = cls if isinstance(cls, type) else type(cls)
    name = method if isinstance(method, str) else method.__name__
    return getattr(kind, name) is not getattr(base, name)


def duplicate_items(iterable: "Iterable[Hashable]") -> list[Any]:
    """Those that occur more than once, each once."""
    return [item for item, count in collections.Counter(iterable).items() if count > 1]
