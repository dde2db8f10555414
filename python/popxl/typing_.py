"""Aliases for annotations."""

from typing import TypeAlias

from popxl.tensor_base import HostTensor, Tensor

HostTensorLike: TypeAlias = HostTensor
ScalarOrTensor: TypeAlias = "int | float | Tensor"

__all__ = ["HostTensorLike", "ScalarOrTensor"]
