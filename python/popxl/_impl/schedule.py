"""The order of a graph's ops, and the text of its schedule in PopXL's format."""

import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from popxl._impl.records import of

if TYPE_CHECKING:
    from popxl.graph import Graph, OpRecord
    from popxl.tensor import Tensor


class _Numbers:
    """Numbers tensors `%1, %2, ...` in the order of first use."""

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
    """Returns the graph's inputs, ops in order, and outputs as text. Inputs have `names`."""
    number = _Numbers()
    names = names or {}
    inputs = []
    for tensor in graph.inputs:
        text = number(tensor)
        inputs.append(f"{names[tensor]}={text}" if tensor in names else text)
    lines = [_op_line(op, number) for op in of(graph).ops]
    outputs = ", ".join(number(t) for t in graph.outputs)
    head = f"  ({', '.join(inputs)}) -> ({outputs}) {{"
    return "\n".join([f"Graph : {of(graph).label}", head, *lines, "  }"])


def op_order(graph: "Graph") -> "list[OpRecord]":
    """Returns the ops in the order in which they were written.

    Inside an `in_sequence(False)`, the next op is the one among the ready ops that adds the fewest
    live bytes.
    """
    out: list[OpRecord] = []
    for block, ops in itertools.groupby(of(graph).ops, key=lambda op: op.block):
        written = list(ops)
        out += written if block is None else _by_liveness(graph, written)
    return out


def _bytes(t: "Tensor") -> int:
    return math.prod(t.shape) * t.dtype.as_numpy().itemsize


def _by_liveness(graph: "Graph", ops: "list[OpRecord]") -> "list[OpRecord]":
    inside = {op.id for op in ops}
    users: dict[Tensor, set[int]] = {}
    for op in of(graph).ops:
        for t in op.inputs:
            if t is not None:
                users.setdefault(t, set()).add(op.id)
    before = {op.id: {m.id for _, m in op.makers()} | set(op.after) for op in ops}
    out: list[OpRecord] = []
    done: set[int] = set()
    while len(out) < len(ops):
        left = [op for op in ops if op.id not in done]
        ready = [op for op in left if not before[op.id] & inside - done]
        ready = ready or left[:1]

        def growth(op: "OpRecord") -> int:
            ends = [t for t in {*op.inputs} if t is not None and users[t] - done == {op.id}]
            made = [t for t in op.outputs if of(t).base is None]
            freed = [t for t in ends if of(t).producer is not None]
            return sum(map(_bytes, made)) - sum(map(_bytes, freed))

        chosen = min(ready, key=lambda op: (growth(op), op.id))
        out.append(chosen)
        done.add(chosen.id)
    return out
