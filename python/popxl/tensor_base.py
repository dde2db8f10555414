"""Tensors: values of a graph, with operators that make ops.

A tensor's value changes only through ops that write in place. Tensors that such ops return, and
views made by ops ending in `_`, share the memory of their source tensor.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from popxl import dtypes
from popxl._impl import popart_views
from popxl._impl.operators import Operators
from popxl._impl.records import TensorRecord, made, of
from popxl.context import current, get_current_graph, scoped
from popxl.dtypes import checked, core_name, dtype as dtype_class
from popxl.errors import UndefinedValue

if TYPE_CHECKING:
    from popxl.graph import Graph
    from popxl.ir import Ir

HostTensor: TypeAlias = Any  # an array, a torch tensor, lists or a scalar
host_tensor_types: tuple = (np.ndarray, np.generic, list, tuple, int, float, bool)

DEFAULT_NAME = "t"


def static_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """Returns the shape of a future tensor; all sizes are static.

    Raises:
        ValueError: A size is negative.
        TypeError: The shape is not a sequence of whole numbers.
    """
    try:
        sizes = tuple(operator.index(n) for n in shape)
    except TypeError:
        raise TypeError(f"A shape is a tuple of ints, e.g. (2, 3), but is {shape!r}.") from None
    if min(sizes, default=0) < 0:
        raise ValueError(f"The sizes of a shape must be static, and 0 or more, but are {sizes}.")
    return sizes


class TensorSpec(Mapping):
    """Shape and dtype of a future tensor, from which graphs are made. Hashable.

    Args:
        shape: The shape.
        dtype: The element type.
        meta_shape: For a tensor sharded over replicas, the shape of the whole.

    Raises:
        ValueError: A size is negative.
        TypeError: The sizes are not ints, or the dtype is not a dtype of popxl.
    """

    def __init__(
        self, shape: "tuple[int, ...]", dtype: dtype_class, meta_shape: "tuple[int, ...]" = ()
    ) -> None:
        self.shape = static_shape(shape)
        self.dtype = checked(dtype)
        self.meta_shape = tuple(meta_shape or ())

    def to_dict(self) -> dict[str, Any]:
        """Returns the three fields by name."""
        return {"shape": self.shape, "dtype": self.dtype, "meta_shape": self.meta_shape}

    def to_tuple(self) -> tuple:
        """Returns the three fields."""
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
    """Returns a type in the form of the compiler's builder."""
    return (core_name(checked(dtype)), list(static_shape(shape)))


