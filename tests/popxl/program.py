"""Runs small PopXL programs: NumPy arrays in, NumPy arrays out."""

import numpy as np
import popxl
from popxl import ops


def run_graph(function, *arrays, downcast=True, replication=1):
    """Returns the results of `function(*tensors)` for tensors loaded from the arrays, as arrays.

    With several replicas, they are the first dimension of the arrays and of the results.
    """
    ir = popxl.Ir(replication=replication)
    inputs, outputs = {}, []
    with ir.main_graph, popxl.in_sequence():
        tensors = []
        for array in arrays:
            array = np.asarray(array)
            shape = array.shape[1:] if replication > 1 else array.shape
            stream = popxl.h2d_stream(shape, popxl.dtype.as_dtype(array), "x")
            inputs[stream] = array
            tensors.append(ops.host_load(stream))
        results = function(*tensors)
        for result in results if isinstance(results, (tuple, list)) else [results]:
            stream = popxl.d2h_stream(result.shape, result.dtype, "y")
            ops.host_store(stream, result)
            outputs.append(stream)
    with popxl.Session(ir, "ipu_hw") as session:
        done = session.run(inputs, downcast_inputs=downcast)
    return [done[stream] for stream in outputs]


def t(*shape, dtype=popxl.float32):
    """Returns zeros."""
    return popxl.constant(np.zeros(shape), dtype)


def ids(*shape):
    return t(*shape, dtype=popxl.int32)


def image():
    return t(1, 2, 4, 4)
