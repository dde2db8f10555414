"""Layers that normalise."""

from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors


class _Norm(Module):
    def _scale_and_shift(
        self, size: int, dtype: popxl.dtype, rg: "popxl.ReplicaGrouping | None" = None
    ) -> tuple:
        ones, zeros = lambda: np.ones(size), lambda: np.zeros(size)
        return (
            self.add_variable_input("weight", ones, dtype, replica_grouping=rg),
            self.add_variable_input("bias", zeros, dtype, replica_grouping=rg),
        )

    @staticmethod
    def torch_mapping(variables: NamedTensors, layer: Any) -> dict[popxl.Tensor, np.ndarray]:
        """{variable: data} from torch's layer, for `Session.write_variables_data`."""
        return {
            variables.weight: layer.weight.detach().numpy().copy(),
            variables.bias: layer.bias.detach().numpy().copy(),
        }


class LayerNorm(_Norm):
    """Normalises the rows of a matrix [n, c]. ValueError for another rank."""

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        if x.rank != 2:
            raise ValueError(f"LayerNorm takes a matrix but got {x!r}: reshape it.")
        scale, shift = self._scale_and_shift(x.shape[-1], x.dtype)
        return ops.layer_norm(x, scale, shift, self.eps)


class GroupNorm(_Norm):
    """Normalises groups of channels of x [n, c, ...]."""

    def __init__(self, num_groups: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.num_groups, self.eps = num_groups, eps

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        weight, bias = self._scale_and_shift(x.shape[1], x.dtype)
        return ops.group_norm(x, weight, bias, self.num_groups, self.eps)


class LayerNormDistributed(_Norm):
    """Normalises rows [n, c] of which each replica of a group holds c columns.

    replica_grouping: the groups; all replicas by default.
    """

    def __init__(
        self, eps: float = 1e-5, replica_grouping: "popxl.ReplicaGrouping | None" = None
    ) -> None:
        super().__init__()
        self.eps, self.replica_grouping = eps, replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed

        # Each replica has the scale and shift of its own columns.
        rg = (self.replica_grouping or popxl.gir().replica_grouping()).transpose()
        weight, bias = self._scale_and_shift(x.shape[-1], x.dtype, rg)
        return layer_norm_distributed(x, weight, bias, self.eps, self.replica_grouping)
