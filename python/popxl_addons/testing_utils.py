"""Runs a module on data, for tests."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors


@dataclass
class TensorInput:
    """Data that reaches a module as a tensor.

    dtype: by default the data's, with at most 32 bits.
    """

    data: Any
    dtype: "popxl.dtype | None" = None


Weights = Mapping[Any, Any] | Callable[[NamedTensors], Mapping[Any, Any]]


def ops_of_type(ops: "Iterable[Any]", op_class: type) -> int:
    """How many of a graph's ops, as `popart._internal.ir` shows them, are of a class."""
    return sum(isinstance(op, op_class) for op in ops)


def run_module(
    module: Module, *args: Any, weights: "Weights | None" = None, **kwargs: Any
) -> list[np.ndarray]:
    """What a module makes of its arguments, as arrays.

    args, kwargs: TensorInputs become variables, so that the module may write into them; everything
    else is passed on. weights: {variable: data}, or what gives that for the module's variables by
    name; the others are initialised.
    """
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        positional = [_loaded(a) for a in args]
        named = {k: _loaded(v) for k, v in kwargs.items()}
        factories, graph = module.create_graph(*positional, **named)
        variables = factories.init()
        given = [v for v in (*positional, *named.values()) if isinstance(v, popxl.Tensor)]
        results = graph.bind(variables).call(*given)
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
        for stream, t in zip(streams, results, strict=True):
            ops.host_store(stream, t)
    session = popxl.Session(ir, "ipu_hw")
    if weights is not None:
        session.write_variables_data(weights(variables) if callable(weights) else weights)
    with session:
        done = session.run()
    return [done[stream] for stream in streams]


def _loaded(value: Any) -> Any:
    if not isinstance(value, TensorInput):
        return value
    return popxl.variable(value.data, value.dtype)
