"""Remote buffers: rows of tensors in memory outside the IPUs."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from popxl._impl.records import BufferRecord, of
from popxl.context import get_current_graph
from popxl.dtypes import checked, dtype as dtype_class
from popxl.tensor_base import Tensor, static_shape

if TYPE_CHECKING:
    from popxl.ir import Ir


class RemoteBuffer:
    """`entries` tensors of one shape and dtype outside the IPU, for `ops.remote_load` and `_store`.

    Args:
        tensor_shape: The shape of a row.
        tensor_dtype: The data type of a row.
        entries: The number of rows.

    Raises:
        ValueError: There is less than one entry, or a size is negative.
    """

    def __init__(
        self, tensor_shape: "tuple[int, ...]", tensor_dtype: dtype_class, entries: int
    ) -> None:
        shape, dtype = static_shape(tensor_shape), checked(tensor_dtype)
        self._record = BufferRecord(get_current_graph().ir, shape, dtype)
        self.entries = entries
        buffers = of(self._record.ir).buffers
        buffers.append(self)
        self._record.id = len(buffers)

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        return self._record.shape

    @tensor_shape.setter
    def tensor_shape(self, value: Any) -> None:
        raise AttributeError("can't set attribute 'tensor_shape'")

    @property
    def tensor_dtype(self) -> dtype_class:
        """The element type."""
        return self._record.dtype

    @tensor_dtype.setter
    def tensor_dtype(self, value: Any) -> None:
        raise AttributeError("can't set attribute 'tensor_dtype'")

    def set_remote_buffer_info(
        self, tensor_dtype: dtype_class, tensor_shape: Iterable[int], entries: int
    ) -> None:
        """Changes the rows. Raises ValueError once an op uses the buffer.

        Args:
            tensor_dtype: The data type of a row.
            tensor_shape: The shape of a row.
            entries: The number of rows.
        """
        shape, dtype = static_shape(tensor_shape), checked(tensor_dtype)
        if self._record.core_name is not None:
            raise ValueError("The rows of a remote buffer cannot change once an op uses it.")
        self.entries = entries
        self._record.shape, self._record.dtype = shape, dtype

    @property
    def _current_ir(self) -> "Ir":
        """The Ir to which it belongs."""
        return self._record.ir

    @property
    def remote_buffer_id(self) -> int:
        """The number of the buffer in the Ir, from 1."""
        return self._record.id

    @property
    def entries(self) -> int:
        """The number of rows; it may change until an op uses the buffer."""
        return self._record.entries

    @entries.setter
    def entries(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"Entries must be a non-zero, positive integer but is {value}.")
        if self._record.core_name is not None and value != self._record.entries:
            raise ValueError("The entries of a remote buffer cannot change once an op uses it.")
        self._record.entries = value

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor, for a buffer of shards; else ()."""
        return self._record.meta_shape

    @meta_shape.setter
    def meta_shape(self, value: "tuple[int, ...]") -> None:
        self._record.meta_shape = tuple(value)

    def validate_tensor_matches_buffer(self, t: Tensor, num_shards: int = 1) -> None:
        """Raises ValueError unless a shard of `t`, cut into `num_shards`, fits a row.

        Args:
            t: The tensor to compare with a row.
            num_shards: The number of shards.
        """
        shape = t.shape if num_shards == 1 else (-(-t.nelms // num_shards),)
        if t.dtype != self._record.dtype or shape != self._record.shape:
            raise ValueError(
                f"Tensor {t.id} does not match buffer. {t!r} is not a row of remote buffer "
                f"{self._record.id}, which holds {self._record.dtype} {self._record.shape}."
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteBuffer) and (
            of(other).ir is self._record.ir and of(other).id == self._record.id
        )

    def __hash__(self) -> int:
        return hash((self._record.ir, self._record.id))


def remote_buffer(
    tensor_shape: "tuple[int, ...]", tensor_dtype: dtype_class, entries: int = 1
) -> RemoteBuffer:
    """Makes a remote buffer of the current Ir. See RemoteBuffer.

    Args:
        tensor_shape: The shape of a row.
        tensor_dtype: The data type of a row.
        entries: The number of rows.
    """
    return RemoteBuffer(tensor_shape, tensor_dtype, entries)
