"""Element-wise ops of several tensors. They broadcast like NumPy's; dtypes must be equal."""

from typing import Any

from popxl._impl.operators import as_operand
from popxl._impl.records import of
from popxl.dtypes import computing_dtype
from popxl.ops.build import (
    OpBuild,
    as_bool,
    check_same_dtype,
    check_tensors,
    composed,
    in_place,
    simple,
)
from popxl.tensor import Tensor


def _binary(op_type: str, core: str, lhs: Tensor, rhs: Tensor, name: str) -> Tensor:
    if isinstance(lhs, Tensor) and isinstance(rhs, Tensor):
        check_same_dtype(op_type, lhs, rhs)
    return simple(op_type, core, [lhs, rhs], name)


def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs + rhs.

    Args:
        lhs: The left operand.
        rhs: The right operand; the two broadcast as in NumPy.
    """
    return _binary("Add", "add", lhs, rhs, "add_out")


def _into(op: OpBuild, t: Tensor, value: Any) -> Any:
    if tuple(value.type[1]) != t.shape:
        raise ValueError(f"{t!r} cannot hold a result of shape {tuple(value.type[1])}.")
    return value


def add_(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs += rhs. Raises ValueError unless the sum has the shape of lhs.

    Args:
        lhs: The operand that is written.
        rhs: The right operand, which broadcasts to the shape of `lhs`.
    """
    check_same_dtype("AddLhsInplace", lhs, rhs)
    return in_place(
        "AddLhsInplace",
        [lhs, rhs],
        "add_lhs_inplace_out",
        lambda op: _into(op, lhs, op("add", lhs, rhs)),
    )


def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs - rhs.

    Args:
        lhs: The left operand.
        rhs: The right operand; the two broadcast as in NumPy.
    """
    return _binary("Sub", "sub", lhs, rhs, "sub_out")


def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs · rhs.

    Args:
        lhs: The left operand.
        rhs: The right operand; the two broadcast as in NumPy.
    """
    return _binary("Mul", "mul", lhs, rhs, "mul_out")


def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs / rhs; integers round down.

    Args:
        lhs: The left operand.
        rhs: The right operand; the two broadcast as in NumPy.
    """
    core = "floor_div" if isinstance(lhs, Tensor) and lhs.dtype.is_int else "div"
    return _binary("Div", core, lhs, rhs, "div_out")


def fmod(lhs: Tensor, rhs: Tensor) -> Tensor:
    """The remainder of lhs / rhs with the sign of lhs.

    Args:
        lhs: The left operand.
        rhs: The right operand; the two broadcast as in NumPy.
    """
    return _binary("Fmod", "fmod", lhs, rhs, "fmod_out")


def pow(t: Tensor, e: "float | Tensor") -> Tensor:
    """t to the power e.

    Args:
        t: The base.
        e: The exponent.
    """
    return _binary("Pow", "pow", t, as_operand(e, t), "pow_out")


def maximum(*ts: Tensor) -> Tensor:
    """Returns the element-wise maximum of the tensors. Raises ValueError without any.

    Args:
        *ts: The tensors, all of one dtype.
    """
    if not ts:
        raise ValueError("maximum takes at least one tensor.")
    check_same_dtype("Max", *ts)

    def body(op: OpBuild) -> Any:
        out = of(ts[0]).read()
        for t in ts[1:]:
            out = op("maximum", out, t)
        return out if len(ts) > 1 else op("identity", out)

    return composed("Max", ts, "maximum_out", body)


def equal(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs == rhs, as bool.

    Args:
        lhs: The left operand.
        rhs: The right operand; the two broadcast as in NumPy.
    """
    return _binary("Equal", "eq", lhs, rhs, "equal_out")


def greater(input: Tensor, other: Tensor) -> Tensor:
    """input > other, as bool.

    Args:
        input: The left operand.
        other: The right operand; the two broadcast as in NumPy.
    """
    return _binary("Greater", "gt", input, other, "greater_out")


