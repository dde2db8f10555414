"""Normalisation of rows that are spread over replicas."""

from typing import Any

import popxl
from popxl.utils import to_numpy
from popxl_addons.array_munging import shard
from popxl_addons.layers.layer_norm import scale_and_shift
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed
from popxl_addons.utils import WeightsDict


class LayerNormDistributed(Module):
    """Normalises rows that are spread over a group: each replica holds c columns, [n, c].

    Args:
        replica_grouping: The groups; by default all replicas. Variables have the transposed
            grouping: each replica has the scale and shift of its columns.
    """

    def __init__(self, replica_grouping: "popxl.ReplicaGrouping | None" = None) -> None:
        super().__init__()
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor, eps: float = 1e-5) -> popxl.Tensor:
        rg = self.replica_grouping or popxl.gir().replica_grouping()
        weight, bias = scale_and_shift(self, x.shape[-1], x.dtype, rg.transpose())
        return layer_norm_distributed(x, weight, bias, eps, rg)

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """Returns {variable: data} of a torch.nn.LayerNorm over all columns."""
        out = WeightsDict()
        for name in ("weight", "bias"):
            variable = variables[name]
            data = to_numpy(getattr(nn_layer, name), dtype).reshape(-1)
            many = variable.shape_on_host != variable.shape
            out[variable] = shard(data, variable.shape_on_host[0], 0) if many else data
        return out
