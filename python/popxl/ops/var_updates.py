"""In-place updates of variables: accumulators, optimisers and copies.

float16 is computed in float32, and rounded once at the end. The operands may have other dtypes than
the updated tensor. Moving averages first round their sample to the dtype of the average.
"""

from typing import Any, TypeAlias

import numpy as np
from popxl import dtypes
from popxl._impl.records import of
from popxl.dtypes import computing_dtype, dtype as dtype_class
from popxl.ops.build import OpBuild, check_same_dtype, check_tensors, in_place, or_refused
from popxl.tensor import Tensor

Scalar: TypeAlias = float | Tensor


def _in(scale: "Scalar | None") -> "Tensor | None":
    return scale if isinstance(scale, Tensor) else None


def _scalar(op: OpBuild, scale: Scalar, dtype: dtype_class) -> Any:
    """Returns `scale` as a value of `dtype`."""
    if isinstance(scale, Tensor):
        return op.cast(scale, dtype)
    return op.scalar(dtype, float(np.asarray(scale, dtype.as_numpy())))


def _rest(op: OpBuild, scale: Scalar, dtype: dtype_class) -> Any:
    """Returns 1 - scale, computed in float32, as a value of `dtype`."""
    if isinstance(scale, Tensor):
        one = op.scalar(dtypes.float32, 1)
        return op.cast(op("sub", one, op.cast(scale, dtypes.float32)), dtype)
    return _scalar(op, float(np.float32(1) - np.float32(scale)), dtype)


def _check_shapes(op_type: str, t: Tensor, X: Tensor) -> None:
    check_tensors(op_type, [t, X])
    if t.shape != X.shape:
        raise ValueError(f"{op_type} takes equal shapes but got {t.shape} and {X.shape}.")


def accumulate_(t: Tensor, X: Tensor, f: "Scalar | None" = None) -> Tensor:
    """t += f · X; without f, t += X.

    Args:
        t, X: The variable that is written, and the tensor.
        f: The factor: a number or a scalar tensor.
    """
    _check_shapes("Accumulate", t, X)

    wide = computing_dtype(t.dtype)

    def body(op: OpBuild) -> Any:
        sample = op.cast(X, wide)
        if f is not None:
            sample = op("mul", sample, _scalar(op, f, wide))
        return op.cast(op("add", op.cast(t, wide), sample), t.dtype)

    return in_place("Accumulate", [t, X, _in(f)], f"accumulate__{t.name}", body)


def accumulate_square_(t: Tensor, X: Tensor, f: Scalar = 1.0) -> Tensor:
    """t += f · X².

    Args:
        t, X: The variable that is written, and the tensor.
        f: The factor: a number or a scalar tensor.
    """
    _check_shapes("Accumulate", t, X)

    wide = computing_dtype(t.dtype)

    def body(op: OpBuild) -> Any:
        sample = op.cast(X, wide)
        scaled = op("mul", _scalar(op, f, wide), sample)
        return op.cast(op("add", op.cast(t, wide), op("mul", scaled, sample)), t.dtype)

    return in_place("Accumulate", [t, X, _in(f)], f"accumulate_square__{t.name}", body)


def accumulate_mean_(t: Tensor, X: Tensor, step: Scalar) -> Tensor:
    """Updates a running mean: t = step / (step + 1) · t + X / (step + 1), for step 0, 1, ...

    Args:
        t, X: The variable that is written, and the tensor.
        step: The number of values so far: a number or a scalar tensor.
    """
    _check_shapes("Accumulate", t, X)

    wide = computing_dtype(t.dtype)

    def body(op: OpBuild) -> Any:
        one = op.scalar(dtypes.float32, 1)
        count = _scalar(op, step, dtypes.float32)
        after = op("add", count, one)
        kept = op("mul", op.cast(op("div", count, after), wide), op.cast(t, wide))
        new = op("mul", op.cast(op("div", one, after), wide), op.cast(X, wide))
        return op.cast(op("add", kept, new), t.dtype)

    return in_place("Accumulate", [t, X, _in(step)], f"accumulate_mean__{t.name}", body)


def _moving_average(t: Tensor, X: Tensor, f: Scalar, square: bool, name: str) -> Tensor:
    _check_shapes("Accumulate", t, X)
    wide = computing_dtype(t.dtype)

    def body(op: OpBuild) -> Any:
        sample = op.cast(op.cast(X, t.dtype), wide)
        new = op("mul", _rest(op, f, wide), sample)
        if square:
            new = op("mul", new, sample)
        kept = op("mul", _scalar(op, f, wide), op.cast(t, wide))
        return op.cast(op("add", kept, new), t.dtype)

    return in_place("Accumulate", [t, X, _in(f)], f"{name}__{t.name}", body)


def accumulate_moving_average_(t: Tensor, X: Tensor, f: Scalar) -> Tensor:
    """t = f · t + (1 - f) · X, where X is first rounded to t's dtype.

    Args:
        t, X: The variable that is written, and the tensor.
        f: The factor: a number or a scalar tensor.
    """
    return _moving_average(t, X, f, False, "accumulate_moving_avg")


