"""Named streams of a program, and the data of a step for them."""

from typing import Any

import popxl


class InputStreams:
    """Streams to the device by name: `InputStreams(x=((2, 3), popxl.float32))`."""

    def __init__(self, **specs: "tuple[tuple[int, ...], popxl.dtype]") -> None:
        self._streams: dict[str, Any] = {
            name: popxl.h2d_stream(shape, dtype, name) for name, (shape, dtype) in specs.items()
        }

    def __getattr__(self, name: str) -> popxl.HostToDeviceStream:
        if name.startswith("_") or name not in self._streams:
            raise AttributeError(f"There is no input stream {name!r}.")
        return self._streams[name]

    def __getitem__(self, name: str) -> popxl.HostToDeviceStream:
        return self._streams[name]

    def __iter__(self) -> Any:
        return iter(self._streams.values())


class OutputStreams(InputStreams):
    """Streams to the host by name: `OutputStreams(loss=((), popxl.float32))`."""

    def __init__(self, **specs: "tuple[tuple[int, ...], popxl.dtype]") -> None:
        self._streams = {
            name: popxl.d2h_stream(shape, dtype, name) for name, (shape, dtype) in specs.items()
        }
