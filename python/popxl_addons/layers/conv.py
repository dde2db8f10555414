"""Convolution as a layer."""

from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl_addons.layers.linear import truncated_normal
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors


def _pair(value: "int | tuple[int, int]") -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)  # type: ignore[return-value]


class Conv2D(Module):
    """The convolution of x [n, in, h, w]: weight [out, in / groups, kh, kw], bias [out].

    paddings: rows and columns of zeros on each side, or (top, left, bottom, right).
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: "int | tuple[int, int]",
        strides: "int | tuple[int, int]" = 1,
        paddings: "int | tuple[int, ...]" = 0,
        dilations: "int | tuple[int, int]" = 1,
        groups: int = 1,
        bias: bool = True,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
    ) -> None:
        super().__init__()
        self.out_channels, self.kernel_size = out_channels, _pair(kernel_size)
        self.strides, self.dilations, self.groups = _pair(strides), _pair(dilations), groups
        sides = (paddings,) * 2 if isinstance(paddings, int) else tuple(paddings)
        self.paddings = sides * 2 if len(sides) == 2 else sides
        self.bias, self.replica_grouping = bias, replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        shape = (self.out_channels, x.shape[1] // self.groups, *self.kernel_size)
        rg = self.replica_grouping
        weight = self.add_variable_input(
            "weight", lambda: truncated_normal(shape), x.dtype, replica_grouping=rg
        )
        y = ops.conv(x, weight, self.strides, self.paddings, self.dilations, self.groups)
        if not self.bias:
            return y
        zeros = lambda: np.zeros(self.out_channels)  # noqa: E731
        bias = self.add_variable_input("bias", zeros, x.dtype, replica_grouping=rg)
        return y + bias.reshape((self.out_channels, 1, 1))

    @staticmethod
    def torch_mapping(variables: NamedTensors, layer: Any) -> dict[popxl.Tensor, np.ndarray]:
        """{variable: data} from a torch.nn.Conv2d, for `Session.write_variables_data`."""
        out = {variables.weight: layer.weight.detach().numpy().copy()}
        if "bias" in variables:
            out[variables.bias] = layer.bias.detach().numpy().copy()
        return out
