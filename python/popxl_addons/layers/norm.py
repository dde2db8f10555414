"""Layers that normalise."""

from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors


class _Norm(Module):
    def _scale_and_shift(self, size: int, dtype: popxl.dtype) -> tuple:
        return (
            self.add_variable_input("weight", lambda: np.ones(size), dtype),
            self.add_variable_input("bias", lambda: np.zeros(size), dtype),
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
        return ops.layer_norm(x, *self._scale_and_shift(x.shape[-1], x.dtype), self.eps)


class GroupNorm(_Norm):
    """Normalises groups of channels of x [n, c, ...]."""

    def __init__(self, num_groups: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.num_groups, self.eps = num_groups, eps

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        weight, bias = self._scale_and_shift(x.shape[1], x.dtype)
        return ops.group_norm(x, weight, bias, self.num_groups, self.eps)
