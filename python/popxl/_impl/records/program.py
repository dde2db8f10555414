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
    """The library's state of an Ir.

    Attributes:
        module: The compiler's module.
        streams: The streams, in the compiler's order.
        slots: The variables by the names of their state slots.
        cached: The entries of graph caches for this Ir, by cache.
        inlined: Names of the compiler's graphs with gradients of ops. Gradient graphs that call
            them show their ops instead.
        options: The session options, made at their first use.
        refused: The compiler's errors for ops that only sessions refuse.
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
        """Returns the next number of a kind, from 0; ops count from 100."""
        return next(self._counters.setdefault(what, itertools.count()))

    def core_name(self, name: str) -> str:
        """Returns a unique name for the compiler: letters, digits, underscores and points."""
        base = re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("_") or "t"
        unique, number = base, 0
        while unique in self._core_names:
            number += 1
            unique = f"{base}_{number}"
        self._core_names.add(unique)
        return unique


@dataclass(eq=False)
class StreamRecord:
    """The library's state of a stream.

    Attributes:
        core_name: The compiler's name.
        tensor: The tensor of the main graph that stands for it; no op uses it.
    """

    stream: "Stream"
    ir: "Ir"
    spec: "TensorSpec"
    name: str
    core_name: str
    to_device: bool
    tensor: "Tensor"

    def use(self) -> str:
        """Returns the name for a compiler's op.

        Raises:
            ValueError: The stream belongs to another program than the current one.
        """
        here = get_current_graph().ir
        if self.ir is not here:
            raise ValueError(
                f"{self.stream!r} belongs to {self.ir!r} but the current program is {here!r}. "
                "Make a stream in the current program."
            )
        return self.core_name


@dataclass(eq=False)
class BufferRecord:
    """The library's state of a remote buffer.

    Attributes:
        core_name: The compiler's name; None until an op uses the buffer.
        shards: The number of replicas over which a tensor is sharded, if the buffer was made for
            shards.
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
        """Raises ValueError if the buffer belongs to another program than the current one."""
        here = get_current_graph().ir
        if self.ir is not here:
            raise ValueError(
                f"Remote buffer {self.id} belongs to {self.ir!r} but the current program is "
                f"{here!r}. Make a buffer in the current program."
            )

    def check_row(self, offset: int) -> None:
        """Raises ValueError unless the buffer has this row."""
        if not 0 <= offset < self.entries:
            raise ValueError(
                f"Row {offset} is not one of the {self.entries} of remote buffer {self.id}."
            )

    def known_shards(self) -> "int | None":
        """Returns the number of shards of a tensor, if set or if the shapes determine it."""
        whole, row = math.prod(self.meta_shape), math.prod(self.shape)
        if self.shards or not self.meta_shape or not row or whole % row or whole == row:
            return self.shards
        return whole // row

    def use(self) -> str:
        """Returns the compiler's name; the first call declares the buffer to the compiler."""
        if self.core_name is None:
            self.core_name = of(self.ir).core_name(f"remote_buffer_{self.id}")
            kind = (core_name(self.dtype), list(self.shape))
            of(self.ir).module.add_remote_buffer(self.core_name, kind, self.entries)
        return self.core_name
