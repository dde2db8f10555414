"""Variables, which keep their values between runs, and constants.

A variable's data on the host is a NumPy array of `shape_on_host`, with replica groups in front if
there are several. The replicas of a group share its slot on the device. Each replica has a separate
slot (its record's `layout`) if groups are irregular, or if every replica's value is retrieved.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from popxl._impl.layout import Layout
from popxl._impl.records import ConstantRecord, VariableRecord, of
from popxl.context import get_current_graph, scoped
from popxl.dtypes import as_bits, checked, core_name, dtype as dtype_class
from popxl.fp8_utils import is_float8
from popxl.replica_grouping import RETRIEVAL_MODES, ReplicaGrouping
from popxl.tensor_base import DEFAULT_NAME, HostTensor, Tensor, TensorSpec, core_type, make_tensor
from popxl.utils import to_numpy

if TYPE_CHECKING:
    from popxl.graph import Graph


class Variable(Tensor):
    """A tensor of the main graph that keeps its value between runs."""

    _record: VariableRecord  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def replica_grouping(self) -> ReplicaGrouping:
        """The replicas that share one value."""
        return self._record.grouping

    @property
    def retrieval_mode(self) -> str:
        """ "one_per_group" or "all_replicas"."""
        return self._record.retrieval_mode

    @property
    def _memmap_arr(self) -> "np.memmap | None":
        """The memory-mapped array from which it was made, or None."""
        data = self._record.data
        return data if isinstance(data, np.memmap) else None

    @property
    def shape_on_replica(self) -> tuple[int, ...]:
        """The shape on one replica."""
        return self.shape

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """The shape of the data on the host, with groups in front if there are several."""
        groups = self.replica_grouping.num_groups
        return ((groups,) if groups > 1 else ()) + self.shape


class Constant(Tensor):
    """A tensor whose value is part of the program."""

    _record: ConstantRecord  # pyright: ignore[reportIncompatibleVariableOverride]


def host_data(
    data: HostTensor,
    dtype: "dtype_class | None",
    downcast: bool,
    **scale: Any,
) -> np.ndarray:
    """Returns `popxl.utils.to_numpy` of data. Raises ValueError for types that popxl lacks."""
    array = to_numpy(data, checked(dtype) if dtype is not None else None, downcast, **scale)
    dtype_class.as_dtype(array)
    return array


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
    """Makes a variable of the main graph, holding `data` until the program changes it.

    Args:
        data: An array, a torch tensor, lists or a scalar; with several replica groups, their number
            is the first dimension.
        dtype: The element type; by default the data's, with 64-bit types as 32 bits.
        name: The name.
        downcast: Whether 64-bit types become 32-bit types without a dtype.
        replica_grouping: The replicas that share one value; by default all.
        retrieval_mode: "one_per_group", or "all_replicas": the session then returns every
            replica's value, with the replicas in front.
        log2_scale: For float8: data is multiplied by 2**log2_scale before the cast.
        nan_on_overflow: For float8: whether a number that is too large becomes NaN (the default)
            or the largest number.

    Raises:
        ValueError: The current graph is not the main graph; the first dimension is not the number
            of groups; the retrieval mode is another one.
        RuntimeError: A scale is given without float8.
    """
    graph = get_current_graph()
    if graph is not graph.main_graph:
        raise ValueError(f"Variables belong to the main graph, but {graph.name} is current.")
    scale = {"log2_scale": log2_scale, "nan_on_overflow": nan_on_overflow}
    array = host_data(data, dtype, downcast, **scale)
    rg = replica_grouping or graph.ir.replica_grouping()
    shape = array.shape
    if rg.num_groups > 1:
        if not shape or shape[0] != rg.num_groups:
            raise ValueError(
                f"A variable of {rg.num_groups} replica groups needs data with that many rows "
                f"but got shape {shape}."
            )
        shape = shape[1:]
    return _make_variable(graph, array, shape, name, rg, retrieval_mode or "one_per_group")


def check_retrieval_mode(mode: str) -> None:
    """Raises ValueError for an unknown mode."""
    if mode not in RETRIEVAL_MODES:
        raise ValueError(f"retrieval_mode must be one of {list(RETRIEVAL_MODES)} but is {mode!r}.")


def _make_variable(
    graph: "Graph", array: np.ndarray, shape: tuple, name: "str | None", rg: Any, retrieval: str
) -> Variable:
    """Declares the state slot of a variable and reads it in `graph`."""
    check_retrieval_mode(retrieval)
    spec = TensorSpec(shape, dtype_class.as_dtype(array))
    full = scoped(name or DEFAULT_NAME)
    slot = of(graph.ir).core_name(full)
    own = retrieval == "all_replicas" or not rg.is_const
    layout = None
    if len(rg.assignment) == 1 or (rg.num_groups == 1 and not own):
        group = (0, 1)
    elif own:
        group, layout = (1, 1), Layout(rg, shape, 1)
    else:
        group = (rg.group_size, rg.stride)
    of(graph.ir).module.add_state(slot, core_type(spec.shape, spec.dtype), "parameter", *group)
    value = of(graph).core.variable(slot)
    made = make_tensor(
        Variable, graph, full, value, record=VariableRecord,
        slot=slot, data=array, layout=layout, grouping=rg, retrieval_mode=retrieval,
    )  # fmt: skip
    of(graph.ir).slots[slot] = made
    return made


def constant(
    data: HostTensor,
    dtype: "dtype_class | None" = None,
    name: "str | None" = None,
    downcast: bool = True,
    log2_scale: "int | None" = None,
    nan_on_overflow: "bool | None" = None,
) -> Constant:
    """Makes a constant of the current graph; the arguments are those of `variable`.

    Args:
        data: The values: an array, a tensor of torch, or numbers.
        dtype: The data type; by default that of the data.
        name: The name of the tensor.
        downcast: Whether 64-bit data become 32-bit data.
        log2_scale: The power of two that scales float8 data.
        nan_on_overflow: Whether float8 values that are too large become NaN instead of the largest.

    Raises:
        TypeError: The data is float8, and no dtype is given.
    """
    graph = get_current_graph()
    scale = {"log2_scale": log2_scale, "nan_on_overflow": nan_on_overflow}
    array = host_data(data, dtype, downcast, **scale)
    if dtype is None and is_float8(dtype_class.as_dtype(array)):
        raise TypeError(f"A constant of {array.dtype} needs a dtype: pass dtype=.")
    dtype = dtype_class.as_dtype(array)
    value = of(graph).core.constant(as_bits(array), core_name(dtype))
    full = scoped(name or DEFAULT_NAME)
    return make_tensor(Constant, graph, full, value, record=ConstantRecord, data=array)
