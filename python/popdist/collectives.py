"""Sums, gathers and broadcasts of host data over the instances of a program.

All functions take tensors and arrays of any type; a single instance gets its own values back. Calls
with a name are matched by the name, in any order and from any thread; calls without one are matched
by their order. Sums add in the order of the instances, so that values do not depend on lengths or
timing. Errors are poptorch.Error and name the instance that the call waited for.
"""

from typing import TYPE_CHECKING, Any, TypeVar

import numpy
from popdist import together

if TYPE_CHECKING:
    import torch
    from popdist.group import Group, Header

_Data = TypeVar("_Data", "torch.Tensor", numpy.ndarray)

SUM, MEAN, MIN, MAX = "sum", "mean", "min", "max"


def all_reduce(data: _Data, op: str = SUM, *, name: str | None = None) -> _Data:
    """Returns the elementwise sum, mean, min or max over the instances, with the type of `data`.

    f16 and bf16 are summed in f32. A mean of integers divides their i64 sum and rounds down. Shapes
    and types must agree.

    Raises:
        ValueError: The op is another one.
        TypeError: The type does not have the op.
    """
    import torch

    if op not in (SUM, MEAN, MIN, MAX):
        raise ValueError(f"[popdist] all_reduce(op={op!r}): choose sum, mean, min or max.")
    if not isinstance(data, torch.Tensor):
        own = numpy.array(data, copy=True)
        native = torch.from_numpy(own.astype(own.dtype.newbyteorder("="), copy=False))
        return all_reduce(native, op, name=name).numpy().astype(own.dtype, copy=False)
    call = _Call("all_reduce", data, name, op)
    own = call.data
    kept = _summed_in(own.dtype, op)
    _check_operation(op, own.dtype, kept)
    partial = own.to(kept)
    if partial is own or partial.data_ptr() == data.data_ptr():
        partial = partial.clone()
    if call.place > 0:  # a chain: the sum of the instances before this one comes first
        before = call.receive(call.members[call.place - 1], kept)
        partial = _folded(op, before, partial)
    last = call.members[-1]
    if call.here != last:
        call.send([call.members[call.place + 1]], partial)
        partial = call.receive(last, kept)
    else:
        call.send(list(call.members[:-1]), partial)
    if op == MEAN:
        count = len(call.members)
        exact = kept.is_floating_point or kept.is_complex
        partial = partial / count if exact else partial // count
    return partial.to(data.dtype).reshape(data.shape)


def all_gather(data: _Data, *, name: str | None = None) -> _Data:
    """Returns the data of all instances, joined along the first dimension in their order.

    First sizes may differ, and a scalar counts as one row; types and other sizes must agree.
    """
    import torch

    if not isinstance(data, torch.Tensor):
        call = _Call("all_gather", numpy.atleast_1d(data), name)
    else:
        call = _Call("all_gather", data.reshape(-1) if data.dim() == 0 else data, name)
    others = [member for member in call.members if member != call.here]
    sent = call.begin(others, call.data)
    parts = {call.here: call.data}
    for member in others:
        parts[member] = call.receive(member, free_rows=True)
    call.finish(sent)
    found = [parts[member] for member in call.members]
    joined: Any = torch.cat if isinstance(data, torch.Tensor) else numpy.concatenate
    return joined(found)


def broadcast(data: _Data, root: int = 0, *, name: str | None = None) -> _Data:
    """Returns the root's values, on every instance. Shapes and types must agree.

    Args:
        data: The values; only those of the root are used.
        root: The root's number among all instances.
        name: Matches the calls of the instances.

    Raises:
        ValueError: The root does not take part.
    """
    call = _Call("broadcast", data, name, str(root))
    if root not in call.members:
        raise ValueError(
            f"[popdist] broadcast(root={root}): the instances here are {list(call.members)}."
        )
    if call.here == root:
        call.send([member for member in call.members if member != root], call.data)
        return call.copied().reshape(call.shape)
    return call.receive(root).reshape(call.shape)


def broadcast_bytes(data: bytes, root: int = 0) -> bytes:
    """Returns the root's bytes, of any length, on every instance."""
    length = broadcast(numpy.array([len(data)], numpy.int64), root)
    own = together.here().index == root
    buffer = numpy.frombuffer(data, numpy.uint8) if own else numpy.empty(int(length[0]), "u1")
    return broadcast(buffer, root).tobytes()


def barrier(*, name: str | None = None) -> None:
    """Blocks until all instances have called it."""
    call = _Call("barrier", numpy.zeros(0, numpy.uint8), name)
    first, *others = call.members
    if call.here == first:
        for member in others:
            call.receive(member)
        call.send(others, call.data)
    else:
        call.send([first], call.data)
        call.receive(first)


