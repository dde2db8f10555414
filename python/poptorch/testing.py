"""Comparing what a wrapped model returns with what the model returns on the CPU."""

from typing import Any

import torch
from poptorch._impl.structures import Node, flatten
from poptorch_core import Error


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
