"""The share of the tiles' memory for products and convolutions: a hint for hardware.

Ops show it (`popart._internal.ir.op.MatMulOp`, `ConvOp`); it has no effect on the emulator.
"""

from collections.abc import Sequence

import popxl
from popxl._impl.records import of
from popxl.graph import OpRecord


def set_available_memory_proportion_by_ipu(ir: popxl.Ir, proportions: Sequence[float]) -> None:
    """Sets the share of each IPU's memory for products of all graphs.

    Args:
        ir: The program.
        proportions: Shares by IPU; IPUs without a number use the first one.

    Raises:
        ValueError: A number is not in [0, 1], or there is none.
    """
    for graph in of(ir).graphs:
        set_graph_available_memory_proportion_by_ipu(graph, proportions)


def set_graph_available_memory_proportion_by_ipu(
    graph: popxl.Graph, proportions: Sequence[float]
) -> None:
    """Like `set_available_memory_proportion_by_ipu`, for a graph and those that it calls.

    Args:
        graph: The graph.
        proportions: The proportion of each IPU, which the program records.

    Raises:
        ValueError: A number is not in [0, 1], or there is none.
    """
    if not proportions or any(not 0 <= p <= 1 for p in proportions):
        raise ValueError(f"Proportions of memory are numbers from 0 to 1 but got {proportions}.")
    for op in of(graph).ops:
        _set(op, proportions)
    for called in graph.called_graphs:
        set_graph_available_memory_proportion_by_ipu(called, proportions)


def _set(op: OpRecord, proportions: Sequence[float]) -> None:
    if op.op_type not in ("MatMul", "Conv", "ConvTranspose"):
        return
    ipu = of(op.outputs[0]).ipu or 0
    proportion = proportions[ipu if ipu < len(proportions) else 0]
    if op.op_type == "MatMul":
        op.attrs["available_memory_proportion"] = proportion
    else:
        op.attrs["available_memory_proportions"] = [proportion]
