"""Named tensors, and their data."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import popxl
from popxl import ops
from popxl_addons.dot_tree import DotTree

TensorMap: TypeAlias = Mapping[popxl.Tensor, popxl.Tensor]


class NamedTensors(DotTree[popxl.Tensor]):
    """Tensors by name."""

    @property
    def named_tensors(self) -> dict[str, popxl.Tensor]:
        """All tensors by dotted name."""
        return self.to_dict()

    @property
    def tensors(self) -> tuple[popxl.Tensor, ...]:
        """All tensors, sorted by the tensors' names."""
        return tuple(sorted(self.values_flat(), key=lambda t: t.name))

    def remap(self, mapping: TensorMap) -> "NamedTensors":
        """Maps each tensor by `mapping`, keeping names. Raises KeyError if one is missing.

        Args:
            mapping: The other tensor of each tensor.
        """
        return self.map(lambda tensor: mapping[tensor])


class NamedTensorData(DotTree[np.ndarray]):
    """Arrays by name."""


class NamedRemoteBuffers(DotTree[popxl.RemoteBuffer]):
    """Remote buffers by name."""


def print_named_tensors(named: NamedTensors) -> NamedTensors:
    """Prints the tensors under their names with `ops.print_tensor`, and returns the results.

    Args:
        named: The tensors, by name.
    """
    return NamedTensors.from_dict(
        {name: ops.print_tensor(t, name) for name, t in named.to_dict().items()}
    )