def _summed_in(dtype: Any, op: str) -> Any:
    """Returns the type of partial results, until the last instance has added its values."""
    import torch

    if dtype.is_floating_point and dtype.itemsize < 4:
        return torch.float32
    is_integer = not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
    # torch has almost no arithmetic of u16 and u32.
    if is_integer and (op == MEAN or dtype in (torch.uint16, torch.uint32)):
        return torch.int64
    return dtype


def _check_operation(op: str, dtype: Any, kept: Any) -> None:
    """Raises TypeError before anything is sent: a later failure would leave the others waiting."""
    import torch

    probe = torch.zeros(1, dtype=kept)
    try:
        if op == MEAN and kept == torch.bool:
            raise RuntimeError("bool does not have it")
        _folded(op, probe, probe)
    except RuntimeError as error:
        reason = str(error).rstrip(".")
        raise TypeError(
            f"[popdist] all_reduce: {op} is not defined for {dtype}: {reason}."
        ) from None


def _folded(op: str, left: Any, right: Any) -> Any:
    import torch

    if op in (SUM, MEAN):
        return left + right
    return torch.minimum(left, right) if op == MIN else torch.maximum(left, right)


class _Call:
    """One collective of this instance.

    Attributes:
        data: The contiguous data that this instance contributes.
        shape: The shape of the program's argument.
    """

    def __init__(self, operation: str, data: Any, name: str | None, detail: str = "") -> None:
        from poptorch_core import _core

        _core.meet_fault("collective", "host")
        self.members = together.members()
        self.here = together.here().index
        self.place = self.members.index(self.here)
        self._group: Group | None = together.group()
        self._operation = f"{operation} {detail}".rstrip()
        # The same name in another set of instances is another call.
        self._name = f"{name or ''}|{self.members}"
        self.shape = tuple(data.shape) if _is_tensor(data) else numpy.shape(data)
        self.data: Any = (_tensor if _is_tensor(data) else _array)(operation, data)
        if self._group is not None:
            self._group.check_dimensions(self._header(self.data.dtype))

    def _header(self, dtype: Any) -> "Header":
        from popdist.group import Header

        name = dtype.str if isinstance(dtype, numpy.dtype) else str(dtype).removeprefix("torch.")
        return Header(self._operation, self._name, name, tuple(self.data.shape))

    def begin(self, to: list[int], data: Any) -> list[tuple[int, Any]]:
        """Starts to send; `finish` waits for the end."""
        if self._group is None:
            return []
        header, sent = self._header(data.dtype), _as_bytes(data)
        return [(member, self._group.send(member, header, sent)) for member in to]

    def finish(self, begun: list[tuple[int, Any]]) -> None:
        """Waits until `begin`'s messages are sent."""
        for member, works in begun:
            assert self._group is not None
            self._group.finish(member, self._header(self.data.dtype), works)

    def send(self, to: list[int], data: Any) -> None:
        """Sends data to some other instances and waits."""
        self.finish(self.begin(to, data))

    def receive(self, source: int, dtype: Any = None, *, free_rows: bool = False) -> Any:
        """Receives data like this instance's from another. dtype: another type, if given.

        See Group.receive.
        """
        assert self._group is not None
        dtype = dtype or self.data.dtype
        raw, shape = self._group.receive(source, self._header(dtype), free_rows=free_rows)
        if _is_tensor(self.data):
            return raw.view(dtype).reshape(shape)
        return raw.numpy().view(dtype).reshape(shape)

    def copied(self) -> Any:
        """Returns a copy of the data."""
        return self.data.clone() if _is_tensor(self.data) else self.data.copy()


def _tensor(operation: str, data: Any) -> Any:
    """Returns the contiguous values, with a lazy conjugation or negation carried out."""
    import torch

    if data.layout != torch.strided or data.is_quantized:
        kind = "quantized" if data.is_quantized else str(data.layout).removeprefix("torch.")
        raise TypeError(
            f"[popdist] {operation} of a tensor that is {kind}: pass a dense one, as "
            f"{'dequantize()' if data.is_quantized else 'to_dense()'} returns it."
        )
    return data.detach().cpu().resolve_conj().resolve_neg().contiguous()


def _array(operation: str, data: Any) -> numpy.ndarray:
    found = numpy.ascontiguousarray(data)
    if found.dtype.hasobject:
        raise TypeError(f"[popdist] {operation} of Python objects ({found.dtype}): pass numbers.")
    return found


def _is_tensor(data: Any) -> bool:
    import torch

    return isinstance(data, torch.Tensor)


def _as_bytes(data: Any) -> Any:
    import torch

    if _is_tensor(data):
        # A tensor of one element may have any stride; view() needs a stride of 1.
        return data.as_strided((data.numel(),), (1,)).view(torch.uint8)
    return torch.from_numpy(data.reshape(-1).view(numpy.uint8).copy())
