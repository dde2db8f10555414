"""Streams between host and device."""

from typing import Any

from popxl.context import get_current_graph
from popxl.dtypes import dtype as dtype_class
from popxl.tensor_base import TensorSpec, core_type


class Stream:
    """Transfers of tensors of one shape and dtype. Made by `h2d_stream` and `d2h_stream`."""

    _to_device: bool

    def __init__(self, shape: Any, dtype: dtype_class, name: "str | None") -> None:
        graph = get_current_graph()
        if graph is not graph.main_graph:
            raise ValueError(f"Streams belong to the main graph, but {graph.name} is current.")
        default = "h2d_stream" if self._to_device else "d2h_stream"
        self._ir = graph.ir
        self._spec = TensorSpec(shape, dtype)
        self._name = name or default
        self._core_name = self._ir._core_name(self._name)
        self._used = False
        self._ir._streams.append(self)

    def _use(self) -> str:
        """Declares the stream to the compiler with its first op; returns its name there.

        ValueError: the current program is another than the stream's.
        """
        here = get_current_graph().ir
        if self._ir is not here:
            raise ValueError(
                f"{self!r} belongs to {self._ir!r} but the current program is {here!r}. Make a "
                "stream in this one."
            )
        if not self._used:
            self._used = True
            core = core_type(self.shape, self.dtype)
            self._ir._module.add_stream(self._core_name, core, self._to_device)
            self._ir._module_streams.append(self)
        return self._core_name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one transfer of one replica."""
        return self._spec.shape

    @property
    def dtype(self) -> dtype_class:
        """The element type."""
        return self._spec.dtype

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype of one transfer."""
        return self._spec

    @property
    def name(self) -> str:
        """The name that it was given."""
        return self._name

    @property
    def tensor_id(self) -> str:
        """The name that no other stream of the Ir has."""
        return self._core_name

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self._core_name} {self.dtype} {self.shape}]"


class HostToDeviceStream(Stream):
    """A stream that `ops.host_load` reads."""

    _to_device = True


class DeviceToHostStream(Stream):
    """A stream that `ops.host_store` writes."""

    _to_device = False


def h2d_stream(
    shape: "tuple[int, ...]", dtype: dtype_class, name: "str | None" = None
) -> HostToDeviceStream:
    """A stream of tensors to the device. ValueError outside the main graph."""
    return HostToDeviceStream(shape, dtype, name)


def d2h_stream(
    shape: "tuple[int, ...]", dtype: dtype_class, name: "str | None" = None
) -> DeviceToHostStream:
    """A stream of tensors to the host. ValueError outside the main graph."""
    return DeviceToHostStream(shape, dtype, name)
