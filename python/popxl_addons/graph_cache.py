"""GraphCache: graphs that were made before are used again."""

import functools
from collections.abc import Callable
from typing import Any

import popxl
from popxl.context import get_current_context
from popxl.tensor import TensorSpec
from popxl_addons.dot_tree import DotTree


def _key_of(value: Any) -> Any:
    if isinstance(value, (popxl.Tensor, TensorSpec)):
        spec = value.spec if isinstance(value, popxl.Tensor) else value
        return ("tensor", spec)
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_key_of(v) for v in value))
    if isinstance(value, dict):
        return (dict, tuple((k, _key_of(v)) for k, v in value.items()))
    if isinstance(value, DotTree):
        return (DotTree, _key_of(value.to_dict()))
    return (type(value), value)


class GraphCache:
    """Graphs by what made them: function, IPU, tile set, specs of tensors, other arguments.

    TypeError when an argument is not hashable.
    """

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}

    def cached(self, key: Any, args: tuple, kwargs: dict, make: Callable[[], Any]) -> Any:
        """What `make` gave for equal arguments before, else what it gives now."""
        context = get_current_context()
        full = (key, popxl.gir().id, context.ipu, context.io_tiles, _key_of(args), _key_of(kwargs))
        if full not in self._made:
            self._made[full] = make()
        return self._made[full]

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> popxl.Graph:
        """The graph of `fn` for these arguments; see `Ir.create_graph`."""
        make = functools.partial(popxl.gir().create_graph, fn, *args, **kwargs)
        return self.cached(fn, args, kwargs, make)


def function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: calling the function calls a graph of it, made once for equal arguments."""
    cache = GraphCache()

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        graph = cache.create_graph(fn, *args, **kwargs)
        given = [*args, *kwargs.values()]
        flat: list[popxl.Tensor] = []
        for value in given:
            values = value if isinstance(value, (list, tuple)) else [value]
            flat += [v for v in values if isinstance(v, popxl.Tensor)]
        outputs = popxl.ops.call(graph, *flat)
        return outputs[0] if len(outputs) == 1 else outputs or None

    return run
