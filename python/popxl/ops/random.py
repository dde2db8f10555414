"""Random numbers as functions of a seed tensor: uint32 of shape (2,).

A seed gives the same numbers in every op and run. New seeds come from the host, or from
`split_random_seed` and `create_random_seed`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from popxl import dtypes
from popxl.dtypes import checked, core_name, dtype as dtype_class
from popxl.ops.build import OpBuild, composed
from popxl.tensor import Tensor, constant

_DIGITS = {"f16": 11}  # bits of the significand, where it is not float32's 24


def check_seed(op_type: str, seed: Tensor) -> None:
    """Raises TypeError or ValueError unless the tensor is a seed."""
    if not isinstance(seed, Tensor):
        raise TypeError(f"{op_type} takes a seed tensor but got {seed!r}.")
    if seed.dtype is not dtypes.uint32 or seed.shape != (2,):
        raise ValueError(f"{op_type} takes a uint32 seed of shape (2,) but got {seed!r}.")


def _unit_interval(op: OpBuild, bits: Any, dtype: dtype_class) -> Any:
    """Converts the leading bits, as many as the dtype's significand, to numbers in [0, 1)."""
    digits = _DIGITS.get(core_name(dtype), 24)
    leading = op("shift_right", bits, op.scalar(dtypes.uint32, 32 - digits))
    small = op.cast(op.cast(leading, dtypes.int32), dtype)
    return op("mul", small, op.scalar(dtype, 2.0**-digits))


def _float(dtype: dtype_class) -> dtype_class:
    if not checked(dtype).is_floating_point:
        raise ValueError(f"The dtype of random numbers must be floating but is {dtype}.")
    return dtype


def random_uniform(
    seed_tensor: Tensor,
    shape: Sequence[int],
    low: float = 0.0,
    high: float = 1.0,
    dtype: dtype_class = dtypes.float32,
) -> Tensor:
    """Returns numbers uniformly distributed in [low, high).

    Args:
        seed_tensor: The seed, a uint32 tensor of two elements.
        shape: The shape.
        low: The lower end.
        high: The upper end.
        dtype: The data type.
    """
    check_seed("RandomUniform", seed_tensor)
    _float(dtype)

    def body(op: OpBuild) -> Any:
        bits = op("seeded_bits", seed_tensor, shape=list(shape))
        unit = _unit_interval(op, bits, dtype)
        scaled = op("mul", unit, op.scalar(dtype, high - low))
        return op("add", scaled, op.scalar(dtype, low))

    return composed("RandomUniform", [seed_tensor], "random_uniform_out", body)


def random_normal(
    seed_tensor: Tensor,
    shape: Sequence[int],
    mean: float = 0.0,
    std: float = 1.0,
    dtype: dtype_class = dtypes.float32,
) -> Tensor:
    """Returns normally distributed numbers (Box and Muller 1958).

    Args:
        seed_tensor: The seed, a uint32 tensor of two elements.
        shape: The shape.
        mean: The mean.
        std: The standard deviation.
        dtype: The data type.
    """
    check_seed("RandomNormal", seed_tensor)
    _float(dtype)
    f32 = dtypes.float32

    def half(op: OpBuild, bits: Any, row: int) -> Any:
        shape_of = bits.type[1]
        part = op(
            "slice",
            bits,
            starts=[row] + [0] * (len(shape_of) - 1),
            stops=[row + 1, *shape_of[1:]],
            steps=[1] * len(shape_of),
        )
        return _unit_interval(op, op("reshape", part, shape=list(shape)), f32)

    def body(op: OpBuild) -> Any:
        bits = op("seeded_bits", seed_tensor, shape=[2, *shape])
        above = op("sub", op.scalar(f32, 1), half(op, bits, 0))  # in (0, 1]
        radius = op("sqrt", op("mul", op("log", above), op.scalar(f32, -2)))
        angle = op("mul", half(op, bits, 1), op.scalar(f32, 2 * np.pi))
        normal = op("mul", radius, op("cos", angle))
        scaled = op("mul", normal, op.scalar(f32, std))
        return op.cast(op("add", scaled, op.scalar(f32, mean)), dtype)

    return composed("RandomNormal", [seed_tensor], "random_normal_out", body)


