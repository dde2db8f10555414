"""A hint for hardware, shown by ops: joint planning of fully connected layers' products."""

from collections.abc import Mapping

import popxl
from popxl._impl.records import of


def _set(ir: popxl.Ir, on: bool) -> None:
    for graph in of(ir).graphs:
        for op in of(graph).ops:
            if op.op_type == "MatMul":
                op.attrs["fully_connected_pass"] = on


def enable_fc_pass(ir: popxl.Ir, options: "Mapping[str, str] | None" = None) -> None:
    """Plans products of forward and backward passes together.

    Args:
        ir: The program.
        options: The options of the pass, without effect here.
    """
    _set(ir, True)


def disable_fc_pass(ir: popxl.Ir, options: "Mapping[str, str] | None" = None) -> None:
    """Plans each product by itself.

    Args:
        ir: The program.
        options: The options of the pass, without effect here.
    """
    _set(ir, False)
