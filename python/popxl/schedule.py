"""The text of a graph's schedule, as PopXL prints it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from popxl.records import of

if TYPE_CHECKING:
    from popxl.graph import Graph, OpRecord
    from popxl.tensor import Tensor


class _Numbers:
    """Numbers tensors `%1, %2, ...` on first sight."""

    def __init__(self) -> None:
        self._numbers: dict[Tensor, str] = {}

    def __call__(self, tensor: "Tensor") -> str:
        return self._numbers.setdefault(tensor, f"%{len(self._numbers) + 1}")

    def typed(self, tensor: "Tensor") -> str:
        return f"{self(tensor)} [{tensor.shape} {tensor.dtype.name}]"


def _op_line(op: "OpRecord", number: _Numbers) -> str:
    called = "".join(f"({graph.name})" for graph in op.called)
    inputs = ", ".join(number.typed(t) for t in op.inputs if t is not None)
    outputs = ", ".join(number.typed(t) for t in op.outputs)
    return f"    {op.op_type}.{op.id}{called} ({inputs}) -> ({outputs})"


def schedule_text(graph: "Graph", names: "Mapping[Tensor, str] | None" = None) -> str:
    """The graph's inputs, ops in order, and outputs. `names` are shown before inputs."""
    number = _Numbers()
    names = names or {}
    inputs = []
    for tensor in graph.inputs:
        text = number(tensor)
        inputs.append(f"{names[tensor]}={text}" if tensor in names else text)
    lines = [_op_line(op, number) for op in of(graph).ops]
    outputs = ", ".join(number(t) for t in graph.outputs)
    head = f"  ({', '.join(inputs)}) -> ({outputs}) {{"
    return "\n".join([f"Graph : {graph.name}", head, *lines, "  }"])
