"""Functions that rebuild the tensors of a pickle without access outside their storages.

Torch's functions enlarge a storage to the size in the file, and set any attribute of a weight.
"""

from typing import Any

import torch
from poptorch_core import Error

_MOST_DIMENSIONS = 64


def tensor(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any,
    metadata: Any = None,
) -> torch.Tensor:  # fmt: skip
    """Replaces torch._utils._rebuild_tensor_v2; raises poptorch.Error outside the storage."""
    if not isinstance(storage, torch.storage.TypedStorage):
        raise _damaged("has no storage")
    if hooks or metadata:
        raise _damaged("has hooks")
    numbers = [offset, *size, *stride]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise _damaged("has an invalid size")
    if len(size) != len(stride) or len(size) > _MOST_DIMENSIONS:
        raise _damaged(f"has {len(size)} sizes and {len(stride)} strides")
    elements = storage._untyped_storage.nbytes() // storage.dtype.itemsize
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if last >= elements and 0 not in size:
        raise _damaged(f"ends at element {last} of a storage of {elements}")
    return torch._utils._rebuild_tensor_v2(
        storage, 0 if 0 in size else offset, tuple(size), tuple(stride), bool(requires_grad), None
    )


def parameter(data: Any, requires_grad: Any, hooks: Any) -> torch.nn.Parameter:
    """Replaces torch._utils._rebuild_parameter."""
    if not isinstance(data, torch.Tensor) or hooks:
        raise _damaged("is not a parameter")
    return torch.nn.Parameter(data, bool(requires_grad))


def parameter_with_state(
    data: Any, requires_grad: Any, hooks: Any, state: Any
) -> torch.nn.Parameter:
    """Replaces torch._utils._rebuild_parameter_with_state; sets only the user's attributes."""
    made = parameter(data, requires_grad, hooks)
    attributes = state[0] if type(state) is tuple and len(state) == 2 and not state[1] else state
    for name, value in (attributes or {}).items():
        if type(name) is not str or hasattr(torch.nn.Parameter, name):
            raise _damaged(f"sets the attribute {name!s:.40}")
        made.__dict__[name] = value
    return made


def _damaged(what: str) -> Error:
    return Error(f"is damaged: a tensor of its model {what}. Write it again.")
