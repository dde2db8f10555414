"""A dense layer with weights of 4 bits."""

from typing import Any

import numpy as np
import popxl
from popxl.utils import to_numpy
from popxl_addons.layers.linear import truncated_normal, with_bias
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
)
from popxl_addons.utils import WeightsDict

_PARTS = ("weight_compressed", "weight_decompression_scale", "weight_decompression_bias")


class LinearGQ(Module):
    """x @ weight + bias with weights of 4 bits, in groups with a scale and an offset each.

    x is float16 [..., in]. `group_quantize_compress_numpy` describes the shapes of
    weight_compressed, weight_decompression_scale and weight_decompression_bias, and the errors.

    Args:
        out_features: The number of outputs.
        bias: Whether it has a bias.
        replica_grouping: The groups that share the variables.
        group_size: The number of neighbours along axis `dim` of the weight [in, out_features] that
            share a scale.
        dim: The axis of the groups.
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
        group_size: int = 0,
        dim: int = -1,
    ) -> None:
        super().__init__()
        self.out_features, self.group_size, self.dim = out_features, group_size, dim
        self.bias, self.replica_grouping = bias, replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        drawn: list[np.ndarray] = []

        def part(i: int) -> np.ndarray:
            if i == 0 or not drawn:  # the other parts come from the same weight
                weight = truncated_normal((x.shape[-1], self.out_features))
                drawn[:] = group_quantize_compress_numpy(weight, self.group_size, self.dim)
            return drawn[i]

        rg = self.replica_grouping
        parts = [
            self.add_variable_input(name, lambda i=i: part(i), replica_grouping=rg)
            for i, name in enumerate(_PARTS)
        ]
        packed, scale, shift = parts
        y = x @ group_quantize_decompress(packed, scale, shift, self.dim)
        if not self.bias:
            return y
        zeros = lambda: np.zeros(self.out_features)  # noqa: E731
        return y + self.add_variable_input("bias", zeros, popxl.float16, replica_grouping=rg)

    @staticmethod
    def torch_mapping(
        variables: NamedTensors,
        nn_layer: Any,
        dtype: popxl.dtype = popxl.float32,
        group_size: int = 64,
        dim: int = -1,
    ) -> WeightsDict:
        """Returns {variable: data} of a torch.nn.Linear. dtype: the bias's dtype."""
        weight = to_numpy(nn_layer.weight.T, popxl.float32)
        parts = group_quantize_compress_numpy(weight, group_size, dim)
        weights = WeightsDict({variables[n]: p for n, p in zip(_PARTS, parts, strict=True)})
        return with_bias(weights, variables, nn_layer, dtype)
