"""Named tensors, and their data."""

from collections.abc import Iterable, Mapping

import numpy as np
import popxl
from popxl.utils import table_to_string
from popxl_addons.dot_tree import DotTree


class NamedTensors(DotTree[popxl.Tensor]):
    """Tensors by name."""

    @property
    def named_tensors(self) -> dict[str, popxl.Tensor]:
        """All tensors by dotted name."""
        return self.to_dict()

    @property
    def tensors(self) -> tuple[popxl.Tensor, ...]:
        """All tensors, sorted by the names that the tensors have."""
        return tuple(sorted(self.values_flat(), key=lambda t: t.name))

    def remap(self, mapping: Mapping[popxl.Tensor, popxl.Tensor]) -> "NamedTensors":
        """The tensors that `mapping` gives for these, under the same names."""
        return NamedTensors.from_dict(  # type: ignore[return-value]
            {name: mapping[t] for name, t in self.to_dict().items()}
        )


class NamedTensorData(DotTree[np.ndarray]):
    """Arrays by name."""


class NamedRemoteBuffers(DotTree[popxl.RemoteBuffer]):
    """Remote buffers by name."""


class NamedReplicaGrouping(DotTree[popxl.ReplicaGrouping]):
    """Groupings of replicas by name."""

    @classmethod
    def build_groups(
        cls, names: "Iterable[str]", grouping: popxl.ReplicaGrouping
    ) -> "NamedReplicaGrouping":
        """The same grouping under every name."""
        return cls.from_dict({name: grouping for name in names})  # type: ignore[return-value]


def print_named_tensors(named: NamedTensors) -> None:
    """Prints name, id, shape and dtype of every tensor."""
    rows = [["name", "tensor", "shape", "dtype"]]
    rows += [[n, t.id, str(t.shape), t.dtype.name] for n, t in named.to_dict().items()]
    print(table_to_string(rows))
