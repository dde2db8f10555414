"""Streams together with their transfers."""

from typing import Any

import popxl
from popxl import ops
from popxl.utils import to_numpy


def host_load(
    array: Any, dtype: popxl.dtype, name: "str | None"
) -> "tuple[Any, popxl.HostToDeviceStream, popxl.Tensor]":
    """Returns data as `dtype`, a stream `<name>_stream` for it, and the loaded tensor.

    Args:
        array: The data.
        dtype: The data type.
        name: The name of the tensor, and of its stream.
    """
    data = to_numpy(array, dtype)
    stream = popxl.h2d_stream(data.shape, dtype, name and f"{name}_stream")
    return data, stream, ops.host_load(stream, name)


def host_store(t: popxl.Tensor) -> popxl.DeviceToHostStream:
    """Stores `t` to a new stream, and returns the stream.

    Args:
        t: The tensor to send.
    """
    stream = popxl.d2h_stream(t.shape, t.dtype, f"{t.name}_stream")
    ops.host_store(stream, t)
    return stream
