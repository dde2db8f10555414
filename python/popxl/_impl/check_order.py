"""Refuses programs in which in-place writes have no fixed order.

The compiler runs ops in the order in which they were written, but a program must not rely on that.
A chain of results or an `in_sequence` must order an op that writes a tensor and every other op that
uses the same memory. The check ignores calls that write by reference, as PopXL does.
"""

from typing import TYPE_CHECKING

from popxl._impl.records import of
from popxl.context import ExecutionContext
from popxl.errors import popart_exception

if TYPE_CHECKING:
    from popxl.graph import Graph, OpRecord
    from popxl.ir import Ir
    from popxl.tensor import Tensor

_CALLS = ("Call", "Loop")


def check_order(ir: "Ir") -> None:
    """Raises popart_exception that names two ops whose order on one tensor is undefined."""
    for graph in of(ir).graphs:
        _check_graph(graph)


def _check_graph(graph: "Graph") -> None:
    writers: dict[Tensor, list[OpRecord]] = {}
    users: dict[Tensor, list[OpRecord]] = {}
    for op in of(graph).ops:
        if op.settings.executionContext is not ExecutionContext.Normal:
            continue
        for tensor in op.modified if op.op_type not in _CALLS else ():
            writers.setdefault(of(tensor).root(), []).append(op)
        for root in {of(t).root() for t in op.inputs if t is not None}:
            users.setdefault(root, []).append(op)
    if not writers:
        return
    earlier = _ancestors(graph)
    for root, ops in writers.items():
        for writer in ops:
            for user in users.get(root, []):
                first, second = sorted((writer, user), key=lambda op: op.id)
                if first is not second and not _are_ordered(earlier, first.id, second.id):
                    raise popart_exception(
                        f"Inplacing ambiguity detected. {first.op_type}.{first.id} and "
                        f"{second.op_type}.{second.id} of graph {of(graph).label} both use "
                        f"{root!r}, which {writer.op_type}.{writer.id} writes in place, and "
                        "their order is not defined. Write them inside "
                        "`with popxl.in_sequence():`."
                    )


def _are_ordered(earlier: dict[int, int], first: int, second: int) -> bool:
    """Returns whether two ops, given by id, have a defined order."""
    base = min(earlier)
    return bool((earlier[second] >> first - base | earlier[first] >> second - base) & 1)


def _ancestors(graph: "Graph") -> dict[int, int]:
    """Returns for each op the ops of its graph that must come before it, as a bit set."""
    out: dict[int, int] = {}
    base = min(op.id for op in of(graph).ops)
    for op in of(graph).ops:
        known = 0
        for before in (*(maker.id for _, maker in op.makers()), *op.after):
            if before in out and before != op.id:
                known |= out[before] | 1 << before - base
        out[op.id] = known
    return out
