"""Counts of a graph's floating-point operations, from shapes.

Products count 2 for each multiply-add, element-wise arithmetic 1 for each element. Normalisation
counts 7 for each element: mean, deviation, its square and their mean, division, scale and shift.
Other ops are not counted. Calls count the called graph, loops every round.
"""

from collections.abc import Callable, Iterator
from typing import Any

import popxl
from popxl._impl.records import of
from popxl.graph import OpRecord
from popxl.utils import table_to_string
from popxl_addons.utils import plain_graph_name

TOTAL = "TOT"
_NORM = 7
_EXPONENTS = {"K": 3, "M": 6, "G": 9, "T": 12}


def _matmul(op: OpRecord) -> int:
    lhs = op.inputs[0]
    assert lhs is not None
    return 2 * op.outputs[0].nelms * lhs.shape[-1]


def _elementwise(op: OpRecord) -> int:
    return op.outputs[0].nelms


def _norm(op: OpRecord) -> int:
    return _NORM * op.outputs[0].nelms


_RULES: dict[str, Callable[[OpRecord], int]] = {"MatMul": _matmul, "GroupNormalization": _norm}
_RULES |= {
    f"{name}{place}": _elementwise
    for name in ("Add", "Sub", "Mul", "Div")
    for place in ("", "LhsInplace", "RhsInplace")
}


def _numbers(breakdown: "dict[Any, Any]") -> Iterator[int]:
    for value in breakdown.values():
        if isinstance(value, dict):
            yield from _numbers(value)
        else:
            yield value


def _times(breakdown: "dict[Any, Any]", count: int) -> dict[Any, Any]:
    return {
        key: _times(value, count) if isinstance(value, dict) else value * count
        for key, value in breakdown.items()
    }


def evaluate_FLOPs(graph: popxl.Graph) -> "dict[str, Any]":
    """Returns a graph's operations: {op type: {op id: operations}}, and {"TOT": the total}.

    Operations of a call of graph "Layer" are under their types, as {"Call_<op id>(Layer)": {op id:
    ...}}; numbers of a loop's graph include all rounds.

    Args:
        graph: The graph to count.
    """
    found: dict[str, Any] = {}
    for op in of(graph).ops:
        for called in op.called:
            inner = _times(evaluate_FLOPs(called), op.repeats)
            del inner[TOTAL]
            name = f"{op.op_type}_{op.id}({plain_graph_name(called.name)})"
            for kind, ops in inner.items():
                found.setdefault(kind, {})[name] = ops
        if op.op_type in _RULES:
            found.setdefault(op.op_type, {})[op.id] = _RULES[op.op_type](op)
    return {**found, TOTAL: sum(_numbers(found))}


def evaluate_ir_FLOPs(ir: popxl.Ir) -> "dict[str, Any]":
    """Returns `evaluate_FLOPs` of the main graph, on all replicas.

    Args:
        ir: The program.
    """
    return _times(evaluate_FLOPs(ir.main_graph), ir.replication_factor)


def total_FLOPs(ir: popxl.Ir) -> int:
    """Returns the total operations of a program, on all replicas.

    Args:
        ir: The program.
    """
    return evaluate_ir_FLOPs(ir)[TOTAL]


def format_flops_scientific(v: float, numerical_format: str = "nearest3") -> str:
    """Formats a number with 3 decimals and an exponent, e.g. "1.500E+06".

    Args:
        v: The number.
        numerical_format: The exponent: the largest multiple of 3 ("nearest3"), or that of "K",
            "M", "G" or "T".

    Raises:
        ValueError: numerical_format is another one.
    """
    if numerical_format == "nearest3":
        exponent = max(0, (len(str(int(abs(v)))) - 1) // 3 * 3)
    elif numerical_format in _EXPONENTS:
        exponent = _EXPONENTS[numerical_format]
    else:
        known = ("nearest3", *_EXPONENTS)
        raise ValueError(f"numerical_format must be one of {known} but is {numerical_format!r}.")
    return f"{v / 10**exponent:.3f}E+{exponent:02d}"


def _flat(breakdown: "dict[Any, Any]", path: str = "") -> Iterator[tuple[str, int]]:
    for key, value in breakdown.items():
        name = f"{path}/{key}" if path else str(key)
        if isinstance(value, dict):
            yield from _flat(value, name)
        else:
            yield name, value


def print_FLOPs(
    breakdown: "dict[str, Any]", mode: str = "type", numerical_format: str = "nearest3"
) -> None:
    """Prints the result of `evaluate_FLOPs`.

    Args:
        breakdown: The result.
        mode: "type" prints a line for each op type, "flat" for each op; both print the total.
        numerical_format: See `format_flops_scientific`.

    Raises:
        ValueError: The mode or format is another one.
    """
    if mode not in ("type", "flat"):
        raise ValueError(f"mode must be 'type' or 'flat' but is {mode!r}.")
    kinds = {kind: ops for kind, ops in breakdown.items() if kind != TOTAL}
    if mode == "flat":
        rows = list(_flat(kinds))
    else:
        rows = [(kind, sum(_numbers(ops))) for kind, ops in kinds.items()]
    rows.append((TOTAL, breakdown[TOTAL]))
    lines = [[name, format_flops_scientific(n, numerical_format)] for name, n in rows]
    print(table_to_string([["op", "FLOPs"], *lines]))
