"""A convolution layer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl.utils import to_numpy
from popxl_addons.layers.linear import truncated_normal, with_bias
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


def _pair(value: "int | Sequence[int]") -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)  # type: ignore[return-value]


class Conv2D(Module):
    """Convolves x [n, in, h, w]: weight [out, in / groups, kh, kw], bias [1, out, 1, 1].

    Args:
        out_channels: The number of output channels.
        kernel_size: The kernel's height and width, or one number for both.
        strides: See `ops.conv`; so are dilations, groups and the last arguments' hints.
        paddings: Rows and columns of zeros, (top, left, bottom, right); an int or a pair is for
            both sides. Or a pad_type: "same_upper", "same_lower" or "valid".
        bias: Whether it has a bias.
        replica_grouping: The groups that share the variables.
        dilations: See `ops.conv`.
        groups: See `ops.conv`.
        available_memory_proportions: See `ops.conv`.
        partials_types: See `ops.conv`.
        enable_conv_dithering: See `ops.conv`.
    """

    def __init__(
        self,
        out_channels: int,
        kernel_size: "int | Sequence[int]",
        strides: "int | Sequence[int]" = (1, 1),
        paddings: "int | Sequence[int] | str" = (0, 0, 0, 0),
        dilations: "int | Sequence[int]" = (1, 1),
        groups: int = 1,
        bias: bool = True,
        available_memory_proportions: "Sequence[float] | None" = None,
        partials_types: "Sequence[Any] | None" = None,
        enable_conv_dithering: "Sequence[int] | None" = None,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
    ) -> None:
        super().__init__()
        self.out_channels, self.kernel_size = out_channels, _pair(kernel_size)
        self.strides, self.dilations, self.groups = _pair(strides), _pair(dilations), groups
        self.paddings = paddings
        self.bias, self.replica_grouping = bias, replica_grouping
        self.hints = (available_memory_proportions, partials_types, enable_conv_dithering)

    def _pads(self) -> tuple[tuple[int, ...], str]:
        """Returns the padding and its type for `ops.conv`."""
        if isinstance(self.paddings, str):
            return (0, 0, 0, 0), self.paddings
        sides = _pair(self.paddings)
        return sides * 2 if len(sides) == 2 else sides, "not_set"

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Convolves.

        Args:
            x: The images [n, in, h, w].
        """
        shape = (self.out_channels, x.shape[1] // self.groups, *self.kernel_size)
        rg = self.replica_grouping
        weight = self.add_variable_input(
            "weight", lambda: truncated_normal(shape), x.dtype, replica_grouping=rg
        )
        paddings, pad_type = self._pads()
        numbers = (self.strides, paddings, self.dilations, self.groups, pad_type)
        y = ops.conv(x, weight, *numbers, *self.hints)
        if not self.bias:
            return y
        zeros = lambda: np.zeros((1, self.out_channels, 1, 1))  # noqa: E731
        return y + self.add_variable_input("bias", zeros, x.dtype, replica_grouping=rg)

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """Returns {variable: data} of a torch.nn.Conv2d, for `Session.write_variables_data`.

        Args:
            variables: The module's named variables.
            nn_layer: The PyTorch layer, or None if its values are not wanted.
            dtype: The data type.
        """
        weight = WeightsDict({variables.weight: to_numpy(nn_layer.weight, dtype)})
        return with_bias(weight, variables, nn_layer, dtype)
