"""GraphCache: graphs that were made before are used again."""

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
    """The arguments by the names of the function's parameters, defaults too."""
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
    # Hashes of numbers are alike too often: hash(-1) == hash(-2).
    return (type(value), value) if isinstance(value, _VALUES) else hash(value)


class GraphCache:
    """Graphs by what made them: function, IPU, tile set, specs of tensors, other arguments.

    Functions and arguments are told apart by their hash: two Modules of the same `__hash__` share
    graphs. Graphs live as long as the cache and their Ir. TypeError: an argument has no hash.
    """

    def cached(
        self, what: Any, fn: Callable[..., Any], args: tuple, kwargs: dict, make: Callable[[], Any]
    ) -> Any:
        """What `make` gave for a function and its arguments before, else what it gives now.

        what: further part of the key.
        """
        context = get_current_context()
        arguments = _arguments(fn, args, kwargs)
        key = (what, hash(fn), context.ipu, context.io_tiles, _key_of(arguments))
        graphs = of(popxl.gir()).cached.setdefault(self, {})
        if key not in graphs:
            graphs[key] = (make(), fn, arguments)  # what lives keeps its hash for itself
        return graphs[key][0]

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> popxl.Graph:
        """The graph of `fn` for these arguments; see `Ir.create_graph`."""
        make = functools.partial(popxl.gir().create_graph, fn, *args, **kwargs)
        return self.cached("graph", fn, args, kwargs, make)


def _tensors(value: Any) -> Iterator[popxl.Tensor]:
    if isinstance(value, popxl.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _tensors(inner)


def input_tensors(fn: Callable[..., Any], args: tuple, kwargs: dict) -> list[popxl.Tensor]:
    """The tensors among the arguments, in the order of the inputs of the function's graph."""
    return list(_tensors(_arguments(fn, args, kwargs)))


def function(fn: Callable[..., Any]) -> Callable[..., "tuple[popxl.Tensor, ...]"]:
    """A decorator: calling the function calls a graph of it, made once for equal arguments.

    The call gives the tuple of the graph's outputs.
    """
    cache = GraphCache()

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> "tuple[popxl.Tensor, ...]":
        graph = cache.create_graph(fn, *args, **kwargs)
        return popxl.ops.call(graph, *input_tensors(fn, args, kwargs))

    return run
