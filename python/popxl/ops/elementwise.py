"""Element-wise ops of one tensor. By default the output has the input's shape and dtype."""

from typing import Any

from popxl.dtypes import checked, dtype as dtype_class
from popxl.ops.binary import div, logical_or
from popxl.ops.build import (
    OpBuild,
    as_bool,
    cast_to,
    check_tensors,
    composed,
    float_only,
    in_place,
    normal_axis,
    simple,
)
from popxl.tensor import Tensor, constant


def _of_floats(op_type: str, core: str, t: Tensor, name: str, **attrs: Any) -> Tensor:
    return composed(op_type, [t], name, lambda op: float_only(op, core, t, **attrs))


def abs(t: Tensor) -> Tensor:
    """Returns the absolute value.

    Args:
        t: The tensor.
    """
    return simple("Abs", "abs", [t], "abs_out")


def ceil(t: Tensor) -> Tensor:
    """Rounds up to an integer.

    Args:
        t: The tensor.
    """
    return simple("Ceil", "ceil", [t], "ceil_out")


def floor(t: Tensor) -> Tensor:
    """Rounds down to an integer.

    Args:
        t: The tensor.
    """
    return simple("Floor", "floor", [t], "floor_out")


def sign(t: Tensor) -> Tensor:
    """Returns -1, 0 or 1; 0 for NaN.

    Args:
        t: The tensor.
    """

    def body(op: OpBuild) -> Any:
        value = op("sign", t)
        if not t.dtype.is_floating_point:
            return value
        return op("select", op("isnan", t), op.scalar(t.dtype, 0), value)

    return composed("Sign", [t], "sign_out", body)


def negate(t: Tensor) -> Tensor:
    """-t.

    Args:
        t: The tensor.
    """
    return simple("Neg", "neg", [t], "negate_out")


def sqrt(t: Tensor) -> Tensor:
    """Returns the square root.

    Args:
        t: The tensor.
    """
    return _of_floats("Sqrt", "sqrt", t, "sqrt_out")


def exp(t: Tensor) -> Tensor:
    """Returns e to the power t.

    Args:
        t: The tensor.
    """
    return _of_floats("Exp", "exp", t, "exp_out")


def exp_(t: Tensor) -> Tensor:
    """Computes e to the power t, in place.

    Args:
        t: The tensor.
    """
    return in_place("ExpInplace", [t], "exp_inplace_out", lambda op: float_only(op, "exp", t))


def log(t: Tensor) -> Tensor:
    """Returns the natural logarithm.

    Args:
        t: The tensor.
    """
    return _of_floats("Log", "log", t, "log_out")


def log2(t: Tensor) -> Tensor:
    """Returns the logarithm to base 2: log(t) divided by log of a constant 2.

    Args:
        t: The tensor.
    """
    return div(log(t), log(constant(2, t.dtype)))


def sin(t: Tensor) -> Tensor:
    """Returns the sine of an angle in radians.

    Args:
        t: The tensor.
    """
    return _of_floats("Sin", "sin", t, "sin_out")


def cos(t: Tensor) -> Tensor:
    """Returns the cosine of an angle in radians.

    Args:
        t: The tensor.
    """
    return _of_floats("Cos", "cos", t, "cos_out")


def tanh(t: Tensor) -> Tensor:
    """Returns the hyperbolic tangent.

    Args:
        t: The tensor.
    """
    return _of_floats("Tanh", "tanh", t, "tanh_out")


def isnan(t: Tensor) -> Tensor:
    """Returns whether each element is NaN, as bool.

    Args:
        t: The tensor.
    """
    return simple("IsNaN", "isnan", [t], "isnan_out")


def isinf(t: Tensor) -> Tensor:
    """Returns whether each element is infinite, as bool.

    Args:
        t: The tensor.
    """
    return simple("IsInf", "isinf", [t], "isinf_out")


def isfinite(t: Tensor) -> Tensor:
    """Returns whether each element is neither NaN nor infinite, as bool.

    Args:
        t: The tensor.
    """
    return identity(logical_not(logical_or(isnan(t), isinf(t))), "isfinite_out")


def logical_not(t: Tensor) -> Tensor:
    """Returns whether each element is false, as bool; other dtypes are cast to bool.

    Args:
        t: The tensor.
    """
    check_tensors("Not", [t])
    return simple("Not", "logical_not", [as_bool(t)], "not_out")


def clip(t: Tensor, min: float = float("-inf"), max: float = float("inf")) -> Tensor:
    """Limits the elements to at least `min` and at most `max`.

    Args:
        t: The tensor.
        min: The least value.
        max: The largest value.
    """
    return simple("Clip", "clamp", [t], "clip_out", low=float(min), high=float(max))


