"""Tensors: values of a graph, with the operators that make ops of them.

A tensor's value changes only through ops that write in place. Tensors that such ops return, and
views made by ops ending in `_`, share the memory of the tensor they come from (`_base`).
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from popxl import dtypes
from popxl.context import _context, get_current_graph, scoped
from popxl.dtypes import checked, dtype as dtype_class
from popxl.errors import UndefinedValue
from popxl.operators import Operators

if TYPE_CHECKING:
    from popxl.graph import Graph, OpRecord
    from popxl.ir import Ir

HostTensor: TypeAlias = Any  # an array, a torch tensor, lists or a scalar
host_tensor_types: tuple = (np.ndarray, np.generic, list, tuple, int, float, bool)

DEFAULT_NAME = "t"


def static_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """The shape of a tensor to come. ValueError for a negative size: all sizes are static.

    TypeError for what is no sequence of whole numbers.
    """
    try:
        sizes = tuple(operator.index(n) for n in shape)
    except TypeError:
        raise TypeError(f"A shape is a tuple of ints, e.g. (2, 3), but is {shape!r}.") from None
    if min(sizes, default=0) < 0:
        raise ValueError(f"A shape takes sizes from 0, known when it is written, but is {sizes}.")
    return sizes


class TensorSpec(Mapping):
    """Shape and dtype of a tensor to come: what graphs are made for. Hashable.

    meta_shape: of a tensor sharded over replicas, the shape of the whole.
    ValueError: a negative size. TypeError: sizes that are no ints, no dtype of popxl.
    """

    def __init__(
        self, shape: "tuple[int, ...]", dtype: dtype_class, meta_shape: "tuple[int, ...]" = ()
    ) -> None:
        self.shape = static_shape(shape)
        self.dtype = checked(dtype)
        self.meta_shape = tuple(meta_shape or ())

    def to_dict(self) -> dict[str, Any]:
        """The three fields by name."""
        return {"shape": self.shape, "dtype": self.dtype, "meta_shape": self.meta_shape}

    def to_tuple(self) -> tuple:
        """The three fields."""
        return (self.shape, self.dtype, self.meta_shape)

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return 3

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self.to_tuple() == other.to_tuple()

    def __hash__(self) -> int:
        return hash(self.to_tuple())

    def __repr__(self) -> str:
        meta = f", meta_shape={self.meta_shape}" if self.meta_shape else ""
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype}{meta})"


def core_type(shape: "tuple[int, ...]", dtype: dtype_class) -> tuple[str, list[int]]:
    """A type as the compiler's builder takes it."""
    return (checked(dtype)._core, list(static_shape(shape)))


