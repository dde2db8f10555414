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
    """Data that a module gets as a tensor.

    dtype: By default the data's type, with at most 32 bits.
    """

    data: Any
    dtype: "popxl.dtype | None" = None


Weights = Mapping[Any, Any] | Callable[[NamedTensors], Mapping[Any, Any]]


def ops_of_type(ops: "Iterable[Any]", op_class: type) -> int:
    """Returns the number of ops of a class, among ops from `popart._internal.ir`."""
    return sum(isinstance(op, op_class) for op in ops)


def run_module(
    module: Module, *args: Any, weights: "Weights | None" = None, **kwargs: Any
) -> list[np.ndarray]:
    """Runs a module on its arguments and returns the outputs as arrays.

    Args:
        module: The module.
        args: Arguments of the module. TensorInputs become variables, which the module may write;
            other values are passed on.
        weights: {variable: data}, or a function of the module's variables by name that returns it;
            other variables are initialised.
        kwargs: Keyword arguments, like args.
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