clamp = clip


def _incremented(op: OpBuild, t: Tensor, increment: float, modulus: float) -> Any:
    total = op("add", t, op.scalar(t.dtype, increment))
    return op("remainder", total, op.scalar(t.dtype, modulus))


def increment_mod(t: Tensor, increment: float, modulus: float) -> Tensor:
    """(t + increment) modulo `modulus`.

    Args:
        t: The tensor.
        increment: The number to add.
        modulus: The modulus.
    """
    return composed(
        "IncrementMod",
        [t],
        "increment_mod_out",
        lambda op: _incremented(op, t, increment, modulus),
    )


def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """(t + increment) modulo `modulus`, in place.

    Args:
        t: The tensor.
        increment: The number to add.
        modulus: The modulus.
    """
    return in_place(
        "IncrementModInplace",
        [t],
        "increment_mod_inplace_out",
        lambda op: _incremented(op, t, increment, modulus),
    )


def identity(t: Tensor, output_name: "str | None" = None) -> Tensor:
    """Returns a copy of the tensor.

    Args:
        t: The tensor.
        output_name: The name of the result.
    """
    return simple("Identity", "identity", [t], output_name or f"{t.name}_identity")


rename = identity


def detach(t: Tensor) -> Tensor:
    """Returns a copy of the tensor without gradient.

    Args:
        t: The tensor.
    """
    return simple("Detach", "detach", [t], "detach_out")


def detach_(t: Tensor) -> Tensor:
    """Returns the tensor without gradient, sharing its memory.

    Args:
        t: The tensor.
    """
    op = OpBuild("DetachInplace", t)
    out = op.alias(t, "detach_out", t.spec, lambda v: op("detach", v), lambda _, v: v)
    op.done()
    return out


def cast(t: Tensor, data_type: dtype_class) -> Tensor:
    """Casts the tensor to `data_type`. Raises TypeError for float8: see pow2scale_cast_to_fp8.

    Args:
        t: The tensor.
        data_type: The data type of the result.
    """
    if "float8" in checked(data_type).name or "float8" in t.dtype.name:
        raise TypeError(
            "popxl.ops.cast does not take float8: use ops.pow2scale_cast_to_fp8 or _from_fp8."
        )
    return cast_to(t, data_type)


def relu(t: Tensor) -> Tensor:
    """max(t, 0).

    Args:
        t: The tensor.
    """
    return simple("Relu", "relu", [t], "relu_out")


def relu_(t: Tensor) -> Tensor:
    """max(t, 0), in place.

    Args:
        t: The tensor.
    """
    return in_place("ReluInplace", [t], "relu_inplace_out", lambda op: op("relu", t))


def gelu(t: Tensor) -> Tensor:
    """Returns GELU by its tanh approximation.

    Args:
        t: The tensor.
    """
    return _of_floats("Gelu", "gelu", t, "gelu_out", approximate="tanh")


def gelu_(t: Tensor) -> Tensor:
    """Computes GELU by its tanh approximation, in place.

    Args:
        t: The tensor.
    """
    return in_place(
        "GeluInplace",
        [t],
        "gelu_inplace_out",
        lambda op: float_only(op, "gelu", t, approximate="tanh"),
    )


def geluerf(t: Tensor) -> Tensor:
    """Returns GELU by the error function.

    Args:
        t: The tensor.
    """
    return _of_floats("GeluErf", "gelu", t, "geluerf_out", approximate="none")


def geluerf_(t: Tensor) -> Tensor:
    """Computes GELU by the error function, in place.

    Args:
        t: The tensor.
    """
    return in_place(
        "GeluErfInplace",
        [t],
        "geluerf_inplace_out",
        lambda op: float_only(op, "gelu", t, approximate="none"),
    )


def swish(t: Tensor) -> Tensor:
    """t · sigmoid(t).

    Args:
        t: The tensor.
    """
    return _of_floats("Swish", "silu", t, "swish_out")


def swish_(t: Tensor) -> Tensor:
    """t · sigmoid(t), in place.

    Args:
        t: The tensor.
    """
    return in_place("SwishInplace", [t], "swish_inplace_out", lambda op: float_only(op, "silu", t))


def softmax(t: Tensor, axis: int) -> Tensor:
    """Returns exp(t) divided by its sum along `axis`.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
    """
    return _of_floats("Softmax", "softmax", t, "softmax_out", axis=normal_axis(axis, t.rank))
