"""Nested arguments and results: flattened into tensors, rebuilt, and compared.

A structure consists of tensors (the leaves), containers and objects with their attributes, types
with a registered parser, and constants (everything else). Its `Node` has all but the leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from poptorch._impl.pytree import objects
from poptorch._impl.pytree.differences import difference
from poptorch._impl.pytree.flattening import Visits, flatten
from poptorch._impl.pytree.node import (
    ICustomArgParser,
    Node,
    hiding_values,
    items_of,
    parser_of,
    registerCustomArgParser,
    walk,
)
from poptorch._impl.pytree.rebuilding import unflatten
from poptorch_core import Error

__all__ = [
    "CURE", "ICustomArgParser", "Node", "Visits", "check_keys", "check_same", "flatten",
    "hiding_values", "order_in", "parser_of", "registerCustomArgParser", "unflatten", "walk",
]  # fmt: skip

CURE = (
    "The model is compiled for one signature: wrap it again for another one, or call destroy() "
    "on the wrapper before this call."
)


@dataclass
class _Comparison:
    """The comparison of two sets of arguments.

    cure: the last sentence of errors.
    tensors: whether shapes and dtypes must be equal.
    constants: whether values that are not tensors must be equal.
    twins: by the id of an expected node, the node that it was compared with.
    """

    cure: str = CURE
    tensors: bool = True
    constants: bool = True
    twins: dict[int, Node] = field(default_factory=dict)


def check_same(expected: Sequence[Node], got: Sequence[Node]) -> list[int]:
    """Returns the indices of the leaves of `got` in the order of the leaves of `expected`.

    Raises poptorch.Error unless the structures match, pair by pair.
    """
    comparison = _Comparison()
    pairs = zip(expected, got, strict=True)
    return [place for pair in pairs for place in _compared(*pair, comparison)]


def order_in(expected: Node, got: Node, cure: str, *, constants: bool) -> list[int]:
    """Like check_same() for two batches of data, whose shapes and dtypes may differ.

    constants: if False, values that are not tensors may differ, too.
    """
    return _compared(expected, got, _Comparison(cure, tensors=False, constants=constants))


def _compared(expected: Node, got: Node, comparison: _Comparison) -> list[int]:
    name, cure = expected.name, comparison.cure
    if expected.kind in ("shared", "weak"):
        _check_shared(expected, got, comparison)
        return []
    if got.kind == "shared":
        got = got.value
    comparison.twins[id(expected)] = got
    if not (comparison.constants or _has_tensor(expected) or _has_tensor(got)):
        return []
    if expected.kind != got.kind or (expected.kind != "tensor" and expected.type != got.type):
        raise Error(
            f"Type mismatch for {name}: expected {expected.type} but got {got.type}. {cure}"
        )
    if expected.kind == "tensor":
        if comparison.tensors:
            _check_tensor(expected, got, cure)
        return [got.index]
    if expected.kind == "constant":
        _check_constant(expected, got, cure)
        return []
    pairs = _pairs(expected, got, cure)
    return [place for pair in pairs for place in _compared(*pair, comparison)]


def _has_tensor(node: Node) -> bool:
    return any(part.kind == "tensor" for part in walk([node]))


def _check_tensor(expected: Node, got: Node, cure: str) -> None:
    name = expected.name
    if expected.dtype != got.dtype:
        raise Error(
            f"Data type mismatch for {name}: expected {expected.dtype} but got {got.dtype}. {cure}"
        )
    if expected.shape != got.shape:
        raise Error(
            f"Shape mismatch for {name}: expected {expected.shape} but got {got.shape}. {cure}"
        )


def _pairs(expected: Node, got: Node, cure: str) -> list[tuple[Node, Node]]:
    """Pairs the children of two containers of one type: by key, field or position."""
    name, count, other = expected.name, items_of(expected), items_of(got)
    if expected.kind == "dict":
        check_keys(name, expected.keys[:count], got.keys[:other], cure)
    elif count != other:
        raise Error(f"Length mismatch for {name}: expected {count} but got {other}. {cure}")
    check_keys(name, expected.keys[count:], got.keys[other:], cure)
    by_key = dict(zip(got.keys, got.children, strict=True))
    return [(c, by_key[key]) for key, c in zip(expected.keys, expected.children, strict=True)]


def _check_shared(expected: Node, got: Node, comparison: _Comparison) -> None:
    found = got.value if got.kind in ("shared", "weak") else got
    is_weak = [node.kind == "weak" for node in (expected, got)]
    if is_weak[0] != is_weak[1] or comparison.twins.get(id(expected.value)) is not found:
        raise Error(
            f"[call] {expected.name} is not the same object as {expected.value.name}, as it was "
            f"when the model was compiled. {comparison.cure}"
        )


def _check_constant(expected: Node, got: Node, cure: str) -> None:
    name, one, other = expected.name, expected.value, got.value
    if one is not other and not _are_equal(one, other) and not objects.is_same_function(one, other):
        told = "Pass a tensor for a number that changes. " if _is_number(other) else ""
        raise Error(f"Value mismatch for {name}: {difference(one, other)}. {told}{cure}")
    for before, now in zip(expected.used, got.used, strict=False):
        tells = before[0] or name
        if isinstance(before[1], torch.Tensor):
            if before[1] is not now[1] or before[2] != now[2]:
                raise Error(
                    f"[call] {tells} of {name} has changed since the model was compiled, but its "
                    f"values are constants of the program. Pass the tensor as an argument. {cure}"
                )
        elif before != now:
            raise Error(
                f"Value mismatch for {name}: expected {tells}={before[1]!r} but got "
                f"{now[1]!r}. {cure}"
            )
    if len(expected.used) != len(got.used):
        raise Error(f"[call] {name} uses other variables than when the model was compiled. {cure}")


def _are_equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # a class that compares otherwise, or arrays, by element
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_keys(name: str, expected: tuple, got: tuple, cure: str = CURE) -> None:
    """Raises poptorch.Error unless both have the same keys."""
    missing = [str(key) for key in expected if key not in got]
    unexpected = [str(key) for key in got if key not in expected]
    if missing or unexpected:
        text = f"Missing arguments: {', '.join(missing)}. " if missing else ""
        text += f"Unexpected arguments: {', '.join(unexpected)}. " if unexpected else ""
        raise Error(f"Keys mismatch for {name}: {text}{cure}")
