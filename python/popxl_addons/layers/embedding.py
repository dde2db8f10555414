"""An embedding layer, whole or in shards of the vocabulary."""

from typing import Any

import numpy as np
import popxl
from popxl import ops
from popxl.utils import to_numpy
from popxl_addons.array_munging import pad_axis, shard
from popxl_addons.layers.linear import truncated_normal
from popxl_addons.module import Module
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.utils import WeightsDict

_MULTIPLE = 16  # the rows of a shard are a multiple of it


class Embedding(Module):
    """Looks up rows of weight [rows, hidden_size] at int indices, as [..., hidden_size].

    Args:
        dtype: The weight's dtype.
        vocab_size: The number of rows.
        hidden_size: The size of a row.
        axis: The axis of the lookup.
        replica_grouping: Its groups hold shards of the vocabulary. Each replica then looks up
            `indices` minus its offset (`offset_inputs`) and gets zeros for other shards' rows: the
            sum over the shards is the embedding.

    Attributes:
        vocab_shard_size: The rows on a replica.
        offsets: The first row of each shard.
    """

    def __init__(
        self,
        dtype: popxl.dtype,
        vocab_size: int,
        hidden_size: int,
        axis: int = 0,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
    ) -> None:
        super().__init__()
        self.dtype, self.vocab_size, self.hidden_size = dtype, vocab_size, hidden_size
        self.axis, self.replica_grouping = axis, replica_grouping
        self.n_shards = replica_grouping.num_groups if replica_grouping else 1

        self.vocab_shard_size = self.get_vocab_shard_size(vocab_size, self.n_shards)
        self.offsets = self.get_offsets(vocab_size, self.n_shards)

    def build(self, indices: popxl.Tensor) -> popxl.Tensor:
        """Looks up the rows.

        Args:
            indices: The indices, a tensor of ints.
        """
        shape = (self.vocab_shard_size, self.hidden_size)
        weight = self.add_variable_input(
            "weight",
            lambda: truncated_normal(shape),
            self.dtype,
            replica_grouping=self.replica_grouping,
        )
        return ops.gather(weight, indices, self.axis, zero_OOR=self.n_shards > 1)

    @staticmethod
    def get_vocab_shard_size(vocab_size: int, n_shards: int) -> int:
        """Returns the rows of a shard, a multiple of 16; all rows if there is one shard.

        Args:
            vocab_size: The number of tokens in the vocabulary.
            n_shards: The number of shards.
        """
        if n_shards == 1:
            return vocab_size
        rows = -(-vocab_size // n_shards)
        return -(-rows // _MULTIPLE) * _MULTIPLE

    @classmethod
    def get_offsets(cls, vocab_size: int, n_shards: int) -> np.ndarray:
        """Returns the first row of each shard: [n_shards].

        Args:
            vocab_size: The number of tokens in the vocabulary.
            n_shards: The number of shards.
        """
        return np.arange(n_shards) * cls.get_vocab_shard_size(vocab_size, n_shards)

    @classmethod
    def offset_inputs(cls, indices: np.ndarray, vocab_size: int, n_shards: int) -> np.ndarray:
        """Returns the indices relative to each shard's first row: [n_shards, ...].

        Args:
            indices: The indices, a tensor of ints.
            vocab_size: The number of tokens in the vocabulary.
            n_shards: The number of shards.
        """
        offsets = cls.get_offsets(vocab_size, n_shards).astype(np.int32)
        return np.stack([np.asarray(indices, np.int32) - offset for offset in offsets])

    @staticmethod
    def torch_mapping(
        variables: NamedTensors, nn_layer: Any, dtype: popxl.dtype = popxl.float32
    ) -> WeightsDict:
        """Returns {variable: data} of a torch.nn.Embedding, for `Session.write_variables_data`.

        Args:
            variables: The module's named variables.
            nn_layer: The PyTorch layer, or None if its values are not wanted.
            dtype: The data type.
        """
        variable, data = variables.weight, to_numpy(nn_layer.weight, dtype)
        if variable.shape_on_host != variable.shape:
            shards = variable.shape_on_host[0]
            data = shard(pad_axis(data, variable.shape[0] * shards, 0), shards, 0)
        return WeightsDict({variable: data})
