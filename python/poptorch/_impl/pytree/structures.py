"""Nested arguments and results: flattened into tensors, rebuilt, and compared.

A structure consists of tensors (the leaves), tuples, named tuples, lists, dicts, dataclasses, types
with a registered parser, and constants (everything else). Its `Node` has all but the leaves.
"""

from __future__ import annotations

import abc
import copy
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from poptorch._impl.pytree.differences import difference
from poptorch_core import Error
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

CURE = (
    "The model is compiled for one signature: wrap it again for another one, or call destroy() "
    "on the wrapper before this call."
)


class ICustomArgParser(abc.ABC):
    """Defines how PopTorch extracts the tensors of a user's type and rebuilds an object."""

    @abc.abstractmethod
    def yieldTensors(self, struct) -> Iterator[torch.Tensor]:
        """Yields the tensors of `struct`, always in the same order."""

    @abc.abstractmethod
    def reconstruct(self, original_structure, tensor_iterator):
        """Returns a copy of `original_structure` with the next tensors of the iterator.

        Args:
            original_structure: An object of the type.
            tensor_iterator: An iterator over tensors, of which it takes as many as yieldTensors()
                yields.
        """


_parsers: dict[type, ICustomArgParser] = {}


def registerCustomArgParser(arg_data_type: type, arg_parser: ICustomArgParser | None) -> None:
    """Registers the parser of a type and its subclasses.

    Args:
        arg_data_type: The type.
        arg_parser: Its parser; None removes a parser.

    Raises:
        poptorch.Error: `arg_parser` is not an ICustomArgParser.
    """
    if arg_parser is None:
        _parsers.pop(arg_data_type, None)
        return
    if not isinstance(arg_parser, ICustomArgParser):
        raise Error(
            f"arg_parser must inherit from ICustomArgParser but is a {type(arg_parser).__name__}."
        )
    _parsers[arg_data_type] = arg_parser


def _parser_of(value) -> ICustomArgParser | None:
    for kind in type(value).__mro__:
        if kind in _parsers:
            return _parsers[kind]
    return None


parser_of = _parser_of  # the name by which other modules import it


@dataclass
class Node:
    """One level of a structure; `keys` are the positions, fields or keys of its `children`."""

    kind: str  # "tensor", "constant", "sequence", "fields", "dict", "dataclass", "custom"
    type: type
    keys: tuple = ()
    children: tuple[Node, ...] = ()
    value: Any = None  # a constant's value; the original object of a custom type or dataclass
    shape: torch.Size | None = None
    dtype: torch.dtype | None = None
    index: int = -1  # a tensor's index among the leaves
    name: str = ""  # its name in messages


def flatten(value, leaves: list[torch.Tensor], name: str = "") -> Node:
    """Appends the tensors of `value` to `leaves`; returns its structure."""
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        place = len(leaves) - 1
        # A tensor without shape is refused later, where its values are needed.
        has_shape = not isinstance(value, UninitializedTensorMixin) and not value.is_nested
        shape = value.shape if has_shape else None
        return Node("tensor", type(value), shape=shape, dtype=value.dtype, index=place, name=name)
    parser = _parser_of(value)
    if parser is not None:
        children = tuple(
            flatten(tensor, leaves, f"{name}[{i}]")
            for i, tensor in enumerate(parser.yieldTensors(value))
        )
        return Node("custom", type(value), tuple(range(len(children))), children, value, name=name)
    if isinstance(value, dict):
        keys: tuple = tuple(value)
        kind, members = "dict", [(f"{name}[{key!r}]", value[key]) for key in keys]
    elif isinstance(value, (tuple, list)):
        keys = tuple(range(len(value)))
        kind, members = "sequence", [(f"{name}[{i}]", item) for i, item in enumerate(value)]
        if hasattr(value, "_fields"):
            kind = "fields"
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        keys = tuple(field.name for field in dataclasses.fields(value))
        kind, members = "dataclass", [(f"{name}.{key}", getattr(value, key)) for key in keys]
    else:
        return Node("constant", type(value), value=value, name=name)
    children = tuple(flatten(item, leaves, label) for label, item in members)
    original = value if kind == "dataclass" else None
    return Node(kind, type(value), keys, children, original, name=name)


def walk(nodes: list[Node]) -> Iterator[Node]:
    """Yields the nodes and all their descendants, in the order of their leaves."""
    waiting = nodes[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children[::-1]


def unflatten(node: Node, leaves: Iterator):
    """Rebuilds a structure with the next leaves in place of its tensors."""
    if node.kind == "tensor":
        return next(leaves)
    if node.kind == "constant":
        return node.value
    if parser := _parser_of(node.value) if node.kind == "custom" else None:
        return parser.reconstruct(node.value, leaves)
    items = [unflatten(child, leaves) for child in node.children]
    if node.kind == "dict":
        pairs = zip(node.keys, items, strict=True)
        return dict(pairs) if node.type is dict else node.type(pairs)
    if node.kind == "dataclass":
        made = copy.copy(node.value)
        for key, item in zip(node.keys, items, strict=True):
            object.__setattr__(made, key, item)  # frozen ones too
        return made
    return node.type(*items) if node.kind == "fields" else node.type(items)


def check_same(expected: Node, got: Node) -> list[int]:
    """Returns the indices of the leaves of `got` in the order of the leaves of `expected`.

    Raises poptorch.Error unless the structures match.
    """
    name = expected.name
    if expected.kind != got.kind or (expected.kind != "tensor" and expected.type != got.type):
        raise Error(
            f"Type mismatch for {name}: expected {expected.type} but got {got.type}. {CURE}"
        )
    if expected.kind == "tensor":
        if expected.dtype != got.dtype:
            raise Error(
                f"Data type mismatch for {name}: expected {expected.dtype} but got {got.dtype}. "
                f"{CURE}"
            )
        if expected.shape != got.shape:
            raise Error(
                f"Shape mismatch for {name}: expected {expected.shape} but got {got.shape}. {CURE}"
            )
        return [got.index]
    if expected.kind == "constant":
        if expected.value is not got.value and expected.value != got.value:
            cure = "Pass a tensor for a number that changes. " if _is_number(got.value) else ""
            raise Error(
                f"Value mismatch for {name}: {difference(expected.value, got.value)}. {cure}{CURE}"
            )
        return []
    children = got.children
    if expected.kind == "dict":
        check_keys(name, expected.keys, got.keys)
        by_key = dict(zip(got.keys, children, strict=True))
        children = tuple(by_key[key] for key in expected.keys)
    elif len(expected.children) != len(children):
        raise Error(
            f"Length mismatch for {name}: expected {len(expected.children)} but got "
            f"{len(children)}. {CURE}"
        )
    return [
        place
        for pair in zip(expected.children, children, strict=True)
        for place in check_same(*pair)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_keys(name: str, expected: tuple, got: tuple) -> None:
    """Raises poptorch.Error unless both have the same keys."""
    missing = [str(key) for key in expected if key not in got]
    unexpected = [str(key) for key in got if key not in expected]
    if missing or unexpected:
        text = f"Missing arguments: {', '.join(missing)}. " if missing else ""
        text += f"Unexpected arguments: {', '.join(unexpected)}. " if unexpected else ""
        raise Error(f"Keys mismatch for {name}: {text}{CURE}")
