"""A dense layer."""

from typing import Any

import numpy as np
import popxl
from popxl.utils import to_numpy
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict


def truncated_normal(shape: tuple[int, ...], scale: float = 0.02, limit: float = 2.0) -> np.ndarray:
    """Returns normal numbers within ±limit deviations (others are drawn again), times scale."""
    out = np.random.normal(size=shape)
    while (beyond := np.abs(out) > limit).any():
        out[beyond] = np.random.normal(size=int(beyond.sum()))
    return (out * scale).astype(np.float32)


class Linear(Module):
    """x @ weight + bias, for x of shape [..., in].

    The weight [in, out_features] is a truncated normal of deviation 0.02. The bias [out_features]
    is zeros.

    Args:
        out_features: The number of output features.
        bias: Whether it has a bias.
        replica_grouping: The groups that share the variables.
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
    ) -> None:
        super().__init__()
        self.out_features, self.bias = out_features, bias
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Multiplies and adds.

        Args:
            x: The tensor [..., in].
        """
        shape, rg = (x.shape[-1], self.out_features), self.replica_grouping
        weight = self.add_variable_input(
            "weight", lambda: truncated_normal(shape), x.dtype, replica_grouping=rg
        )
        y = x @ weight
        if not self.bias:
            return y
        zeros = lambda: np.zeros(self.out_features)  # noqa: E731
        return y + self.add_variable_input("bias", zeros, x.dtype, replica_grouping=rg)

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """Returns {variable: data} of a torch.nn.Linear, for `Session.write_variables_data`.

        Args:
            variables: The module's named variables.
            nn_layer: The PyTorch layer, or None if its values are not wanted.
            dtype: The data type.
        """
        weight = WeightsDict({variables.weight: to_numpy(nn_layer.weight.T, dtype)})
        return with_bias(weight, variables, nn_layer, dtype)


def with_bias(
    weights: WeightsDict, variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype
) -> WeightsDict:
    """Returns `weights` with the data of "bias", if the layer has a bias."""
    if "bias" in variables.to_dict():
        variable = variables.bias
        weights[variable] = to_numpy(nn_layer.bias, dtype).reshape(variable.shape_on_host)
    return weights