class Tensor(Operators):
    """A value of a graph. Made by ops, `variable`, `constant` and `graph_input`."""

    def __init__(self) -> None:
        raise RuntimeError(
            f"Cannot create a {type(self).__name__} directly: use popxl.variable, "
            "popxl.constant, popxl.graph_input or an op."
        )

    _graph: "Graph"
    _id: str
    _shape: tuple[int, ...]
    _dtype: dtype_class
    _meta_shape: tuple[int, ...]
    _value: Any  # the compiler's value; of a view, as it was at _seen
    _base: "Tensor | None"
    _parts: "tuple[Tensor, ...]" = ()  # of a view of several tensors: those behind the base
    _to_view: "Callable[[Any], Any] | None"  # base's value → this one's; None: the same
    _from_view: "Callable[[Any, Any], Any] | None"  # base's value, a new view → base's new value
    _version: int  # counts writes, of a tensor that is no view
    _seen: int
    _producer: "OpRecord | None"
    _ipu: "int | None"
    _io_tiles: bool

    @classmethod
    def _make(
        cls,
        graph: "Graph",
        name: str,
        value: Any = None,
        *,
        base: "Tensor | None" = None,
        spec: "TensorSpec | None" = None,
        to_view: "Callable[[Any], Any] | None" = None,
        from_view: "Callable[[Any, Any], Any] | None" = None,
        meta_shape: "tuple[int, ...]" = (),
        producer: "OpRecord | None" = None,
        ipu: "int | None" = None,
    ) -> Any:
        tensor = object.__new__(cls)
        tensor._graph, tensor._value, tensor._base = graph, value, base
        tensor._to_view, tensor._from_view = to_view, from_view
        tensor._version, tensor._seen = 0, -1
        if spec is None:
            core_dtype, shape = value.type
            tensor._shape, tensor._dtype = tuple(shape), dtypes._CORE_TO_POPXL[core_dtype]
        else:
            tensor._shape, tensor._dtype = spec.shape, spec.dtype
        tensor._meta_shape = tuple(meta_shape or ())
        tensor._producer, tensor._ipu, tensor._io_tiles = producer, ipu, _context.io_tiles
        return graph._add_tensor(tensor, name)

    @property
    def id(self) -> str:
        """The name, behind its graph's when that is not the main graph."""
        return self._id

    @property
    def name(self) -> str:
        """The name in its graph, behind the name scopes."""
        prefix = f"{self._graph.id}/" if self._graph.id else ""
        return self._id[len(prefix) :]

    @property
    def scope(self) -> str:
        """Everything before the last part of the id."""
        return self._id.rpartition("/")[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, on one replica."""
        return self._shape

    @property
    def dtype(self) -> dtype_class:
        """The element type."""
        return self._dtype

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """Of a shard: the shape of the whole; else ()."""
        return self._meta_shape

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype and meta shape."""
        return TensorSpec(self._shape, self._dtype, self._meta_shape)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    @property
    def nelms(self) -> int:
        """The number of elements."""
        return int(np.prod(self._shape, dtype=np.int64))

    @property
    def ir(self) -> "Ir":
        """The Ir it belongs to."""
        return self._graph.ir

    @property
    def ipu(self) -> int:
        """The IPU it lies on. UndefinedValue when no op has decided it."""
        if self._ipu is None:
            raise UndefinedValue(f"The IPU of {self!r} is not defined yet.")
        return self._ipu

    @property
    def tile_set(self) -> str:
        """ "compute" or "io". UndefinedValue when no op has decided it."""
        if self._ipu is None:
            raise UndefinedValue(f"The tile set of {self!r} is not defined yet.")
        return "io" if self._io_tiles else "compute"

    @property
    def location_info(self) -> tuple[int, str]:
        """IPU and tile set. UndefinedValue when no op has decided them."""
        return (self.ipu, self.tile_set)

    @property
    def in_sync_with_ipu(self) -> bool:
        """Always true: every tensor here lies on an IPU or is seen by all of them."""
        return True

    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each dimension, in row-major order."""
        out, step = [], 1
        for size in reversed(self._shape):
            out.append(step)
            step *= size
        return tuple(reversed(out))

    def __repr__(self) -> str:
        return f"{self._kind}[{self.name} {self._dtype} {self._shape}]"

    _kind = "Tensor"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def _root(self) -> "Tensor":
        return self if self._base is None else self._base._root()

    def _is_memory(self) -> bool:
        producer = self._value.producer
        return producer.name == "variable" if producer is not None else self._value.by_reference

    def _here(self) -> "Tensor":
        """The tensor, or what stands for it in a current graph that takes in those of others."""
        graph = _context.graphs[-1] if _context.graphs else self._graph
        return graph._capture(self) if self._graph in graph._sources else self

    def _read(self) -> Any:
        """The value now, as an operand."""
        here = self._here()
        if here is not self:
            return here._read()
        if self._base is None:
            return self._value
        root = self._root()
        if self._to_view is None:
            return self._base._read()
        version = root._version + sum(t._root()._version for t in self._parts)
        if self._seen != version:
            self._value = self._to_view(self._base._read())
            self._seen = version
        return self._value

    def _read_out(self) -> Any:
        """The value now, copied if later writes to memory could reach it.

        An input of a graph may be a caller's memory, whichever way it was passed.
        """
        value, root = self._read(), self._root()
        producer = value.producer
        own = producer is not None and producer.name != "variable"
        if own and (self._base is None or not root._is_memory()):
            return value
        return self._graph._core.emit("identity", [value]).results[0]

    def _write(self, value: Any) -> None:
        """Makes `value` the tensor's value from here on."""
        here = self._here()
        if here is not self:
            return here._write(value)
        if self._base is not None:
            base = self._base
            base._write(value if self._from_view is None else self._from_view(base._read(), value))
        elif self._is_memory():
            self._graph._core.emit("assign", [self._value, value])
            self._version += 1
        else:
            self._value = value
            self._graph._by_value[value] = self
            self._version += 1

    def _accumulate(self, value: Any, scale: float) -> None:
        """Adds scale · value, in one op where the tensor is memory of its own."""
        here = self._here()
        if here is not self:
            return here._accumulate(value, scale)
        core = self._graph._core
        if self._base is None and self._is_memory() and self._dtype.is_floating_point:
            core.emit("accumulate", [self._value, value], {"scale": float(scale)})
            self._version += 1
            return
        factor = core.scalar(self._dtype._core, float(scale))
        if value.type[0] != self._dtype._core:
            value = core.emit("cast", [value], {"dtype": self._dtype._core}).results[0]
        scaled = core.emit("mul", [value, factor]).results[0]
        self._write(core.emit("add", [self._read(), scaled]).results[0])


class TensorByRef(Tensor):
    """In annotations: a graph's parameter whose changes reach the caller's tensor."""


def graph_input(
    shape: "tuple[int, ...]",
    dtype: dtype_class,
    name: "str | None" = None,
    by_ref: bool = False,
    meta_shape: "tuple[int, ...] | None" = None,
) -> Tensor:
    """A new input of the current graph.

    by_ref: what the graph writes to it reaches the tensor that a call passes.
    ValueError: the main graph takes no inputs; a negative size.
    """
    graph = get_current_graph()
    if graph is graph.main_graph:
        raise ValueError("The main graph takes no inputs: use popxl.h2d_stream.")
    name = scoped(name or DEFAULT_NAME)
    value = graph._core.add_input(core_type(shape, dtype), name, by_ref)
    made = Tensor._make(graph, name, value, meta_shape=meta_shape or ())
    graph._inputs.append(made)
    return made


def graph_output(t: Tensor) -> None:
    """Makes `t` the next output of the current graph. ValueError if it is of another graph."""
    graph = get_current_graph()
    if t not in graph:
        raise ValueError(f"{t!r} is not a tensor of graph {graph.name}.")
    graph._set_outputs([*graph._outputs, t])