def accumulate_moving_average_square_(t: Tensor, X: Tensor, f: Scalar) -> Tensor:
    """t = f · t + (1 - f) · X², where X is first rounded to t's dtype.

    Args:
        t, X: The variable that is written, and the tensor.
        f: The factor: a number or a scalar tensor.
    """
    return _moving_average(t, X, f, True, "accumulate_moving_avg_square")


def sparse_accumulate_(
    t: Tensor,
    X: Tensor,
    indices: Tensor,
    axis: int = 0,
    f: "Scalar | None" = None,
    W: "Tensor | None" = None,
) -> Tensor:
    """Adds f · row i of X to row `indices[i]` of t along `axis`. W is a layout hint.

    A session raises popart_exception for an axis that t does not have.

    Args:
        t: The variable that is written.
        X: The tensor that is added.
        indices: The indices, a tensor of ints.
        axis: The axis; negative numbers count from the end.
        f: The factor: a number or a scalar tensor.
        W: Accepted as a layout hint for hardware.
    """

    plain = f is None and X.dtype is t.dtype
    wide = t.dtype if plain else computing_dtype(t.dtype)

    def body(op: OpBuild) -> Any:
        sample = op.cast(X, wide)
        if f is not None:
            sample = op("mul", sample, _scalar(op, f, wide))
        flat = op("reshape", op.cast(indices, dtypes.int32), shape=[indices.nelms])
        shape = [*t.shape[:axis], indices.nelms, *t.shape[axis + 1 :]]

        def added() -> Any:
            rows = op("reshape", sample, shape=shape)
            return op.cast(op("index_add", op.cast(t, wide), flat, rows, axis=axis), t.dtype)

        return or_refused(op, t, added)

    inputs = [t, X, _in(f), indices, W]
    name = f"sparse_accumulate__{t.name}"
    return in_place("PopartSparseAccumulate", inputs, name, body, axis=axis)


def accumulator_scale_(t: Tensor, f: Scalar) -> Tensor:
    """t *= f; the number 0 sets zeros even for NaN and infinities.

    Args:
        t: The variable that is written.
        f: The factor: a number or a scalar tensor.
    """

    wide = computing_dtype(t.dtype)

    def body(op: OpBuild) -> Any:
        if not isinstance(f, Tensor) and f == 0:
            zero = op.scalar(t.dtype, 0)
            return op("broadcast_to", zero, shape=list(t.shape)) if t.shape else zero
        return op.cast(op("mul", op.cast(t, wide), _scalar(op, f, wide)), t.dtype)

    factor = None if isinstance(f, Tensor) else float(f)
    name = f"accumulator_scale__{t.name}"
    return in_place("AccumulatorScale", [t, _in(f)], name, body, factor=factor)


def accumulator_zero_(t: Tensor) -> Tensor:
    """Sets t to zeros.

    Args:
        t: The variable that is written.
    """
    return accumulator_scale_(t, 0.0)


def copy_var_update_(t: Tensor, X: Tensor) -> Tensor:
    """t = X. Raises ValueError unless shapes and dtypes are equal.

    Args:
        t, X: The variable that is written, and its new value.
    """
    _check_shapes("CopyVarUpdate", t, X)
    check_same_dtype("CopyVarUpdate", t, X)
    return in_place("CopyVarUpdate", [t, X], f"updated__{t.name}", lambda op: of(X).read())


def _bias_corrected(op: OpBuild, value: Any, beta: Scalar, step: Any) -> Any:
    power = op("pow", _scalar(op, beta, dtypes.float32), step)
    return op("div", value, op("sub", op.scalar(dtypes.float32, 1), power))


def _updater(
    op_type: str,
    first: Tensor,
    second: Tensor,
    weight: "Tensor | None",
    time_step: "Tensor | None",
    weight_decay: "Scalar | None",
    beta1: "Scalar | None",
    beta2: "Scalar | None",
    epsilon: Scalar,
    adamax: bool = False,
) -> Tensor:
    decays = isinstance(weight_decay, Tensor) or bool(weight_decay)
    if decays and weight is None:
        raise ValueError("Weight decay requires weight to not be None.")
    if adamax and time_step is None:
        raise ValueError("AdaMax requires time_step to not be None.")
    if time_step is not None and (beta1 is None or (beta2 is None and not adamax)):
        raise ValueError("Bias correction requires both beta1 and beta2 to not be None.")
    w = weight if decays else None
    like = first if weight is None or (weight_decay is not None and not decays) else weight
    scalars = [_in(weight_decay), _in(beta1), _in(beta2), _in(epsilon)]
    op = OpBuild(op_type, w, first, second, time_step, *scalars)
    m, v = op.cast(first, dtypes.float32), op.cast(second, dtypes.float32)
    if time_step is not None:
        of(time_step).write(op("add", time_step, op.scalar(time_step.dtype, 1)))
        op.record.modified.append(time_step)
        step = op.cast(time_step, dtypes.float32)
        assert beta1 is not None
        m = _bias_corrected(op, m, beta1, step)
        if not adamax:
            assert beta2 is not None
            v = _bias_corrected(op, v, beta2, step)
    root = v if adamax else op("sqrt", v)
    x = op("div", m, op("add", root, _scalar(op, epsilon, dtypes.float32)))
    if w is not None:
        assert weight_decay is not None
        decay = op("mul", _scalar(op, weight_decay, dtypes.float32), op.cast(w, dtypes.float32))
        x = op("add", x, decay)
    out = op.output(op.cast(x, like.dtype), "adam_updater_out")
    op.done()
    return out


