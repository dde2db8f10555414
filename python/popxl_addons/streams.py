"""Named streams of a program."""

from collections.abc import Iterable
from typing import Any

import popxl
from popxl_addons.utils import OrderedDict

_Spec = tuple[tuple[int, ...], popxl.dtype]


class _Streams(OrderedDict[str, Any]):
    """{name: stream}; streams are also attributes and have indices; iteration returns streams."""

    def __init__(self, **specs: _Spec) -> None:
        made = {name: self._make(shape, dtype, name) for name, (shape, dtype) in specs.items()}
        super().__init__(made)

    @staticmethod
    def _make(shape: "tuple[int, ...]", dtype: popxl.dtype, name: str) -> Any:
        raise NotImplementedError

    @classmethod
    def from_streams(cls, iterable: Iterable[Any]) -> Any:
        """Makes a collection of streams, by the ids of their tensors."""
        made = cls()
        for stream in iterable:
            made[stream.tensor_id] = stream
        return made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.keys():
            raise AttributeError(f"There is no stream {name!r}. There are {list(self.keys())}.")
        return self[name]

    def __getitem__(self, key: Any) -> Any:
        return self.idx(key) if isinstance(key, (int, slice)) else super().__getitem__(key)

    def __iter__(self) -> Any:
        return iter(self.values())


class InputStreams(_Streams):
    """Streams to the device by name: `InputStreams(x=((2, 3), popxl.float32))`."""

    _make = staticmethod(popxl.h2d_stream)


class OutputStreams(_Streams):
    """Streams to the host by name: `OutputStreams(loss=((), popxl.float32))`."""

    _make = staticmethod(popxl.d2h_stream)
