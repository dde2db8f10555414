"""Remote buffers: rows of tensors in memory beside the IPUs."""

from typing import Any

from popxl.context import get_current_graph
from popxl.dtypes import checked, dtype as dtype_class
from popxl.tensor_base import Tensor, core_type, static_shape


class RemoteBuffer:
    """`entries` tensors of one shape and dtype outside the IPU, for `ops.remote_load` and `_store`.

    ValueError: fewer than one entry, or a negative size.
    """

    def __init__(
        self, tensor_shape: "tuple[int, ...]", tensor_dtype: dtype_class, entries: int
    ) -> None:
        self._ir = get_current_graph().ir
        self._shape, self._dtype = static_shape(tensor_shape), checked(tensor_dtype)
        self._meta_shape: tuple[int, ...] = ()
        self.entries = entries
        self._ir._buffers.append(self)
        self._id = len(self._ir._buffers)
        self._core_name: str | None = None

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The shape of a row."""
        return self._shape

    @property
    def tensor_dtype(self) -> dtype_class:
        """The element type."""
        return self._dtype

    @property
    def remote_buffer_id(self) -> int:
        """Counts the buffers of the Ir from 1."""
        return self._id

    _entries: int

    @property
    def entries(self) -> int:
        """The number of rows; it may change until an op uses the buffer."""
        return self._entries

    @entries.setter
    def entries(self, value: int) -> None:
        if value < 1:
            raise ValueError(f"A remote buffer has at least one entry but {value} were asked for.")
        if getattr(self, "_core_name", None) is not None and value != self._entries:
            raise ValueError("The entries of a remote buffer cannot change once an op uses it.")
        self._entries = value

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """Of a buffer of shards: the shape of the whole; else ()."""
        return self._meta_shape

    @meta_shape.setter
    def meta_shape(self, value: "tuple[int, ...]") -> None:
        self._meta_shape = tuple(value)

    def validate_tensor_matches_buffer(self, t: Tensor, num_shards: int = 1) -> None:
        """ValueError unless `t`, cut into `num_shards`, is a row of this buffer."""
        shape = t.shape if num_shards == 1 else (-(-t.nelms // num_shards),)
        if t.dtype != self._dtype or shape != self._shape:
            raise ValueError(
                f"{t!r} is no row of remote buffer {self._id}, which holds "
                f"{self._dtype} {self._shape}."
            )

    def _check_ir(self) -> None:
        here = get_current_graph().ir
        if self._ir is not here:
            raise ValueError(
                f"Remote buffer {self._id} belongs to {self._ir!r} but the current program is "
                f"{here!r}. Make a buffer in this one."
            )

    def _check_row(self, offset: int) -> None:
        if not 0 <= offset < self._entries:
            raise ValueError(
                f"Row {offset} is not one of the {self._entries} of remote buffer {self._id}."
            )

    def _use(self) -> str:
        if self._core_name is None:
            self._core_name = self._ir._core_name(f"remote_buffer_{self._id}")
            core: Any = core_type(self._shape, self._dtype)
            self._ir._module.add_remote_buffer(self._core_name, core, self._entries)
        return self._core_name


def remote_buffer(
    tensor_shape: "tuple[int, ...]", tensor_dtype: dtype_class, entries: int = 1
) -> RemoteBuffer:
    """A new remote buffer of the current Ir."""
    return RemoteBuffer(tensor_shape, tensor_dtype, entries)
