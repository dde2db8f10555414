"""Tensors, variables and constants: the names of `popxl.tensor`."""

from popxl.tensor_base import (
    DEFAULT_NAME,
    HostTensor,
    Tensor,
    TensorByRef,
    TensorSpec,
    core_type,
    graph_input,
    graph_output,
    host_tensor_types,
)
from popxl.variable import Constant, Variable, constant, variable

__all__ = [
    "DEFAULT_NAME",
    "Constant",
    "HostTensor",
    "Tensor",
    "TensorByRef",
    "TensorSpec",
    "Variable",
    "constant",
    "core_type",
    "graph_input",
    "graph_output",
    "host_tensor_types",
    "variable",
]
