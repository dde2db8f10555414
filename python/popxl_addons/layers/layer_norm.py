"""Normalisation of rows."""

from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl.utils import to_numpy
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


def scale_and_shift(
    module: Module, size: int, dtype: popxl.dtype, rg: "popxl.ReplicaGrouping | None" = None
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Adds a module's inputs "weight", ones, and "bias", zeros."""
    ones, zeros = lambda: np.ones(size), lambda: np.zeros(size)
    weight = module.add_variable_input("weight", ones, dtype, replica_grouping=rg)
    return weight, module.add_variable_input("bias", zeros, dtype, replica_grouping=rg)


class LayerNorm(Module):
    """Normalises the rows of a matrix [n, c]."""

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        """Normalises. Raises ValueError if `x` is not a matrix.

        Args:
            x: The tensor.
            eps: The number that keeps the divisor above 0.
        """
        if x.rank != 2:
            raise ValueError(f"LayerNorm takes a matrix but got {x!r}: reshape it.")
        scale, shift = scale_and_shift(self, x.shape[-1], x.dtype)
        return ops.layer_norm(x, scale, shift, eps)

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """Returns {variable: data} of a torch.nn.LayerNorm; several dimensions become one.

        Args:
            variables: The module's named variables.
            nn_layer: The PyTorch layer, or None if its values are not wanted.
            dtype: The data type.
        """
        return WeightsDict(
            {
                variables.weight: to_numpy(nn_layer.weight, dtype).reshape(-1),
                variables.bias: to_numpy(nn_layer.bias, dtype).reshape(-1),
            }
        )
