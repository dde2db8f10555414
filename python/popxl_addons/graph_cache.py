"""GraphCache: reuses graphs for equal arguments."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import popxl
from popxl._impl.records import of
from popxl.context import get_current_context
from popxl.tensor import TensorSpec
from popxl_addons.dot_tree import DotTree
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs

_VALUES = (int, float, complex, str, bytes, type(None))


def _arguments(fn: Callable[..., Any], args: tuple, kwargs: dict) -> dict[str, Any]:
    """Returns the arguments by the names of the function's parameters, including defaults."""
    build = fn.build if isinstance(fn, popxl.Module) else fn
    bound = inspect.signature(build).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def _key_of(value: Any) -> Any:
    if isinstance(value, (popxl.Tensor, TensorSpec)):
        return ("tensor", (value.shape, value.dtype, value.meta_shape))
    if isinstance(value, BoundGraph):
        args = tuple((t, value.args[t]) for t in value.graph.inputs if t in value.args)
        return ("bound", value.graph, args)
    if isinstance(value, GraphWithNamedArgs):
        return ("graph", value.graph)
    if isinstance(value, DotTree):
        return ("tree", _key_of(value.to_dict()))
    if isinstance(value, (list, tuple)):
        return ("sequence", tuple(_key_of(v) for v in value))
    if isinstance(value, Mapping):
        return ("mapping", tuple((k, _key_of(v)) for k, v in value.items()))
    # Hashes of different numbers may be equal: hash(-1) == hash(-2).
    return (type(value), value) if isinstance(value, _VALUES) else hash(value)


class GraphCache:
    """Graphs by function, IPU, tile set, specs of tensors and other arguments.

    Functions and arguments are distinguished by their hash: two Modules with equal `__hash__` share
    graphs. Graphs live as long as the cache and their Ir. An argument without a hash raises
    TypeError.
    """

    def cached(
        self, what: Any, fn: Callable[..., Any], args: tuple, kwargs: dict, make: Callable[[], Any]
    ) -> Any:
        """Returns the cached result of `make` for a function and its arguments, or makes it.

        Args:
            what: A further part of the key.
            fn: The function.
            args: The function's positional arguments.
            kwargs: The function's keyword arguments.
            make: The function that makes the result.
        """
        context = get_current_context()
        arguments = _arguments(fn, args, kwargs)
        key = (what, hash(fn), context.ipu, context.io_tiles, _key_of(arguments))
        graphs = of(popxl.gir()).cached.setdefault(self, {})
        if key not in graphs:
            graphs[key] = (make(), fn, arguments)  # keeps them alive, so hashes stay unique
        return graphs[key][0]

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> popxl.Graph:
        """Returns the graph of `fn` for these arguments; see `Ir.create_graph`.

        Args:
            fn: The function.
            *args: The function's positional arguments.
            **kwargs: The function's keyword arguments.
        """
        make = functools.partial(popxl.gir().create_graph, fn, *args, **kwargs)
        return self.cached("graph", fn, args, kwargs, make)


def _tensors(value: Any) -> Iterator[popxl.Tensor]:
    if isinstance(value, popxl.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _tensors(inner)


def input_tensors(fn: Callable[..., Any], args: tuple, kwargs: dict) -> list[popxl.Tensor]:
    """Returns the tensors among the arguments, in the order of the function graph's inputs."""
    return list(_tensors(_arguments(fn, args, kwargs)))


def function(fn: Callable[..., Any]) -> Callable[..., "tuple[popxl.Tensor, ...]"]:
    """Decorates a function: a call of it calls its graph, which is made once for equal arguments.

    The call returns the tuple of the graph's outputs.

    Args:
        fn: The function.
    """
    cache = GraphCache()

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> "tuple[popxl.Tensor, ...]":
        graph = cache.create_graph(fn, *args, **kwargs)
        return popxl.ops.call(graph, *input_tensors(fn, args, kwargs))

    return run
