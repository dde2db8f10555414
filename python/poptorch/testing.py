"""Tests programs: compares results with those of the CPU, and injects faults at named points."""

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
    """Returns whether two results are close (see torch.allclose).

    Tensors must have the same shape and type. int64 counts as int32 and float64 as float32, because
    the device returns these types. Values that are not tensors must be equal.

    Args:
        ref: A tensor, or tuples, lists, dicts and registered types of tensors, nested in any way.
        other: The result to compare, of the same structure.
        rtol: The relative tolerance.
        atol: The absolute tolerance.
        equal_nan: Whether NaN equals NaN.

    Raises:
        poptorch.Error: The structures differ.
    """
    tensors: list[torch.Tensor] = []
    others: list[torch.Tensor] = []
    expected, got = flatten(ref, tensors, "ref"), flatten(other, others, "other")
    constants_agree = _same_structure(expected, got)
    return constants_agree and all(
        _close(a, b, rtol, atol, equal_nan) for a, b in zip(tensors, others, strict=True)
    )


class InjectedFault:
    """A fault that is armed until it occurs, or until disarm() or the end of its `with`.

    Made by inject_fault().
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._number = _core.arm_fault(text)
        self._struck = False  # whether it occurred before disarm()

    @property
    def struck(self) -> bool:
        """Whether the fault has occurred: the device has failed, or the signal was sent."""
        return self._struck or _core.has_struck(self._number)

    def disarm(self) -> None:
        """Disarms the fault. After an unrecoverable one, devices are available again."""
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
    """Makes the device fail, or sends a signal to this process, once at a named point.

    The fault is armed only in this process. POPTORCH_FAULT also arms it in the processes that this
    one starts.

    Args:
        point: "attach", "compile", "run", "copy", "save", "load", "join" or "collective". The table
            in docs/howto/inject-faults.md says when each of them occurs.
        kind: At "attach", "compile", "run" and "copy" the recovery_action of the RecoverableError:
            "IPU_RESET", "LINK_RESET", "PARTITION_RESET" or "FULL_RESET". "UNRECOVERABLE" there
            raises an UnrecoverableError, and devices are unavailable while the fault is armed. At
            all points a signal: "SIGINT", "SIGTERM", "SIGKILL" or "SIGSTOP".
        nth: The occurrence of the point in this process, counted from now on, beginning with 1.
        micro_batch: For "run": the fault occurs when the IPU has completed this many micro-batches
            of the run, at the latest when it has completed its part.
        ipu: For "run": the IPU, counted over the replicas.
        place: The pass of a compilation, the process that loads, the stage of joining, or the kind
            of a collective.
        index: For a pass, the number of ops that it has visited; for a loading "worker", its
            number.

    Returns:
        A context manager, at whose end the fault is disarmed.

    Raises:
        poptorch.Error: The point, kind, place or a number is invalid.
    """
    where: list[Any] = [nth]
    if point == "run" or micro_batch or ipu:
        where += [micro_batch, ipu]
    if place or index:
        where += [place, index] if index else [place]
    return InjectedFault(":".join(str(part) for part in (point, *where, kind)))


def _same_structure(expected: Node, got: Node) -> bool:
    """Returns whether the constants agree. Raises poptorch.Error if the structures differ."""
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
