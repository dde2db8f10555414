"""Shares the IPUs of the pool among programs of torch.compile, of which a model may have many."""

import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from poptorch._impl.wrapper.executor import PoplarExecutor

# Each attached program has an IPU. The pool has 64, which other wrappers need, too.
ATTACHED_PROGRAMS = 16

_lock = threading.RLock()
_attached: list[weakref.ref[PoplarExecutor]] = []  # in the order of their attachment


def run(wrapper: PoplarExecutor, tensors: Sequence[torch.Tensor]) -> Any:
    """Calls a wrapper. If it is not attached, those attached first make room."""
    if not wrapper.isAttachedToDevice():
        with _lock:
            _attached[:] = [ref for ref in _attached if is_attached(ref())]
            while len(_attached) >= ATTACHED_PROGRAMS:
                oldest = _attached.pop(0)()
                if oldest is not None:
                    oldest.detachFromDevice()
            results = wrapper(*tensors)
            _attached.append(weakref.ref(wrapper))
            return results
    return wrapper(*tensors)


def attached() -> list[PoplarExecutor | None]:
    """Returns the programs that were attached last; None for those that do not exist any more."""
    return [ref() for ref in _attached]


def is_attached(wrapper: PoplarExecutor | None) -> bool:
    """Returns whether a program exists and is attached to a device."""
    return wrapper is not None and wrapper.isAttachedToDevice()
