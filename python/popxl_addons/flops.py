"""How many floating-point operations a graph stands for, counted from shapes.

Products and convolutions count 2 for each multiplication and addition, element-wise ops and
reductions 1 for each element. Calls count what they call, loops as often as they run it.
"""

from collections.abc import Callable

import numpy as np
import popxl
from popxl.graph import OpRecord
from popxl.records import of
from popxl.utils import table_to_string

_FREE = (
    *("Init", "HostLoad", "HostStore", "RemoteLoad", "RemoteStore", "MultiExchange", "IpuCopy"),
    *("Reshape", "ReshapeInplace", "Transpose", "TransposeInplace", "Slice", "SliceInplace"),
    *("Concat", "ConcatInplace", "Split", "Gather", "TiedGather", "Identity", "Cast", "Detach"),
    *("CopyVarUpdate", "PrintTensor", "IoTileCopy", "RemoteCodeLoad", "Scatter", "OneHot"),
)


def _elements(t: popxl.Tensor) -> int:
    return int(np.prod(t.shape, dtype=np.int64))


def _matmul(op: OpRecord) -> int:
    lhs = op.inputs[0]
    assert lhs is not None
    return 2 * _elements(op.outputs[0]) * lhs.shape[-1]


def _conv(op: OpRecord) -> int:
    weight = op.inputs[1]
    assert weight is not None
    return 2 * _elements(op.outputs[0]) * int(np.prod(weight.shape[1:], dtype=np.int64))


def _conv_transpose(op: OpRecord) -> int:
    x, weight = op.inputs[:2]
    assert x is not None and weight is not None
    return 2 * _elements(x) * int(np.prod(weight.shape[1:], dtype=np.int64))


def _largest(op: OpRecord) -> int:
    return max((_elements(t) for t in (*op.inputs, *op.outputs) if t is not None), default=0)


_RULES: dict[str, Callable[[OpRecord], int]] = {
    "MatMul": _matmul,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
}


def evaluate_FLOPs(graph: popxl.Graph) -> "dict[str, int]":
    """The operations of a graph by op type, calls included."""
    found: dict[str, int] = {}
    for op in of(graph).ops:
        if op.called:
            inner = [evaluate_FLOPs(called) for called in op.called]
            times = op.repeats
            for types in inner:
                for kind, count in types.items():
                    found[kind] = found.get(kind, 0) + times * count
        elif op.op_type not in _FREE:
            rule = _RULES.get(op.op_type, _largest)
            found[op.op_type] = found.get(op.op_type, 0) + rule(op)
    return found


def total_FLOPs(graph: popxl.Graph) -> int:
    """All operations of a graph."""
    return sum(evaluate_FLOPs(graph).values())


def print_FLOPs(graph: popxl.Graph) -> None:
    """Prints the operations of a graph by op type, and in all."""
    counts = evaluate_FLOPs(graph)
    rows = [["op", "FLOPs"], *([k, str(n)] for k, n in counts.items())]
    print(table_to_string([*rows, ["total", str(sum(counts.values()))]]))
