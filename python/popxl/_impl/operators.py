"""The operators, methods and indexing of tensors, each made of one or a few ops."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from popxl import dtypes
from popxl.dtypes import dtype as dtype_class

if TYPE_CHECKING:
    from popxl.tensor import Tensor


class _Above:
    """The functions of higher modules, which `provide` sets when the package is imported."""

    ops: Any
    constant: Callable[..., "Tensor"]


_above = _Above()


def provide(ops: Any, constant: "Callable[..., Tensor]") -> None:
    """Sets what operators call: the module of the ops, and the constructor of constants."""
    _above.ops, _above.constant = ops, constant


def as_operand(
    value: Any, like: "Operators", dtype: "dtype_class | None" = None, raise_on_empty: bool = True
) -> "Tensor":
    """Returns `value` as a tensor; other values become constants of `dtype` or of `like`'s dtype.

    Raises:
        ValueError: The value is empty, and raise_on_empty is set.
    """
    if isinstance(value, Operators):
        return cast("Tensor", value)
    array = np.asarray(value.detach() if hasattr(value, "detach") else value)
    if array.size == 0 and raise_on_empty:
        raise ValueError("An operand must not be empty.")
    return _above.constant(array, dtype or like.dtype)


class Operators:
    """A mixin for Tensor. Operands that are not tensors become constants of its dtype."""

    __iter__ = None  # a tensor is not a sequence of its rows
    __contains__ = None
    __array_ufunc__ = None  # so that NumPy leaves `array + tensor` to the tensor

    if TYPE_CHECKING:  # Tensor defines these

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> dtype_class: ...
        @property
        def rank(self) -> int: ...

    def _ensure_tensor(
        self, value: Any, dtype: "dtype_class | None" = None, raise_on_empty: bool = True
    ) -> "Tensor":
        """Returns `value` as a tensor; others become constants of `dtype` or of this one's."""
        return as_operand(value, self, dtype, raise_on_empty)

    def __add__(self, other: Any) -> "Tensor":
        return _above.ops.add(self, as_operand(other, self))

    def __radd__(self, other: Any) -> "Tensor":
        return _above.ops.add(as_operand(other, self), self)

    def __iadd__(self, other: Any) -> "Tensor":
        return _above.ops.add_(self, as_operand(other, self))

    def __sub__(self, other: Any) -> "Tensor":
        return _above.ops.sub(self, as_operand(other, self))

    def __rsub__(self, other: Any) -> "Tensor":
        return _above.ops.sub(as_operand(other, self), self)

    def __mul__(self, other: Any) -> "Tensor":
        return _above.ops.mul(self, as_operand(other, self))

    def __rmul__(self, other: Any) -> "Tensor":
        return _above.ops.mul(as_operand(other, self), self)

    def __truediv__(self, other: Any) -> "Tensor":
        return _above.ops.div(self, as_operand(other, self))

    def __rtruediv__(self, other: Any) -> "Tensor":
        return _above.ops.div(as_operand(other, self), self)

    def __pow__(self, other: Any) -> "Tensor":
        return _above.ops.pow(self, other)

    def __rpow__(self, other: Any) -> "Tensor":
        return _above.ops.pow(as_operand(other, self), self)

    def __mod__(self, other: Any) -> "Tensor":
        return _above.ops.fmod(self, as_operand(other, self))

    def __rmod__(self, other: Any) -> "Tensor":
        return _above.ops.fmod(as_operand(other, self), self)

    def __matmul__(self, other: Any) -> "Tensor":
        return _above.ops.matmul(self, as_operand(other, self))

    def __rmatmul__(self, other: Any) -> "Tensor":
        return _above.ops.matmul(as_operand(other, self), self)

    def __and__(self, other: Any) -> "Tensor":
        return _above.ops.logical_and(self, as_operand(other, self))

    def __rand__(self, other: Any) -> "Tensor":
        return _above.ops.logical_and(as_operand(other, self), self)

    def __or__(self, other: Any) -> "Tensor":
        return _above.ops.logical_or(self, as_operand(other, self))

    def __ror__(self, other: Any) -> "Tensor":
        return _above.ops.logical_or(as_operand(other, self), self)

    def __invert__(self) -> "Tensor":
        return _above.ops.logical_not(self)

    def __neg__(self) -> "Tensor":
        return _above.ops.negate(self)

    def __len__(self) -> int:
        if not self.shape:
            raise ValueError(
                "A scalar has no len(), and its truth value is not known when the program is "
                "written: use ops.conditional or ops.where."
            )
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: "bool | None" = None) -> Any:
        raise TypeError(
            f"{self!r} holds no data when the program is written: store it to a stream, or read a "
            "variable with Session.get_tensor_data."
        )

    @property
    def T(self) -> "Tensor":
        """The tensor with its dimensions in reverse order."""
        return self.transpose()

    @property
    def T_(self) -> "Tensor":
        """The tensor with its dimensions in reverse order, sharing this tensor's memory."""
        return _above.ops.transpose_(self)

    def transpose(self, permutation: "Iterable[int] | None" = None) -> "Tensor":
        """Makes dimension `permutation[i]` the result's i-th; by default reverses the order."""
        return _above.ops.transpose(self, permutation)

    def transpose_(self, permutation: "Iterable[int] | None" = None) -> "Tensor":
        """`transpose`, sharing this tensor's memory."""
        return _above.ops.transpose_(self, permutation)

    def reshape(self, shape: Iterable[int]) -> "Tensor":
        """Returns the same elements in another shape; one size may be -1."""
        return _above.ops.reshape(self, shape)

    def reshape_(self, shape: Iterable[int]) -> "Tensor":
        """`reshape`, sharing this tensor's memory."""
        return _above.ops.reshape_(self, shape)

    def flatten(self) -> "Tensor":
        """Returns the elements in one dimension."""
        return _above.ops.flatten(self)

    def flatten_(self) -> "Tensor":
        """`flatten`, sharing this tensor's memory."""
        return _above.ops.flatten_(self)

    def detach(self) -> "Tensor":
        """Returns the tensor without gradient."""
        return _above.ops.detach(self)

    def detach_(self) -> "Tensor":
        """`detach`, sharing this tensor's memory."""
        return _above.ops.detach_(self)

    def diag(self) -> "Tensor":
        """Returns the diagonal of a matrix. Raises ValueError for another rank."""
        if self.rank != 2:
            raise ValueError(f"diag takes a matrix but got shape {self.shape}.")
        rows, columns = self.shape
        places = np.arange(min(rows, columns), dtype=np.int32) * (columns + 1)
        return _above.ops.gather(self.flatten(), _above.constant(places))

    def copy_to_ipu(self, destination: int, source: "int | None" = None) -> "Tensor":
        """Copies the tensor to IPU `destination`; variables and constants need `source`."""
        return _above.ops.ipu_copy(self, destination, source)

    def __getitem__(self, key: Any) -> "Tensor":
        return _index(self, key)


