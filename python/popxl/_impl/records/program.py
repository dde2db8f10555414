"""The records of programs, and of the streams and remote buffers that belong to them."""

import itertools
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from poptorch_core import _core
from popxl._impl.records.link import of
from popxl._impl.records.replicas import Replicas
from popxl.context import get_current_graph
from popxl.dtypes import core_name, dtype as dtype_class

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir
    from popxl.remote_buffer import RemoteBuffer
    from popxl.streams import Stream
    from popxl.tensor import Tensor, TensorSpec, Variable

_FIRST_OP_ID = 100


@dataclass(eq=False)
class ProgramRecord:
    """What the library keeps of an Ir.

    module: the compiler's. streams: as the compiler numbers them.
    refused: what the compiler said of ops that are refused by sessions alone.
    options: the session options, once something asks for them.
    slots: of state: name → variable.
    cached: what caches of graphs hold of this Ir, by cache.
    inlined: the compiler's graphs that stand for gradients of ops; graphs of gradients that call
        them show their ops instead.
    """

    id: int = 0
    replicas: Replicas = field(default_factory=Replicas)
    num_host_transfers: int = 1
    has_session: bool = False
    module: _core.Module = field(default_factory=_core.Module)
    streams: "list[Stream]" = field(default_factory=list)
    buffers: "list[RemoteBuffer]" = field(default_factory=list)
    graphs: "list[Graph]" = field(default_factory=list)
    slots: "dict[str, Variable]" = field(default_factory=dict)
    cached: "WeakKeyDictionary[Any, dict]" = field(default_factory=WeakKeyDictionary)
    inlined: set[str] = field(default_factory=set)
    options: Any = None
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.main: Graph
        self._counters: dict[str, Any] = {"op": itertools.count(_FIRST_OP_ID)}
        self._core_names = {"main"}

    def next(self, what: str) -> int:
        """Counts from 0, ops from 100."""
        return next(self._counters.setdefault(what, itertools.count()))

    def core_name(self, name: str) -> str:
        """A name for the compiler: letters, digits and points, used once in this Ir."""
        base = re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("_") or "t"
        unique, number = base, 0
        while unique in self._core_names:
            number += 1
            unique = f"{base}_{number}"
        self._core_names.add(unique)
        return unique


@dataclass(eq=False)
class StreamRecord:
    """What the library keeps of a stream.

    core_name: what the compiler calls it. tensor: of the main graph, which no op uses.
    """

    stream: "Stream"
    ir: "Ir"
    spec: "TensorSpec"
    name: str
    core_name: str
    to_device: bool
    tensor: "Tensor"

    def use(self) -> str:
        """Its name, for an op of the compiler's.

        ValueError: the current program is another than the stream's.
        """
        here = get_current_graph().ir
        if self.ir is not here:
            raise ValueError(
                f"{self.stream!r} belongs to {self.ir!r} but the current program is {here!r}. "
                "Make a stream in this one."
            )
        return self.core_name


@dataclass(eq=False)
class BufferRecord:
    """What the library keeps of a remote buffer.

    core_name: None until an op uses it. shards: over how many replicas a tensor is cut, where the
    buffer was made for that.
    """

    ir: "Ir"
    shape: tuple[int, ...]
    dtype: dtype_class
    entries: int = 0
    id: int = 0
    meta_shape: tuple[int, ...] = ()
    core_name: str | None = None
    shards: int | None = None

    def check_ir(self) -> None:
        """ValueError: the current program is another than the buffer's."""
        here = get_current_graph().ir
        if self.ir is not here:
            raise ValueError(
                f"Remote buffer {self.id} belongs to {self.ir!r} but the current program is "
                f"{here!r}. Make a buffer in this one."
            )

    def check_row(self, offset: int) -> None:
        """ValueError unless there is such a row."""
        if not 0 <= offset < self.entries:
            raise ValueError(
                f"Row {offset} is not one of the {self.entries} of remote buffer {self.id}."
            )

    def known_shards(self) -> "int | None":
        """Over how many replicas a tensor is cut, if it was made for that or its shapes say it."""
        whole, row = math.prod(self.meta_shape), math.prod(self.shape)
        if self.shards or not self.meta_shape or not row or whole % row or whole == row:
            return self.shards
        return whole // row

    def use(self) -> str:
        """Declares the buffer to the compiler with its first op; returns its name there."""
        if self.core_name is None:
            self.core_name = of(self.ir).core_name(f"remote_buffer_{self.id}")
            kind = (core_name(self.dtype), list(self.shape))
            of(self.ir).module.add_remote_buffer(self.core_name, kind, self.entries)
        return self.core_name
