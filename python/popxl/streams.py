"""Streams between host and device."""

from typing import Any

from popxl._impl.records import StreamRecord, of
from popxl.context import get_main_graph
from popxl.dtypes import core_name, dtype as dtype_class
from popxl.tensor_base import Tensor, TensorSpec, make_tensor


class Stream:
    """Transfers of tensors of one shape and dtype. Made by `h2d_stream` and `d2h_stream`."""

    _to_device: bool

    def __init__(self, shape: Any, dtype: dtype_class, name: "str | None") -> None:
        graph = get_main_graph()
        name = name or ("h2d_stream" if self._to_device else "d2h_stream")
        spec, core = TensorSpec(shape, dtype), of(graph.ir).core_name(name)
        tensor = make_tensor(Tensor, graph, name, spec=spec, stream=True)
        self._record = StreamRecord(self, graph.ir, spec, name, core, self._to_device, tensor)
        kind = (core_name(spec.dtype), list(spec.shape))
        of(graph.ir).module.add_stream(core, kind, self._to_device)
        of(graph.ir).streams.append(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one transfer of one replica."""
        return self._record.spec.shape

    @property
    def dtype(self) -> dtype_class:
        """The element type."""
        return self._record.spec.dtype

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype of one transfer."""
        return self._record.spec

    @property
    def name(self) -> str:
        """The name given to it."""
        return self._record.name

    @property
    def tensor_id(self) -> str:
        """The id of the tensor of the main graph that stands for it."""
        return self._record.tensor.id

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.tensor_id} {self.dtype} {self.shape}]"


class HostToDeviceStream(Stream):
    """A stream that `ops.host_load` reads."""

    _to_device = True


class DeviceToHostStream(Stream):
    """A stream that `ops.host_store` writes."""

    _to_device = False


def h2d_stream(
    shape: "tuple[int, ...]", dtype: dtype_class, name: "str | None" = None
) -> HostToDeviceStream:
    """Makes a stream of tensors to the device. It belongs to the main graph in any context.

    Args:
        shape: The shape of a transfer.
        dtype: The data type.
        name: The name of the stream.
    """
    return HostToDeviceStream(shape, dtype, name)


def d2h_stream(
    shape: "tuple[int, ...]", dtype: dtype_class, name: "str | None" = None
) -> DeviceToHostStream:
    """Makes a stream of tensors to the host. It belongs to the main graph in any context.

    Args:
        shape: The shape of a transfer.
        dtype: The data type.
        name: The name of the stream.
    """
    return DeviceToHostStream(shape, dtype, name)
