"""The record of a tensor: the compiler's value, and the memory that it shares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from popxl._impl.records.link import of
from popxl.context import current
from popxl.dtypes import computing_dtype, core_name, dtype as dtype_class

if TYPE_CHECKING:
    from popxl._impl.records.graph import OpRecord
    from popxl.graph import Graph
    from popxl.tensor import Tensor


def _is_memory(value: Any) -> bool:
    """Returns whether writes change a compiler's value: a state slot, or a caller's memory."""
    producer = value.producer
    return producer.name == "variable" if producer is not None else value.by_reference


@dataclass(eq=False)
class TensorRecord:
    """The library's state of a tensor.

    Attributes:
        value: The compiler's value; for a view, the value at version `seen`.
        base: For a view: the tensor whose memory it shares.
        to_view: Converts the base's value to this one's; None: the same.
        from_view: Converts the base's value and a new view to the base's new value.
        ipu: The IPU; None if no op has decided it.
        parts: For a view of several tensors: the tensors after the base.
        version: The number of writes to a tensor that is not a view.
        stream: Whether it stands for a stream.
    """

    graph: "Graph"
    shape: tuple[int, ...]
    dtype: dtype_class
    value: Any = None
    base: "Tensor | None" = None
    to_view: "Callable[[Any], Any] | None" = None
    from_view: "Callable[[Any, Any], Any] | None" = None
    meta_shape: tuple[int, ...] = ()
    producer: "OpRecord | None" = None
    ipu: "int | None" = None
    io_tiles: bool = False
    parts: "tuple[Tensor, ...]" = ()
    version: int = 0
    seen: int = -1
    stream: bool = False

    def __post_init__(self) -> None:
        self.id: str = ""
        self.tensor: Tensor  # the tensor of this record

    def root(self) -> "Tensor":
        """Returns the tensor that owns the memory."""
        return self.tensor if self.base is None else of(self.base).root()

    def is_memory(self) -> bool:
        """Returns whether the value is a state slot, or a caller's memory."""
        return _is_memory(self.value)

    def here(self) -> "Tensor":
        """Returns the tensor, or its input in a current graph that captures it."""
        here = current.graphs[-1] if current.graphs else self.graph
        graph = of(current.homes.get(here) or here)
        return graph.capture(self.tensor) if self.graph in graph.sources else self.tensor

    def read(self) -> Any:
        """Returns the current value, as an operand."""
        here = self.here()
        if here is not self.tensor:
            return of(here).read()
        if self.base is None:
            return self.value
        base = of(self.base)
        if self.to_view is None:
            return base.read()
        version = of(self.root()).version + sum(of(of(t).root()).version for t in self.parts)
        if self.seen != version:
            self.value = self.to_view(base.read())
            self.seen = version
        return self.value

    def read_out(self) -> Any:
        """Returns the current value, copied if later writes to memory could change it.

        An input of a graph may be a caller's memory, whether it is passed by value or by reference.
        """
        value, root = self.read(), of(self.root())
        producer = value.producer
        own = producer is not None and producer.name != "variable"
        if own and (self.base is None or not root.is_memory()):
            return value
        return self._copied(value)

    def _copied(self, value: Any) -> Any:
        return of(self.graph).core.emit("identity", [value]).results[0]

    def write(self, value: Any) -> None:
        """Makes `value` the tensor's new value."""
        here = self.here()
        if here is not self.tensor:
            return of(here).write(value)
        if self.base is not None:
            base = of(self.base)
            base.write(value if self.from_view is None else self.from_view(base.read(), value))
        elif self.is_memory():
            of(self.graph).core.emit("assign", [self.value, value])
            self.version += 1
        else:
            self.value = value = self._copied(value) if _is_memory(value) else value
            of(self.graph).by_value[value] = self.tensor
            self.version += 1

    def accumulate(self, value: Any, scale: float) -> None:
        """Adds scale · value; a tensor that owns memory needs one op."""
        here = self.here()
        if here is not self.tensor:
            return of(here).accumulate(value, scale)
        core = of(self.graph).core
        if self.base is None and self.is_memory() and self.dtype.is_floating_point:
            core.emit("accumulate", [self.value, value], {"scale": float(scale)})
            self.version += 1
            return
        dtype = core_name(computing_dtype(self.dtype))

        def cast(x: Any, to: str) -> Any:
            return x if x.type[0] == to else core.emit("cast", [x], {"dtype": to}).results[0]

        factor = core.scalar(dtype, float(scale))
        scaled = core.emit("mul", [cast(value, dtype), factor]).results[0]
        total = core.emit("add", [cast(self.read(), dtype), scaled]).results[0]
        self.write(cast(total, core_name(self.dtype)))
