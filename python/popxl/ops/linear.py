"""Matrix products."""

from typing import Any

from popxl import dtypes
from popxl._impl.records import of
from popxl.context import get_ir
from popxl.dtypes import dtype as dtype_class
from popxl.ops.build import OpBuild, check_same_dtype, composed
from popxl.tensor import Tensor

_PARTIALS = ("", "float", "half")


def _check_partials(partials_type: "dtype_class | None") -> None:
    if partials_type is None:
        option = get_ir()._pb_ir.getSessionOptions().partialsTypeMatMuls
        if option not in _PARTIALS:
            raise ValueError(f"partialsTypeMatMuls must be one of {_PARTIALS} but is {option!r}.")
    elif partials_type not in (dtypes.float16, dtypes.float32):
        raise ValueError(f"partials_type must be float16 or float32 but is {partials_type}.")


def memory_plan(share: "float | None", partials: Any) -> dict[str, Any]:
    """Returns the attributes of a core op for the hints of a product or convolution.

    Args:
        share: The share of memory, or None.
        partials: A dtype, or its name as PopART has it; None for the default.

    Raises:
        ValueError: The share is not from 0 to 1.
    """
    if share is not None and not 0 <= share <= 1:
        raise ValueError(f"The available memory proportion must be from 0 to 1 but is {share}.")
    plan: dict[str, Any] = {} if share is None else {"memory_proportion": float(share)}
    if partials is not None:
        half = partials is dtypes.float16 or str(partials).lower() in ("half", "float16")
        plan["partials"] = "half" if half else "float"
    return plan


def check_sizes(lhs: Tensor, rhs: Tensor) -> None:
    """Raises ValueError unless the two can be multiplied."""
    if not lhs.rank or not rhs.rank:
        raise ValueError("matmul does not take scalars: use ops.mul.")
    if lhs.shape[-1] != rhs.shape[-2 if rhs.rank > 1 else -1]:
        raise ValueError(f"matmul cannot multiply {lhs.shape} by {rhs.shape}: sizes differ.")


def matmul_values(op: OpBuild, a: Any, b: Any, **plan: Any) -> Any:
    """Returns the product of two values; vectors count as row and column.

    Args:
        op: The op.
        a: The first value.
        b: The second value.
        plan: The attributes `partials` and `memory_proportion` of the core op.
    """
    row, column = len(a.type[1]) == 1, len(b.type[1]) == 1
    a = op("reshape", a, shape=[1, *a.type[1]]) if row else a
    b = op("reshape", b, shape=[*b.type[1], 1]) if column else b
    out = op("matmul", a, b, **plan)
    shape = list(out.type[1])
    if column:
        del shape[-1]
    if row:
        del shape[-1 if column else -2]
    return out if shape == list(out.type[1]) else op("reshape", out, shape=shape)


def matmul(
    lhs: Tensor,
    rhs: Tensor,
    available_memory_proportion: "float | None" = None,
    output_type: "dtype_class | None" = None,
    partials_type: "dtype_class | None" = None,
) -> Tensor:
    """Returns the product of matrices with NumPy's rules: vectors count as row and column.

    The emulator keeps partial sums in float32.

    Args:
        lhs: The left operand.
        rhs: The right operand.
        available_memory_proportion: The share of a tile's memory for temporary data, 0 to 1. It
            changes modelled cycles and memory.
        output_type: float16 or float32; by default the operands' type.
        partials_type: The type of partial sums of operands in float16: float16, which rounds them,
            or float32; by default the session option partialsTypeMatMuls, or else float32.

    Raises:
        ValueError: Shapes, dtypes or options do not fit.
    """
    check_sizes(lhs, rhs)
    check_same_dtype("MatMul", lhs, rhs)
    if output_type is not None and output_type not in (dtypes.float16, dtypes.float32):
        raise ValueError(f"output_type must be float16 or float32 but is {output_type}.")

    _check_partials(partials_type)

    option = get_ir()._pb_ir.getSessionOptions().partialsTypeMatMuls or "float"
    partials = partials_type or dtype_class.as_dtype(option)
    plan = memory_plan(available_memory_proportion, partials)

    def body(op: OpBuild) -> Any:
        a, b = of(lhs).read(), of(rhs).read()
        if output_type is not None and output_type is not lhs.dtype:
            a, b = op.cast(a, output_type), op.cast(b, output_type)
        return matmul_values(op, a, b, **plan)

    return composed(
        "MatMul",
        [lhs, rhs],
        "matmul_out",
        body,
        partials=partials.name,
        available_memory_proportion=available_memory_proportion,
    )