def _dropout(op: OpBuild, t: Tensor, seed: Tensor, p: float, shape: Sequence[int]) -> Any:
    """Returns t with elements zeroed with probability p or scaled; one draw per `shape` entry."""
    bits = op("seeded_bits", seed, shape=list(shape))
    leading = op("shift_right", bits, op.scalar(dtypes.uint32, 8))
    small = op.cast(leading, dtypes.int32)
    kept = op("ge", small, op.scalar(dtypes.int32, np.ceil(p * 2.0**24)))
    scaled = op("mul", t, op.scalar(t.dtype, 1 / (1 - p)))
    return op("select", kept, scaled, op.scalar(t.dtype, 0))


def _check_probability(what: str, p: float) -> None:
    if not 0 <= p < 1:
        raise ValueError(f"{what} must lie in [0, 1) but is {p}.")


def dropout(t: Tensor, seed_tensor: Tensor, p: float) -> Tensor:
    """Zeroes elements of `t` with probability p and scales the others by 1 / (1 - p).

    The gradient drops the same elements.

    Args:
        t: The tensor.
        seed_tensor: The seed, a uint32 tensor of two elements.
        p: The probability.

    Raises:
        ValueError: p is not in [0, 1).
    """
    check_seed("Dropout", seed_tensor)
    _check_probability("p", p)
    inputs = [t, seed_tensor]
    body = lambda op: _dropout(op, t, seed_tensor, p, t.shape)  # noqa: E731
    return composed("Dropout", inputs, "dropout_out", body)


def shaped_dropout(t: Tensor, seed_tensor: Tensor, shape: Sequence[int], ratio: float) -> Tensor:
    """`dropout` with one draw for each entry of `shape`, which broadcasts to the shape of `t`.

    Args:
        t: The tensor.
        seed_tensor: The seed, a uint32 tensor of two elements.
        shape: The shape of the draws.
        ratio: The probability.

    Raises:
        ValueError: The ratio is not in [0, 1), or `shape` does not broadcast to that of `t`.
    """
    check_seed("ShapedDropout", seed_tensor)
    _check_probability("ratio", ratio)
    if np.broadcast_shapes(tuple(shape), t.shape) != t.shape:
        raise ValueError(f"Shape {tuple(shape)} does not broadcast to that of {t!r}.")
    inputs = [t, seed_tensor]
    body = lambda op: _dropout(op, t, seed_tensor, ratio, shape)  # noqa: E731
    return composed("ShapedDropout", inputs, "shapeddropout_out", body)


def create_random_seed(seed: Tensor, modifier: "int | Tensor") -> Tensor:
    """Returns a seed that depends on another and on `modifier`, an int or a scalar int tensor.

    Args:
        seed: The other seed, a uint32 tensor of two elements.
        modifier: The number that distinguishes the new seed.
    """
    check_seed("ModifyRandomSeed", seed)
    if not isinstance(modifier, Tensor):
        modifier = constant(modifier, dtypes.uint32)

    def body(op: OpBuild) -> Any:
        words = op("reshape", op.cast(modifier, dtypes.uint32), shape=[1])
        words = op("concat", words, op.array([0], dtypes.uint32), axis=0)
        return op("seeded_bits", op("bitwise_xor", seed, words), shape=[2])

    return composed("ModifyRandomSeed", [seed, modifier], "modified_seed", body)


def split_random_seed(seed: Tensor, n: int = 2) -> tuple[Tensor, ...]:
    """Returns n seeds that depend on one. Raises ValueError unless n is positive.

    Args:
        seed: The seed, a uint32 tensor of two elements.
        n: The number of seeds.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1 but is {n}.")
    return tuple(create_random_seed(seed, i) for i in range(n))