def _logical(op_type: str, core: str, lhs: Tensor, rhs: Tensor, name: str) -> Tensor:
    check_tensors(op_type, [lhs, rhs])
    return simple(op_type, core, [as_bool(lhs), as_bool(rhs)], name)


def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns whether both are true, as bool; other dtypes are cast to bool.

    Args:
        lhs: The left operand.
        rhs: The right operand; the two broadcast as in NumPy.
    """
    return _logical("And", "logical_and", lhs, rhs, "and_out")


def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns whether at least one is true, as bool; other dtypes are cast to bool.

    Args:
        lhs: The left operand.
        rhs: The right operand; the two broadcast as in NumPy.
    """
    return _logical("Or", "logical_or", lhs, rhs, "or_out")


def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Returns lhs where the condition is true, else rhs; the condition is cast to bool.

    Args:
        condition: The condition, cast to bool.
        lhs: The values where the condition is true.
        rhs: The values elsewhere.
    """
    check_tensors("Where", [condition, lhs, rhs])
    check_same_dtype("Where", lhs, rhs)
    return simple("Where", "select", [as_bool(condition), lhs, rhs], "where_out")


def _scaled(op: OpBuild, X: Tensor, Y: Tensor, a: Any, b: Any) -> Any:
    """Returns a·X + b·Y, rounded once to X's dtype, without multiplications by 1."""
    wide = computing_dtype(X.dtype)

    def term(t: Tensor, scale: Any) -> Any:
        value = op.cast(t, wide)
        if isinstance(scale, Tensor):
            return op("mul", value, op.cast(scale, wide))
        return value if scale == 1.0 else op("mul", value, op.scalar(wide, scale))

    return op.cast(op("add", term(X, a), term(Y, b)), X.dtype)


def _scaled_inputs(X: Tensor, Y: Tensor, a: Any, b: Any) -> "list[Tensor | None]":
    if X.shape != Y.shape:
        raise ValueError(f"scaled_add takes equal shapes but got {X.shape} and {Y.shape}.")
    if isinstance(a, Tensor) and not isinstance(b, Tensor) and b != 1.0:
        raise ValueError("scaled_add cannot take a tensor for a and a float for b.")
    a_in = a if isinstance(a, Tensor) else None
    b_in = b if isinstance(b, Tensor) else None
    return [X, Y, a_in, b_in]


def scaled_add(
    X: Tensor, Y: Tensor, a: "float | Tensor" = 1.0, b: "float | Tensor" = 1.0
) -> Tensor:
    """Returns a·X + b·Y of equal shapes, in X's dtype. a and b: numbers or scalar tensors.

    Args:
        X: The first tensor.
        Y: The second tensor.
        a: The factor of `X`: a number or a scalar tensor.
        b: The factor of `Y`: a number or a scalar tensor.
    """
    inputs = _scaled_inputs(X, Y, a, b)
    return composed("ScaledAdd", inputs, "scaled_add_out", lambda op: _scaled(op, X, Y, a, b))


def scaled_add_(
    X: Tensor, Y: Tensor, a: "float | Tensor" = 1.0, b: "float | Tensor" = 1.0
) -> Tensor:
    """X = a·X + b·Y, like `scaled_add`.

    Args:
        X: The first tensor, which is written.
        Y: The second tensor.
        a: The factor of `X`: a number or a scalar tensor.
        b: The factor of `Y`: a number or a scalar tensor.
    """
    inputs = _scaled_inputs(X, Y, a, b)
    op = OpBuild("ScaledAddLhsInplace", *inputs)
    name = f"scaled_add__{X.name}"
    if isinstance(b, Tensor) or isinstance(a, Tensor) or a != 1.0:
        out = op.write(X, _scaled(op, X, Y, a, b), name)
    else:
        out = op.accumulate(X, Y, b, name)
    op.done()
    return out
