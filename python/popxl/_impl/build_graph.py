"""Makes graphs from functions: chooses which arguments become inputs, and names them."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from popxl._impl.records import of
from popxl.graph import Graph
from popxl.module import Module
from popxl.tensor import Tensor, TensorByRef, TensorSpec, graph_input

if TYPE_CHECKING:
    from popxl.ir import Ir

_INPUTS = (Tensor, TensorSpec)


def graph_name(fn: Any) -> str:
    """Returns the base name of a graph made from `fn`. Raises TypeError if `fn` has none."""
    if isinstance(fn, Module):
        return type(fn).__qualname__.replace(".<locals>", "")
    if not callable(fn) or not hasattr(fn, "__qualname__"):
        raise TypeError(
            f"create_graph takes a function or a popxl.Module but got {type(fn).__name__}."
        )
    return fn.__qualname__.replace(".<locals>", "")


def build_graph(ir: "Ir", fn: Callable[..., Any], args: tuple, kwargs: dict) -> Graph:
    """See Ir.create_graph."""
    name = graph_name(fn)
    signature = inspect.signature(fn.build if isinstance(fn, Module) else fn)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(
            f"The arguments do not match the signature of {name}{signature}: {error}."
        ) from error
    bound.apply_defaults()
    # This graph reserves its name before `fn` makes other graphs.
    graph = ir.create_empty_graph(name)
    with graph:
        for key, value in bound.arguments.items():
            parameter = signature.parameters[key]
            by_ref = _is_by_ref(parameter.annotation)
            bound.arguments[key] = _as_input(value, key, parameter.kind, by_ref)
        results = fn(*bound.args, **bound.kwargs)
    of(graph).set_outputs(_outputs(results, name))
    return graph


def _is_by_ref(annotation: Any) -> bool:
    return annotation is TensorByRef or annotation in ("TensorByRef", "popxl.TensorByRef")


def _input(spec: "Tensor | TensorSpec", name: str, by_ref: bool) -> Tensor:
    return graph_input(spec.shape, spec.dtype, name, by_ref=by_ref, meta_shape=spec.meta_shape)


def _as_input(value: Any, name: str, kind: Any, by_ref: bool) -> Any:
    if isinstance(value, _INPUTS):
        return _input(value, name, by_ref)
    if kind is inspect.Parameter.VAR_KEYWORD:
        _check_uniform(value.values(), name)
        return {
            key: _input(v, key, by_ref) if isinstance(v, _INPUTS) else v for key, v in value.items()
        }
    if isinstance(value, (list, tuple)) and not isinstance(value, Mapping):
        _check_uniform(value, name)
        made = [
            _input(v, f"{name}_{i}", by_ref) if isinstance(v, _INPUTS) else v
            for i, v in enumerate(value)
        ]
        return type(value)(made) if type(value) in (list, tuple) else value
    return value


def _check_uniform(values: Iterable[Any], name: str) -> None:
    kinds = {isinstance(value, _INPUTS) for value in values}
    if len(kinds) > 1:
        raise TypeError(
            f"Argument {name!r} mixes tensors with other values. Pass them as separate arguments."
        )


def _outputs(results: Any, name: str) -> list[Tensor]:
    if results is None:
        return []
    if isinstance(results, Tensor):
        return [results]
    found = list(results) if isinstance(results, Iterable) else [results]
    for result in found:
        if not isinstance(result, Tensor):
            raise ValueError(f"{name} must return tensors but returned a {type(result).__name__}.")
    return found
