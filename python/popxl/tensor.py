"""Tensors: values of a graph, with the operators that make ops of them.

A tensor's value changes only through ops that write in place. Tensors that such ops return, and
views made by ops ending in `_`, share the memory of the tensor they come from (`_base`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from popxl import dtypes
from popxl.context import _context, get_current_graph, scoped
from popxl.dtypes import dtype as dtype_class
from popxl.errors import UndefinedValue
from popxl.operators import Operators
from popxl.replica_grouping import ReplicaGrouping
from popxl.utils import to_numpy

if TYPE_CHECKING:
    from popxl.graph import Graph, OpRecord
    from popxl.ir import Ir

HostTensor: TypeAlias = Any  # an array, a torch tensor, lists or a scalar
host_tensor_types: tuple = (np.ndarray, np.generic, list, tuple, int, float, bool)

DEFAULT_NAME = "t"


class TensorSpec(Mapping):
    """Shape and dtype of a tensor to come: what graphs are made for. Hashable.

    meta_shape: of a tensor sharded over replicas, the shape of the whole.
    """

    def __init__(
        self, shape: "tuple[int, ...]", dtype: dtype_class, meta_shape: "tuple[int, ...]" = ()
    ) -> None:
        self.shape = tuple(int(n) for n in shape)
        self.dtype = dtype
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
    return (dtype._core, list(shape))


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

    # --- what it is -------------------------------------------------------------------------------
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

    # --- values, for the ops ----------------------------------------------------------------------
    def _root(self) -> "Tensor":
        return self if self._base is None else self._base._root()

    def _is_memory(self) -> bool:
        producer = self._value.producer
        return producer.name == "variable" if producer is not None else self._value.by_reference

    def _read(self) -> Any:
        """The value now, as an operand."""
        if self._base is None:
            return self._value
        root = self._root()
        if self._to_view is None:
            return self._base._read()
        if self._seen != root._version:
            self._value = self._to_view(self._base._read())
            self._seen = root._version
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


class Variable(Tensor):
    """A tensor of the main graph that keeps its value between runs."""

    _slot: str
    _data: np.ndarray
    replica_grouping: ReplicaGrouping
    retrieval_mode: str

    @property
    def shape_on_replica(self) -> tuple[int, ...]:
        """The shape on one replica."""
        return self._shape

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """The shape of the data on the host: groups in front when there are several."""
        groups = self.replica_grouping.num_groups
        return ((groups,) if groups > 1 else ()) + self._shape

    def _send(self, executable: Any, data: np.ndarray) -> None:
        executable.write_state(self._slot, data)

    def _fetch(self, executable: Any) -> np.ndarray:
        return executable.read_state(self._slot)


class Constant(Tensor):
    """A tensor whose value is part of the program."""

    _data: np.ndarray


def _host_data(data: Any, dtype: "dtype_class | None", downcast: bool) -> np.ndarray:
    array = to_numpy(data, dtype, downcast)
    dtype_class.as_dtype(array)  # ValueError for types that there are none of
    return array


def _refuse_float8(log2_scale: Any, nan_on_overflow: Any, dtype: Any) -> None:
    if log2_scale is not None or nan_on_overflow is not None or (dtype and "float8" in dtype.name):
        from popxl.errors import unsupported

        raise unsupported("A float8 variable or constant")


def variable(
    data: HostTensor,
    dtype: "dtype_class | None" = None,
    name: "str | None" = None,
    downcast: bool = True,
    replica_grouping: "ReplicaGrouping | None" = None,
    retrieval_mode: "str | None" = None,
    log2_scale: "int | None" = None,
    nan_on_overflow: "bool | None" = None,
) -> Variable:
    """A variable of the main graph, holding `data` until the program changes it.

    data: an array, a torch tensor, lists or a scalar; with several replica groups, their number
        is the first dimension.
    dtype: by default the data's, 64-bit types as 32 bits unless `downcast` is false.
    replica_grouping: replicas that share one value; all of them by default.
    ValueError: outside the main graph; the first dimension is not the number of groups.
    """
    graph = get_current_graph()
    if graph is not graph.main_graph:
        raise ValueError(f"Variables belong to the main graph, but {graph.name} is current.")
    _refuse_float8(log2_scale, nan_on_overflow, dtype)
    array = _host_data(data, dtype, downcast)
    rg = replica_grouping or graph.ir.replica_grouping()
    shape = array.shape
    if rg.num_groups > 1:
        if not shape or shape[0] != rg.num_groups:
            raise ValueError(
                f"A variable of {rg.num_groups} replica groups needs data with that many rows "
                f"but got shape {shape}."
            )
        shape = shape[1:]
    return make_variable(graph, array, shape, name, rg, retrieval_mode or "one_per_group")


def make_variable(
    graph: "Graph", array: np.ndarray, shape: tuple, name: "str | None", rg: Any, retrieval: str
) -> Variable:
    """Declares the state slot of a variable and reads it in `graph`."""
    if retrieval not in ("one_per_group", "all_replicas"):
        raise ValueError(f"retrieval_mode must be one_per_group or all_replicas: {retrieval!r}.")
    if rg.num_groups > 1 and not rg.is_const:
        from popxl.errors import unsupported

        raise unsupported("A variable of replica groups without a constant stride")
    if retrieval == "all_replicas":
        from popxl.errors import unsupported

        raise unsupported("retrieval_mode='all_replicas'")
    spec = TensorSpec(shape, dtype_class.as_dtype(array))
    slot = graph.ir._core_name(scoped(name or DEFAULT_NAME))
    group = (0, 1) if rg.num_groups == 1 else (rg.group_size, rg.stride)
    graph.ir._module.add_state(slot, core_type(spec.shape, spec.dtype), "parameter", *group)
    made = Variable._make(graph, scoped(name or DEFAULT_NAME), graph._core.variable(slot))
    made._slot, made._data = slot, array
    made.replica_grouping, made.retrieval_mode = rg, retrieval
    graph.ir._slots[slot] = made
    return made


def constant(
    data: HostTensor,
    dtype: "dtype_class | None" = None,
    name: "str | None" = None,
    downcast: bool = True,
    log2_scale: "int | None" = None,
    nan_on_overflow: "bool | None" = None,
) -> Constant:
    """A constant of the current graph; `data` and `dtype` as for `variable`."""
    graph = get_current_graph()
    _refuse_float8(log2_scale, nan_on_overflow, dtype)
    array = _host_data(data, dtype, downcast)
    value = graph._core.constant(array, dtype_class.as_dtype(array)._core)
    made = Constant._make(graph, scoped(name or DEFAULT_NAME), value)
    made._data = array
    return made


def graph_input(
    shape: "tuple[int, ...]",
    dtype: dtype_class,
    name: "str | None" = None,
    by_ref: bool = False,
    meta_shape: "tuple[int, ...] | None" = None,
) -> Tensor:
    """A new input of the current graph.

    by_ref: what the graph writes to it reaches the tensor that a call passes.
    ValueError: the main graph takes no inputs.
    """
    graph = get_current_graph()
    if graph is graph.main_graph:
        raise ValueError("The main graph takes no inputs: use popxl.h2d_stream.")
    name = scoped(name or DEFAULT_NAME)
    value = graph._core.add_input(core_type(tuple(shape), dtype), name, by_ref)
    made = Tensor._make(graph, name, value, meta_shape=meta_shape or ())
    graph._inputs.append(made)
    return made


def graph_output(t: Tensor) -> None:
    """Makes `t` the next output of the current graph. ValueError if it is of another graph."""
    graph = get_current_graph()
    if t not in graph:
        raise ValueError(f"{t!r} is not a tensor of graph {graph.name}.")
    graph._set_outputs([*graph._outputs, t])