class Tensor(Operators):
    """A value of a graph. Made by ops, `variable`, `constant` and `graph_input`."""

    def __init__(self) -> None:
        raise RuntimeError(
            f"Cannot create a {type(self).__name__} directly: use popxl.variable, "
            "popxl.constant, popxl.graph_input or an op."
        )

    _record: TensorRecord

    @property
    def id(self) -> str:
        """The name, preceded by the graph's name unless that is the main graph."""
        return self._record.id

    @property
    def name(self) -> str:
        """The name in its graph, with the name scopes in front."""
        return self._record.id[len(of(self._record.graph).id_of("")) :]

    @property
    def scope(self) -> str:
        """Everything before the last part of the id."""
        return self._record.id.rpartition("/")[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, on one replica."""
        return self._record.shape

    @property
    def dtype(self) -> dtype_class:
        """The element type."""
        return self._record.dtype

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor, for a shard; else ()."""
        return self._record.meta_shape

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype and meta shape."""
        return TensorSpec(self._record.shape, self._record.dtype, self._record.meta_shape)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self._record.shape)

    @property
    def nelms(self) -> int:
        """The number of elements."""
        return int(np.prod(self._record.shape, dtype=np.int64))

    @property
    def ir(self) -> "Ir":
        """The Ir to which it belongs."""
        return self._record.graph.ir

    @property
    def ipu(self) -> int:
        """The IPU that holds it. Raises UndefinedValue if no op has decided it."""
        if self._record.ipu is None:
            raise UndefinedValue(f"The IPU of {self!r} is not defined yet.")
        return self._record.ipu

    @property
    def tile_set(self) -> str:
        """ "compute" or "io". Raises UndefinedValue if no op has decided it."""
        if self._record.ipu is None:
            raise UndefinedValue(f"The tile set of {self!r} is not defined yet.")
        return "io" if self._record.io_tiles else "compute"

    @property
    def location_info(self) -> tuple[int, str]:
        """IPU and tile set. Raises UndefinedValue if no op has decided them."""
        return (self.ipu, self.tile_set)

    @property
    def in_sync_with_ipu(self) -> bool:
        """Always true: every tensor here is on one IPU, or is visible to all of them."""
        return True

    @property
    def _pb_tensor(self) -> Any:
        """PopART's view of the tensor."""
        return popart_views.tensor(self)

    @classmethod
    def _from_pb_tensor(cls, pb: Any) -> "Tensor":
        """Returns the tensor of PopART's view."""
        return pb.user()

    def strides(self, shape: "Iterable[int] | None" = None) -> tuple[int, ...]:
        """Returns the bytes between neighbours along each dimension, in row-major order.

        Args:
            shape: Used instead of the tensor's shape.
        """
        out, step = [], self._record.dtype.as_numpy().itemsize
        for size in reversed(self._record.shape if shape is None else tuple(shape)):
            out.append(step)
            step *= size
        return tuple(reversed(out))

    def __repr__(self) -> str:
        return f"{self._kind}[{self.name} {self._record.dtype} {self._record.shape}]"

    _kind = "Tensor"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


_Kind = TypeVar("_Kind", bound=Tensor)


def make_tensor(
    kind: type[_Kind],
    graph: "Graph",
    name: str,
    value: Any = None,
    *,
    spec: "TensorSpec | None" = None,
    record: type[TensorRecord] = TensorRecord,
    **fields: Any,
) -> _Kind:
    """Makes a tensor of a graph, for a compiler's value or, as a view, with a spec.

    Args:
        kind: The class of the tensor.
        graph: The graph.
        name: The name, with its scopes.
        value: The compiler's value, or None.
        spec: Shape and dtype of a tensor without value.
        record: The class of its record.
        fields: The record's fields.
    """
    if spec is None:
        core_dtype, sizes = value.type
        shape, dtype = tuple(sizes), dtypes.of_core_name(core_dtype)
    else:
        shape, dtype = spec.shape, spec.dtype
    kept = record(graph, shape, dtype, value, io_tiles=current.io_tiles, **fields)
    kept.tensor = tensor = made(kind, kept)
    of(graph).add_tensor(tensor, name)
    return tensor


class TensorByRef(Tensor):
    """An input that is passed by reference; the annotation of a graph's parameter for it."""

    _kind = "TensorByRef"


def graph_input(
    shape: "tuple[int, ...]",
    dtype: dtype_class,
    name: "str | None" = None,
    by_ref: bool = False,
    meta_shape: "tuple[int, ...] | None" = None,
) -> Tensor:
    """Makes an input of the current graph. A session refuses inputs of the main graph.

    Args:
        shape: The shape.
        dtype: The element type.
        name: The name.
        by_ref: Whether the graph's writes to it change the tensor that a call passes.
        meta_shape: For a shard, the shape of the whole tensor.

    Raises:
        ValueError: A size is negative.
    """
    graph = get_current_graph()
    name = scoped(name or DEFAULT_NAME)
    value = of(graph).core.add_input(core_type(shape, dtype), name, by_ref)
    kind = TensorByRef if by_ref else Tensor
    tensor = make_tensor(kind, graph, name, value, meta_shape=tuple(meta_shape or ()))
    of(graph).inputs.append(tensor)
    return tensor


def graph_output(t: Tensor) -> None:
    """Makes `t` the next output of the current graph. Raises ValueError for another graph's.

    Args:
        t: The tensor.
    """
    graph = get_current_graph()
    if t not in graph:
        raise ValueError(f"{t!r} is not a tensor of graph {of(graph).label}.")
    of(graph).set_outputs([*graph.outputs, t])
