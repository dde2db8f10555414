"""Dense layers whose weights take fewer bits."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl.fp8_utils import host_fp8_mse_scale_pb, host_pow2scale_cast_to_fp8
from popxl_addons.layers.linear import truncated_normal
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.ops.fp8 import fp8_amax_scale
from popxl_addons.ops.group_quantize import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
)


class LinearFP8(Module):
    """x @ weight + bias with float8 operands; x [..., in] float16, and so is the result.

    weight: [in, out] float8 of 2**weight_scale times the numbers; weight_scale: int32 scalar. x is
    cast by its largest number (`ops.fp8_amax_scale`).
    """

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
        fp8_format: popxl.dtype = popxl.float8_143,
    ) -> None:
        super().__init__()
        self.out_features, self.bias = out_features, bias
        self.replica_grouping, self.fp8_format = replica_grouping, fp8_format

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        shape, rg, kind = (x.shape[-1], self.out_features), self.replica_grouping, self.fp8_format
        make = lambda: host_pow2scale_cast_to_fp8(truncated_normal(shape), kind)  # noqa: E731
        weight = self.add_variable_input("weight", make, kind, replica_grouping=rg)
        zero = lambda: np.zeros((), np.int32)  # noqa: E731
        scale = self.add_variable_input("weight_scale", zero, popxl.int32, replica_grouping=rg)
        x_scale = fp8_amax_scale(x, kind)
        held = ops.pow2scale_cast_to_fp8(x, x_scale, kind)
        y = ops.matmul_pow2scaled(held, weight, ops.negate(ops.add(x_scale, scale)))
        if not self.bias:
            return y
        zeros = lambda: np.zeros(self.out_features)  # noqa: E731
        return y + self.add_variable_input("bias", zeros, popxl.float16, replica_grouping=rg)

    def torch_mapping(self, variables: NamedTensors, layer: Any) -> dict[popxl.Tensor, np.ndarray]:
        """{variable: data} from a torch.nn.Linear, its weight by the scale that keeps it best."""
        weight = layer.weight.detach().numpy().T.astype(np.float32)
        scale = host_fp8_mse_scale_pb(weight, self.fp8_format)
        out = {
            variables.weight: host_pow2scale_cast_to_fp8(weight, self.fp8_format, scale),
            variables.weight_scale: np.asarray(scale, np.int32),
        }
        if "bias" in variables:
            out[variables.bias] = layer.bias.detach().numpy().astype(np.float16)
        return out


class LinearGQ(Module):
    """x @ weight + bias with weights of 4 bits, in groups of columns with scale and offset each.

    x [..., in] float16. State: weight_compressed [out, in / group_size, group_size / 4] uint16,
    weight_decompression_scale and _bias [out, in / group_size, 1] float16, bias [out].
    """

    def __init__(
        self,
        out_features: int,
        group_size: int = 64,
        bias: bool = True,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
    ) -> None:
        super().__init__()
        self.out_features, self.group_size, self.bias = out_features, group_size, bias
        self.replica_grouping = replica_grouping

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        parts: dict[str, np.ndarray] = {}

        def part(name: str) -> np.ndarray:
            if name == "compressed":  # drawn first; the others belong to it
                weight = truncated_normal((self.out_features, x.shape[-1]))
                parts.update(_named_parts(weight, self.group_size))
            return parts[name]

        names = ("compressed", "decompression_scale", "decompression_bias")
        inputs = [
            self.add_variable_input(
                f"weight_{name}",
                lambda name=name: part(name),
                replica_grouping=self.replica_grouping,
            )
            for name in names
        ]
        y = x @ group_quantize_decompress(*inputs).T
        if not self.bias:
            return y
        zeros = lambda: np.zeros(self.out_features)  # noqa: E731
        rg = self.replica_grouping
        return y + self.add_variable_input("bias", zeros, popxl.float16, replica_grouping=rg)

    def torch_mapping(self, variables: NamedTensors, layer: Any) -> dict[popxl.Tensor, np.ndarray]:
        """{variable: data} from a torch.nn.Linear."""
        parts = _named_parts(layer.weight.detach().numpy(), self.group_size)
        out = {variables[f"weight_{name}"]: data for name, data in parts.items()}
        if "bias" in variables:
            out[variables.bias] = layer.bias.detach().numpy().astype(np.float16)
        return out


def _named_parts(weight: np.ndarray, group_size: int) -> Mapping[str, np.ndarray]:
    packed, scale, bias = group_quantize_compress_numpy(weight, group_size)
    return {"compressed": packed, "decompression_scale": scale, "decompression_bias": bias}
