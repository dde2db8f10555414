"""The arrays of a session's streams: shapes and dtypes, known before the first run."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from popxl.dtypes import as_bits
from popxl.fp8_utils import is_float8
from popxl.streams import Stream
from popxl.utils import to_numpy


class Port:
    """The arrays of a stream in a run.

    Args:
        stream: The stream.
        shape: The shape of the array that users pass or get.
        compiled: The shape of the program's array.
        leads: The meanings of the first dimensions of the users' array.
        made: The transfers of a run: fewer than the array has, perhaps; 0 if no op uses the
            stream.
    """

    def __init__(
        self,
        stream: Stream,
        shape: tuple,
        compiled: "list[int]",
        leads: "list[str]",
        made: int,
    ) -> None:
        self.stream, self._shape, self._leads = stream, shape, leads
        self._compiled, self._used = tuple(compiled), made > 0
        whole = len(leads) > 0 and leads[0].endswith(" transfers") and made < shape[0]
        self._part = made if whole else None
        self._dtype = stream.dtype.as_numpy()
        self._bits = as_bits(np.empty(0, self._dtype)).dtype

    def checked(self, data: Any, downcast: bool) -> np.ndarray:
        """Returns `data` as the program's array. Raises ValueError for another shape or dtype."""
        array = to_numpy(unmapped(data), None, downcast, copy=False)
        if array.dtype != self._bits:
            array = self._converted(array, data)
        if array.shape != self._shape:
            array = self._cut(array)
        if not self._used:
            return np.empty(self._compiled, self._bits)
        if self._part is not None:
            array = array[: self._part]
        return array if array.shape == self._compiled else array.reshape(self._compiled)

    def _converted(self, array: np.ndarray, data: Any) -> np.ndarray:
        number = isinstance(data, (bool, int, float))
        if is_float8(self.stream.dtype) and array.dtype == self._dtype:
            return as_bits(array)
        if number and not is_float8(self.stream.dtype):
            return array.astype(self._dtype)
        given = getattr(data, "dtype", array.dtype)
        raise ValueError(
            f"{self.stream!r} takes {self.stream.dtype} but got {given}. Convert the data, e.g. "
            f"np.asarray(data, {self._dtype.name!r})."
        )

    def _cut(self, array: np.ndarray) -> np.ndarray:
        expected = self._shape
        leads = len(expected) > len(self.stream.shape)  # transfers or replicas come first
        if leads and array.shape[1:] == expected[1:] and array.shape[0] > expected[0]:
            return array[: expected[0]]
        first = len(self._leads)
        ones = all(n == 1 for n in (*self.stream.shape, *array.shape[first:]))
        if ones and array.size == math.prod(expected) and array.shape[:first] == expected[:first]:
            return array.reshape(expected)
        if array.size == 1 and all(n == 1 for n in expected):
            return array.reshape(expected)
        each = f", {self.stream.shape} for each of {' and '.join(self._leads)}," if leads else ""
        raise ValueError(
            f"{self.stream!r} takes data of shape {expected}{each} but got {array.shape}. Reshape "
            "the data, or make the stream with another shape."
        )

    def returned(self, result: np.ndarray) -> np.ndarray:
        """Returns the program's array in the stream's dtype and shape."""
        if not self._used:
            return np.zeros(self._shape, self._dtype)
        if result.dtype != self._dtype:
            result = result.view(self._dtype)
        if self._part is not None:
            whole = np.zeros(self._shape, self._dtype)
            whole[: self._part] = result.reshape(self._part, *self._shape[1:])
            return whole
        return result if result.shape == self._shape else result.reshape(self._shape)


def io_shape(shape: "tuple[int, ...]", transfers: int, replicas: int) -> tuple[int, ...]:
    """Returns the shape of the array of a stream in a run: (transfers, replicas) + its shape.

    The first two are left out if they are 1.
    """
    return (*(n for n in (transfers, replicas) if n > 1), *shape)


def ports_of(
    streams: Iterable[Stream], types: Iterable[Any], transfers: int, replicas: int
) -> list[Port]:
    """Returns the ports of streams.

    Args:
        streams: The streams.
        types: The types of the program's arrays.
        transfers: `ir.num_host_transfers`.
        replicas: The replicas of this instance.

    Raises:
        ValueError: A stream makes more transfers.
    """
    counts = {"transfers": transfers, "replicas": replicas}
    leads = [f"{n} {what}" for what, n in counts.items() if n > 1]
    return [
        Port(stream, io_shape(stream.shape, transfers, replicas), shape, leads,
             _made_transfers(stream, shape, transfers, replicas))
        for stream, (_, shape) in zip(streams, types, strict=True)
    ]  # fmt: skip


def _made_transfers(stream: Stream, shape: "list[int]", transfers: int, replicas: int) -> int:
    """Returns the number of transfers of a stream in a run."""
    each = max(1, math.prod(stream.shape) * replicas)
    made = math.prod(shape) // each
    if made > transfers:
        raise ValueError(
            f"{stream!r} makes {made} transfers in a run but ir.num_host_transfers is "
            f"{transfers}. Set ir.num_host_transfers to {made}."
        )
    return made


def unmapped(data: Any) -> Any:
    """Returns memory-mapped data as a plain array, which may be converted: it is only read."""
    return np.asarray(data) if isinstance(data, np.memmap) else data
