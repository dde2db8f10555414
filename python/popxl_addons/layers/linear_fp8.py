"""A dense layer with a product of float8 numbers."""

from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl_addons.layers.linear import Linear, truncated_normal
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.fp8_amax_scale import fp8_amax_scale
from popxl_addons.ops.fp8_mse_scale import fp8_mse_scale
from popxl_addons.utils import WeightsDict

_METRICS = {"amax": fp8_amax_scale, "mse": fp8_mse_scale}
SCALE_METRICS = (*_METRICS, "manual_scale")
_ROOM, _LARGEST = 3, 31  # log2: headroom of a scale, the largest scale


def _limit(value: int) -> popxl.Tensor:
    return popxl.constant(value, popxl.int32)


class LinearFP8(Module):
    """x @ weight + bias with operands cast to float8; x [..., in] is float16 or float32.

    The weight [in, out_features], the bias [out_features] and the result have x's dtype.
    `build_grad` makes the gradient: call a separate graph if it is differentiated (`call_module`).

    Args:
        out_features: The number of outputs.
        bias: Whether it has a bias.
        scale_metric: The choice of the operands' scales, powers of two: by their largest elements
            ("amax"), by the squared error ("mse"), or `scale` for all ("manual_scale").
        scale: The log2_scale of "manual_scale".
        replica_grouping: The groups that share the variables.

    Raises:
        ValueError: The metric is another one.
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        scale_metric: str = "amax",
        scale: int = 0,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
    ) -> None:
        if scale_metric not in SCALE_METRICS:
            raise ValueError(f"scale_metric is one of {SCALE_METRICS} but is {scale_metric!r}.")
        super().__init__()
        self.out_features, self.bias = out_features, bias
        self.scale_metric, self.scale = scale_metric, scale
        self.replica_grouping = replica_grouping

    def _scale_of(self, t: popxl.Tensor, dtype: popxl.dtype) -> popxl.Tensor:
        """Returns the log2_scale of `t` for a float8 dtype, an int32 scalar."""
        if self.scale_metric in _METRICS:
            return _METRICS[self.scale_metric](t, dtype)
        return popxl.constant(self.scale, popxl.int32)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        shape, rg, kind = (x.shape[-1], self.out_features), self.replica_grouping, popxl.float8_143
        weight = self.add_variable_input(
            "weight", lambda: truncated_normal(shape), x.dtype, replica_grouping=rg
        )
        w_scale, x_scale = self._scale_of(weight, kind), self._scale_of(x, kind)
        w8 = ops.pow2scale_cast_to_fp8(weight, w_scale, kind)
        x8 = ops.pow2scale_cast_to_fp8(x, x_scale, kind)
        self.aux.update(x=x, weight=weight, x_scale=x_scale, w_scale=w_scale)
        y = ops.matmul_pow2scaled(x8, w8, ops.negate(w_scale + x_scale))
        if x.dtype is popxl.float32:
            y = ops.cast(y, popxl.float32)
        if not self.bias:
            return y
        zeros = lambda: np.zeros(self.out_features)  # noqa: E731
        return y + self.add_variable_input("bias", zeros, x.dtype, replica_grouping=rg)

    def build_grad(self, dy: popxl.Tensor) -> popxl.Tensor:  # type: ignore[override]
        """Writes float8 products: dy is float8_152 with headroom; the results are float16."""
        kind = popxl.float8_152
        room = self._scale_of(dy, kind) - _limit(_ROOM)
        least = _limit(-_LARGEST)
        scale = ops.maximum(ops.negate(ops.maximum(ops.negate(room), least)), least)
        dy8 = ops.pow2scale_cast_to_fp8(dy, scale, kind)
        x_scale, w_scale = self.aux["x_scale"], self.aux["w_scale"]
        x8 = ops.pow2scale_cast_to_fp8(self.aux["x"], x_scale, popxl.float8_143)
        w8 = ops.pow2scale_cast_to_fp8(self.aux["weight"], w_scale, popxl.float8_143)
        rows, columns = ops.reshape(x8, (-1, x8.shape[-1])), ops.reshape(dy8, (-1, dy8.shape[-1]))
        back = ops.negate(scale + x_scale)
        self.var_grad["weight"] = ops.matmul_pow2scaled(columns.T, rows, back).T
        if self.bias:
            self.var_grad["bias"] = ops.sum(dy, list(range(dy.rank - 1)))
        return ops.matmul_pow2scaled(dy8, w8.T, ops.negate(scale + w_scale))

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """Returns {variable: data} of a torch.nn.Linear, for `Session.write_variables_data`."""
        return Linear.torch_mapping(variables, nn_layer, dtype)
