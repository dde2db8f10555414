"""Checks and conversions for ops that users write."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from popxl._impl import popart_views
from popxl._impl.records import of
from popxl.dtypes import dtype as dtype_class
from popxl.ops.elementwise import cast
from popxl.tensor import Tensor

if TYPE_CHECKING:
    from popart.enums import DataType


def check_in_graph(graph: Any, **tensors: Tensor) -> None:
    """Raises ValueError unless all are tensors of `graph`, and TypeError for other values."""
    for name, t in tensors.items():
        if not isinstance(t, Tensor):
            raise TypeError(f"{name} must be a tensor but is a {type(t).__name__}: {t!r}.")
        if of(t).graph is not graph:
            raise ValueError(f"{name} is {t!r} of {of(t).graph!r} but must be of {graph!r}.")


def check_tensor_ipu_and_tile_set(**tensors: Tensor) -> None:
    """Raises ValueError unless placed tensors share their IPU and tile set."""
    placed = {name: t for name, t in tensors.items() if of(t).ipu is not None}
    for name, t in placed.items():
        first, other = next(iter(placed.items()))
        for what, a, b in (("IPUs", t.ipu, other.ipu), ("tile sets", t.tile_set, other.tile_set)):
            if a != b:
                raise ValueError(
                    f"The tensors {first} and {name} are on different {what}: {b} and {a}. Copy "
                    "one with ops.ipu_copy or ops.io_tile_copy."
                )


def cast_if_needed(t: Tensor, dtype: dtype_class) -> Tensor:
    """Returns `t` as `dtype`; casts it only if its dtype differs."""
    return t if t.dtype is dtype else cast(t, dtype)


def handle_negative_axis(t: Tensor, axis: int) -> int:
    """Returns the axis counted from 0."""
    return axis if axis >= 0 else t.rank + axis


def convert_optional_float(x: "float | None") -> "float | None":
    """Converts to a float; None stays None."""
    return None if x is None else float(x)


def convert_optional_int(x: "int | None") -> "int | None":
    """Converts to an int; None stays None."""
    return None if x is None else int(x)


def convert_optional_int64_list(x: "Sequence[int] | None") -> "list[int] | None":
    """Converts to a list of ints; None stays None."""
    return None if x is None else [int(n) for n in x]


def convert_optional_dtype(x: "dtype_class | None") -> "DataType | None":
    """Converts to PopART's data type; None stays None."""
    return None if x is None else popart_views.data_type(x)
