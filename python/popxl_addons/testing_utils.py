"""Runs a module on data, for tests."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl.utils import to_numpy
from popxl_addons.module import Module


@dataclass
class TensorInput:
    """Data that reaches a module as a tensor.

    dtype: by default the data's. With several replicas `data` has them in front.
    """

    data: Any
    dtype: "popxl.dtype | None" = None


def run_module(
    module: Module,
    *args: Any,
    weights: "dict[str, Any] | None" = None,
    replicas: int = 1,
    **kwargs: Any,
) -> list[np.ndarray]:
    """What a module makes of its arguments, as arrays; replicas in front when there are several.

    args, kwargs: TensorInputs become tensors, everything else is passed on.
    weights: data for the module's variables by dotted name; the others are initialised.
    """
    ir = popxl.Ir(replication=replicas)
    feeds: dict[Any, np.ndarray] = {}

    def loaded(value: Any) -> Any:
        if not isinstance(value, TensorInput):
            return value
        data = to_numpy(value.data, value.dtype)
        shape = data.shape[1:] if replicas > 1 else data.shape
        stream = popxl.h2d_stream(shape, popxl.dtype.as_dtype(data))
        feeds[stream] = data
        return ops.host_load(stream)

    with ir.main_graph:
        positional = [loaded(a) for a in args]
        named = {k: loaded(v) for k, v in kwargs.items()}
        factories, graph = module.create_graph(*positional, **named)
        variables = factories.init()
        given = [v for v in (*positional, *named.values()) if isinstance(v, popxl.Tensor)]
        results = graph.bind(variables).call(*given)
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in results]
        for stream, t in zip(streams, results, strict=True):
            ops.host_store(stream, t)
    session = popxl.Session(ir, "ipu_hw")
    known: dict[str, Any] = variables.to_dict()
    session.write_variables_data({known[k]: v for k, v in (weights or {}).items()})
    with session:
        done = session.run(feeds)
    return [done[stream] for stream in streams]