def adam_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: "Tensor | None" = None,
    time_step: "Tensor | None" = None,
    weight_decay: "Scalar | None" = None,
    beta1: "Scalar | None" = None,
    beta2: "Scalar | None" = None,
    epsilon: Scalar = 1e-07,
) -> Tensor:
    """Returns Adam's step: m / (√v + epsilon), plus weight_decay · weight if that is not 0.

    The result has the weight's dtype if a weight is given, else that of acc_first_order. With a
    weight_decay of 0 the weight does not take part, as in PopXL's tutorial.

    Args:
        acc_first_order: m.
        acc_second_order: v.
        weight: The weight, for weight decay.
        time_step: A float32 scalar, which is first incremented by 1 in place. With it, m and v are
            divided by 1 - betaᵗ.
        weight_decay: The factor of the weight.
        beta1: The decay of m, for time_step.
        beta2: The decay of v, for time_step.
        epsilon: Added to the denominator.

    Raises:
        ValueError: time_step is given without the betas, or weight_decay without weight.
    """
    return _updater(
        "AdamUpdater",
        *(acc_first_order, acc_second_order, weight, time_step),
        *(weight_decay, beta1, beta2, epsilon),
    )


def lamb_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: "Tensor | None" = None,
    time_step: "Tensor | None" = None,
    weight_decay: "Scalar | None" = None,
    beta1: "Scalar | None" = None,
    beta2: "Scalar | None" = None,
    epsilon: Scalar = 1e-07,
) -> Tensor:
    """Returns LAMB's direction, like `adam_updater`; `adam_var_update` applies the trust ratio.

    Args:
        acc_first_order, acc_second_order, weight, time_step: As for `adam_updater`.
        weight_decay, beta1, beta2, epsilon: As for `adam_updater`.
    """
    return _updater(
        "AdamUpdater",
        *(acc_first_order, acc_second_order, weight, time_step),
        *(weight_decay, beta1, beta2, epsilon),
    )


def adamax_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: "Tensor | None" = None,
    time_step: "Tensor | None" = None,
    weight_decay: "Scalar | None" = None,
    beta1: Scalar = 0.9,
    epsilon: Scalar = 1e-07,
) -> Tensor:
    """Returns AdaMax's step: m / (1 - beta1ᵗ) / (v + epsilon).

    Args:
        acc_first_order, acc_second_order, weight, time_step: As for `adam_updater`.
        weight_decay, beta1, epsilon: As for `adam_updater`.

    Raises:
        ValueError: time_step is missing.
    """
    return _updater(
        "AdamUpdater",
        *(acc_first_order, acc_second_order, weight, time_step),
        *(weight_decay, beta1, None, epsilon),
        adamax=True,
    )


def adam_var_update(
    t: Tensor,
    x: Tensor,
    r1: Tensor,
    r2: Tensor,
    learning_rate: "Scalar | None" = None,
    max_weight_norm: "Scalar | None" = None,
) -> Tensor:
    """t -= learning_rate · ratio · x, in place.

    The ratio is min(√r1, max_weight_norm) / √r2, and 1 if r1, r2 or max_weight_norm is 0.

    Args:
        t: The weight.
        x: The step.
        r1: The float32 sum of squares of t (`ops.lamb_square`).
        r2: The float32 sum of squares of x.
        learning_rate: By default 1.
        max_weight_norm: By default no limit.
    """
    f32 = dtypes.float32

    def body(op: OpBuild) -> Any:
        zero, one = op.scalar(f32, 0), op.scalar(f32, 1)
        a = op("sqrt", op.cast(r1, f32))
        b = op("sqrt", op.cast(r2, f32))
        plain = op("logical_or", op("eq", a, zero), op("eq", b, zero))
        if max_weight_norm is not None:
            limit = _scalar(op, max_weight_norm, f32)
            plain = op("logical_or", plain, op("eq", limit, zero))
            a = op("minimum", a, limit)
        ratio = op("select", plain, one, op("div", a, op("select", plain, one, b)))
        rate = ratio if learning_rate is None else op("mul", ratio, _scalar(op, learning_rate, f32))
        step = op("mul", op.cast(x, f32), rate)
        return op.cast(op("sub", op.cast(t, f32), step), t.dtype)

    inputs = [t, x, r1, r2, _in(learning_rate), _in(max_weight_norm)]
    return in_place("AdamVarUpdate", inputs, "adam_var_update_out", body)
