"""Normalisation of groups of channels."""

from typing import Any

import popxl
from popxl import ops
from popxl_addons.layers.layer_norm import LayerNorm, scale_and_shift
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict

_RANKS = (2, 3, 4)


class GroupNorm(Module):
    """Normalises groups of channels of x [n, c, ...].

    Args:
        num_groups: The number of groups of channels.
        replica_grouping: The groups that share the variables.
        eps: The number that keeps the divisor above 0.
        cache: See Module.
    """

    def __init__(
        self,
        num_groups: int,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
        eps: float = 1e-5,
        cache: bool = False,
    ) -> None:
        super().__init__(cache=cache)
        self.num_groups, self.replica_grouping, self.eps = num_groups, replica_grouping, eps

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Normalises. Raises ValueError if `x` has less than 2 or more than 4 dimensions.

        Args:
            x: The tensor.
        """
        if x.rank not in _RANKS:
            raise ValueError(f"GroupNorm takes 2 to 4 dimensions but got {x!r}.")
        weight, bias = scale_and_shift(self, x.shape[1], x.dtype, self.replica_grouping)
        return ops.group_norm(x, weight, bias, self.num_groups, self.eps)

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """Returns {variable: data} of a torch.nn.GroupNorm.

        Args:
            variables: The module's named variables.
            nn_layer: The PyTorch layer, or None if its values are not wanted.
            dtype: The data type.
        """
        return LayerNorm.torch_mapping(variables, nn_layer, dtype)
