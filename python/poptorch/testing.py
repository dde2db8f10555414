"""Trying out programs: results compared with those of the CPU, and faults at named points."""

from typing import Any, Self

import torch
from poptorch._impl.pytree.structures import Node, flatten
from poptorch_core import Error, _core


def allclose(
    ref: Any,
    other: Any,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> bool:
    """Whether two results are of one structure and their tensors are close (see torch.allclose).

    A result is a tensor, or tuples, lists, dicts and registered types of tensors, nested as one
    likes. Tensors must have one shape; of the types, int64 counts as int32 and float64 as float32,
    which is how they come back from the device. Anything that is no tensor must be equal.
    Raises poptorch.Error where the structures differ, as that is no matter of closeness.
    """
    tensors: list[torch.Tensor] = []
    others: list[torch.Tensor] = []
    expected, got = flatten(ref, tensors, "ref"), flatten(other, others, "other")
    constants_agree = _same_structure(expected, got)
    return constants_agree and all(
        _close(a, b, rtol, atol, equal_nan) for a, b in zip(tensors, others, strict=True)
    )


class InjectedFault:
    """A fault that is armed until it strikes, or until disarm() or the end of its `with`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._number = _core.arm_fault(text)
        self._struck = False  # before it was disarmed

    @property
    def struck(self) -> bool:
        """Whether the device has failed by it, or the signal was sent."""
        return self._struck or _core.has_struck(self._number)

    def disarm(self) -> None:
        """It does not strike any more; devices can be had again after an unrecoverable one."""
        self._struck = self.struck
        _core.disarm_fault(self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disarm()

    def __repr__(self) -> str:
        return f"InjectedFault({self._text!r})"


def inject_fault(
    point: str,
    kind: str = "IPU_RESET",
    *,
    nth: int = 1,
    micro_batch: int = 0,
    ipu: int = 0,
    place: str = "",
    index: int = 0,
) -> InjectedFault:
    """Lets the device fail, or sends a signal to this process, once and at a named point.

    point: "attach", "compile", "run", "copy", "save", "load", "join" or "collective": the table of
        docs/recovering.md says when each of them occurs.
    kind: of "attach", "compile", "run" and "copy" the recovery_action of the RecoverableError,
        "IPU_RESET", "LINK_RESET", "PARTITION_RESET" or "FULL_RESET"; or "UNRECOVERABLE", an
        UnrecoverableError, after which no device can be had as long as the fault is armed. Of all
        points a signal: "SIGINT", "SIGTERM", "SIGKILL" or "SIGSTOP".
    nth: at which of the process's attachments, ... from now on, beginning with 1.
    micro_batch, ipu: of a run: it strikes when that IPU (counted over the replicas) has done so
        many micro-batches of the run, at the latest when it has done its part.
    place: the pass of a compilation, the process that loads, the stage of joining, the kind of a
        collective.
    index: of a pass, how many ops it has visited; of a loading "worker", its number.

    What is returned is a context: the fault is disarmed at its end. It is armed in this process
    alone; POPTORCH_FAULT arms it in the processes that this one starts, too. Raises poptorch.Error
    for other points, kinds, places and numbers.
    """
    where: list[Any] = [nth]
    if point == "run" or micro_batch or ipu:
        where += [micro_batch, ipu]
    if place or index:
        where += [place, index] if index else [place]
    return InjectedFault(":".join(str(part) for part in (point, *where, kind)))


def _same_structure(expected: Node, got: Node) -> bool:
    """Whether the constants agree; raises where anything else but tensors' contents differs."""
    if expected.kind != got.kind or expected.keys != got.keys:
        raise Error(
            f"[testing] structures differ: {expected.name} is {_described(expected)}, but "
            f"{got.name} is {_described(got)}. Compare results of the same structure."
        )
    if expected.kind == "constant":
        return expected.value == got.value
    pairs = zip(expected.children, got.children, strict=True)
    return all([_same_structure(a, b) for a, b in pairs])


def _described(node: Node) -> str:
    if node.kind == "dict":
        return f"a {node.type.__name__} of the keys {list(node.keys)}"
    if node.children:
        return f"a {node.type.__name__} of {len(node.children)}"
    return f"a {node.type.__name__}"


def _close(a: torch.Tensor, b: torch.Tensor, rtol: float, atol: float, equal_nan: bool) -> bool:
    a, b = a.detach().cpu(), b.detach().cpu()
    if a.shape != b.shape or _narrow(a.dtype) != _narrow(b.dtype):
        return False
    return torch.allclose(a.to(b.dtype), b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _narrow(dtype: torch.dtype) -> torch.dtype:
    return {torch.int64: torch.int32, torch.float64: torch.float32}.get(dtype, dtype)