def _index(t: Any, key: Any) -> "Tensor":
    """Indexes a tensor.

    Ints and slices become Slice (and Subsample), int tensors Gather. A bool mask becomes Where with
    0 for elements outside.
    """
    if isinstance(key, (list, np.ndarray)) or hasattr(key, "cpu"):
        key = _above.constant(key)
    if isinstance(key, Operators):
        if key.dtype == dtypes.bool:
            zero = _above.constant(0, t.dtype)
            return _above.ops.where(key, t, zero)
        if not key.dtype.is_int:
            raise TypeError(f"A tensor cannot be indexed by a tensor of {key.dtype}.")
        return _above.ops.gather(t, key)
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(k, (bool, np.bool_)) for k in keys):
        raise TypeError("A tensor cannot be indexed by a bool: use a mask of the tensor's shape.")
    if len(keys) > t.rank:
        raise IndexError(f"{len(keys)} indices for a tensor of shape {t.shape}.")
    start: list[int] = []
    stop: list[int | None] = []
    step: list[int] = []
    axes: list[int] = []
    strides, squeezed = [1] * t.rank, []
    for axis, k in enumerate(keys):
        size = t.shape[axis]
        if isinstance(k, slice):
            a, b, s = k.indices(size)
            if (a, max(b, a)) == (0, size) and s == 1:
                continue
            strides[axis] = abs(s)
            if s < 0:  # reversed from the first element taken, then every |s|-th
                start, stop, axes = [*start, a], [*stop, b if b >= 0 else None], [*axes, axis]
                step.append(-1)
                continue
            start, stop, axes = [*start, a], [*stop, max(a, b)], [*axes, axis]
        elif isinstance(k, (int, np.integer)):
            if not -size <= k < size:
                raise IndexError(f"Index {k} is out of range for axis {axis} of size {size}.")
            a = int(k) % size
            start, stop, axes = [*start, a], [*stop, a + 1], [*axes, axis]
            squeezed.append(axis)
        else:
            raise TypeError(
                f"A tensor cannot be indexed by a {type(k).__name__}: use ints, slices, int "
                "tensors or bool masks. Use ops.reshape for new axes."
            )
        step.append(1)
    out = _above.ops.slice(t, start, stop, step, axes) if axes else t
    if any(s > 1 for s in strides):
        out = _above.ops.subsample(out, strides)
    return _above.ops.squeeze(out, squeezed) if squeezed else out
